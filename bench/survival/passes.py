"""Access of each process of a trial: a user of its role, whose credentials expire when a plan says so.

It knows files and times. Servers know JWTs by their end alone, and a connection keeps the one that it was made with: so
each file has, at any time, credentials that end with the next fault of its plan. What a fault adds is that nobody
writes new ones when they end. How JWTs are made is issuer.py's.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace_contracts.access import Role, Scope, permissions
from headrace_contracts.credentials import Credentials

from survival.faults import Fault, place_of
from survival.issuer import Issuer, new_user

_ROLES: Mapping[str, Role] = {"worker": "worker", "caller": "query", "producer": "bulk"}
_LONG_S = 24 * 3600
# Between new credentials and their end: servers count in whole seconds.
_LEAST_S = 2


class Pass:
    """Of one place.

    Attributes:
        file: For whoever connects from there.
    """

    def __init__(self, issuer: Issuer, name: str, role: Role, scope: Scope, folder: Path) -> None:
        """Write its files, with credentials that last.

        Args:
            issuer: Of its credentials.
            name: Of the place and of its user.
            role: Of that.
            scope: Of the role.
            folder: For its files, which is there.
        """
        self.file = folder / f"{name}.toml"
        self._creds = folder / f"{name}.creds"
        self._issuer = issuer
        self._user = new_user()
        self._granted = permissions(role, name, scope)
        self._ends: Sequence[int] = ()
        self.renew()
        _write(self.file, f'name = "{name}"\ncreds_file = "{self._creds.name}"\n')

    @property
    def credentials(self) -> Credentials:
        """What stands in the file."""
        return Credentials.read(self.file)

    def end_at(self, ends: Sequence[int]) -> None:
        """Have credentials end then and then, in Unix seconds; each time, new ones are to be written by `renew`."""
        self._ends = sorted(ends)
        self.renew()

    def renew(self) -> None:
        """Write credentials that last until they are to end the next time."""
        now_s = time.time()
        until_s = next((end_s for end_s in self._ends if end_s > now_s), int(now_s) + _LONG_S)
        _write(self._creds, self._issuer.creds(self._user, self._granted, until_s))


class Passes:
    """Of all places.

    Attributes:
        settings: What servers are told of them.
        by_name: Those of the places.
    """

    def __init__(self, places: Sequence[str], scope: Scope, folder: Path) -> None:
        """Write them.

        Args:
            places: Names, such as worker-0.
            scope: Of all their roles.
            folder: For their files; it is not there yet.
        """
        folder.mkdir()
        issuer = Issuer()
        self.settings = issuer.settings
        self.by_name = {name: Pass(issuer, name, _role(name), scope, folder) for name in places}
        self._ends: Mapping[Fault, End] = {}

    def follow(self, plan: Sequence[Fault], begins_s: float) -> None:
        """Have credentials end by a plan whose faults begin then, in Unix seconds.

        Whoever has connected before keeps what he has until he connects again.
        """
        self._ends = ends(plan, [*self.by_name], begins_s)
        for name, each in self.by_name.items():
            each.end_at([end.at_s for end in self._ends.values() if end.place == name])

    def end_of(self, fault: Fault) -> "End":
        """When and where a fault of the plan begins.

        Raises:
            ValueError: It is not of the plan.
        """
        if fault not in self._ends:
            raise ValueError(f"no credentials end with {fault}: it is not of the plan that they follow")
        return self._ends[fault]


@dataclass(frozen=True, slots=True)
class End:
    """Of somebody's credentials.

    Attributes:
        place: Whose.
        at_s: When, in Unix seconds.
    """

    place: str
    at_s: int


def ends(plan: Sequence[Fault], places: Sequence[str], begins_s: float) -> dict[Fault, End]:
    """When credentials end by a plan: those of one place one after the other, each time when new ones are there.

    Args:
        plan: Of which others than those of credentials are left out.
        places: Names of all.
        begins_s: Unix seconds in which its time begins.
    """
    found, free_s = {}, dict.fromkeys(places, 0)
    for fault in sorted(plan, key=lambda fault: fault.at_s):
        if not fault.kind.startswith("credentials"):
            continue
        place = place_of(fault, places)
        at_s = max(math.ceil(begins_s + fault.at_s), free_s[place])
        found[fault] = End(place, at_s)
        free_s[place] = math.ceil(at_s + fault.lasts_s) + _LEAST_S
    return found


def _role(place: str) -> Role:
    return _ROLES[place.partition("-")[0]]


def _write(file: Path, text: str) -> None:
    """Put it there whole: somebody may read it at any time. Nobody else may."""
    part = file.with_name(f".{file.name}.part")
    part.touch(0o600)
    part.write_text(text, "utf-8")
    part.replace(file)
