"""What breaks between places, and is mended: packets that vanish, one way or both, and links that are slow.

It knows nftables and tc, and uses them in the namespaces of the places alone. It does not know who runs there. Whoever
is no place, such as the process that drives a run, stays connected with everybody, so that it can look. Methods block,
and raise NotPermitted where the kernel or a program is missing.

What vanishes does so where it would arrive, so that who sends notices nothing: a rule where it is sent would be an
error of the local network to the sender's TCP, which it treats otherwise than a loss.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TypeAlias

from survival.place import NotPermitted, Place

Pair: TypeAlias = tuple[str, str]

_RULES = """\
table ip headrace_links
delete table ip headrace_links
table ip headrace_links {{
  chain arriving {{
    type filter hook input priority filter; policy accept;
{}
  }}
}}
"""
# What waits for its turn on a slow link: a second of it, as cheap routers have.
_QUEUE = "1s"
_BURST = "16kb"


class Links:
    """All between the places of a run, whole at first; each call adds to what the ones before have done.

    Several threads may call.
    """

    def __init__(self, places: Mapping[str, Place]) -> None:
        """Take places that all have namespaces.

        Raises:
            ValueError: One has none: what is done to its links would be done to this machine.
        """
        here = [place.name for place in places.values() if place.namespace is None]
        if here:
            raise ValueError(f"these places have no network namespace: {', '.join(here)}")
        self._places = dict(places)
        self._cut: set[Pair] = set()
        self._lossy: dict[str, float] = {}
        self._slow: dict[str, int] = {}
        self._lock = Lock()

    def cut(self, one: str, other: str) -> None:
        """Let all vanish between two places.

        Raises:
            KeyError: There is no such place.
        """
        self._vanish({(one, other), (other, one)})

    @property
    def names(self) -> list[str]:
        """Of all places that it is between."""
        return list(self._places)

    def cut_one_way(self, from_: str, to: str) -> None:
        """Let all vanish that one place sends to another, which it still hears.

        Raises:
            KeyError: There is no such place.
        """
        self._vanish({(from_, to)})

    def isolate(self, name: str) -> None:
        """Cut one place from all others.

        Raises:
            KeyError: There is no such place.
        """
        others = self._others(name)
        self._vanish({(name, other) for other in others} | {(other, name) for other in others})

    def lossy(self, name: str, percent: float) -> None:
        """Let so many of the packets between a place and all others vanish, each way; 0 is none.

        Raises:
            KeyError: There is no such place.
            ValueError: That is no share.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"percent must be within 0 and 100, not {percent}")
        others = self._others(name)
        with self._lock:
            self._lossy[name] = percent
            self._filter({name, *others})

    def slow(self, name: str, kbit: int) -> None:
        """Let a place send no more than this to all together, this process included, in kilobits a second.

        Raises:
            KeyError: There is no such place.
            ValueError: It is not positive.
        """
        if kbit <= 0:
            raise ValueError(f"kbit must be positive, not {kbit}")
        place = self._places[name]
        with self._lock:
            self._slow[name] = kbit
            if place.is_there:
                with _unless_gone(place):
                    _shape(place, kbit)

    def mend(self, name: str | None = None) -> None:
        """Let the links of a place be whole again, or all of them.

        Raises:
            KeyError: There is no such place.
        """
        all_ = self._places if name is None else {name: self._places[name]}
        with self._lock:
            self._cut = {pair for pair in self._cut if not all_.keys() & set(pair)}
            self._lossy = {each: share for each, share in self._lossy.items() if each not in all_}
            self._filter(set(self._places))
            for each, place in all_.items():
                if self._slow.pop(each, None) is not None and place.is_there:
                    with _unless_gone(place):
                        _unshape(place)

    def renew(self, name: str) -> None:
        """Do it all again for a place whose namespace is a new one.

        Raises:
            KeyError: There is no such place.
        """
        place = self._places[name]
        with self._lock:
            self._filter({name})
            if name in self._slow:
                _shape(place, self._slow[name])

    def _others(self, name: str) -> set[str]:
        self._places[name]  # raises where there is none
        return self._places.keys() - {name}

    def _vanish(self, pairs: set[Pair]) -> None:
        for pair in pairs:
            for name in pair:
                self._places[name]  # raises where there is none, before anything is done
        with self._lock:
            self._cut |= pairs
            self._filter({to for _, to in pairs})

    def _filter(self, names: set[str]) -> None:
        for name in names:
            place = self._places[name]
            # Who is away has it done by `renew` when it is back.
            if place.is_there:
                with _unless_gone(place):
                    place.run("nft", "-f", "-", text=self._rules(name))

    def _rules(self, name: str) -> str:
        """All of a place, instead of those that it has."""
        lines = []
        for source in sorted(self._others(name)):
            packets = f"ip saddr {{ {', '.join(self._places[source].addresses)} }}"
            if (source, name) in self._cut:
                lines.append(f"{packets} drop")
            for end in (source, name):
                # In a hundredth of a percent, for nft counts by whole numbers.
                share = round(100 * self._lossy.get(end, 0))
                if share:
                    lines.append(f"{packets} numgen random mod 10000 < {share} drop")
        # Added first, for one that is not there cannot be deleted; nft does all of it at once or nothing.
        return _RULES.format("\n".join(lines))


@contextmanager
def _unless_gone(place: Place) -> Iterator[None]:
    """A place may go with its container in any moment, and then needs nothing."""
    try:
        yield
    except NotPermitted:
        if place.is_there:
            raise


def _shape(place: Place, kbit: int) -> None:
    for device in _devices(place):
        limit = ("rate", f"{kbit}kbit", "burst", _BURST, "latency", _QUEUE)
        place.run("tc", "qdisc", "replace", "dev", device, "root", "tbf", *limit)


def _unshape(place: Place) -> None:
    for device in _devices(place):
        found = json.loads(place.run("tc", "-json", "qdisc", "show", "dev", device))
        if any(each["kind"] == "tbf" for each in found):
            place.run("tc", "qdisc", "delete", "dev", device, "root")


def _devices(place: Place) -> list[str]:
    """Its network interfaces that lead elsewhere."""
    found = json.loads(place.run("ip", "-json", "link", "show", "up"))
    return [each["ifname"] for each in found if "LOOPBACK" not in each["flags"]]
