"""Settings of one nats-server of a run: as ops/nats/ has them, but for TLS, users and where it listens.

It knows nats-server's file. It does not know how the server is run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_OPS = Path(__file__).parents[2] / "ops" / "nats"
_LIMITS = "limits.conf"
_NAME = "nats.conf"

# sync_interval as in ops/nats: what is acknowledged is on the disk, so that only a broken one loses it.
_ALONE = """\
server_name: {name}
server_tags: ["{name}"]
listen: "{client}"
http: "{monitor}"
include {limits}
jetstream {{
  store_dir: "{store}"
  max_memory_store: 2GB
  max_file_store: 50GB
  sync_interval: always
}}
"""
_ADVERTISED = 'client_advertise: "{advertised}"\n'
_CLUSTER = """\
cluster {{
  name: headrace
  listen: "{route}"
  routes: [{routes}]
}}
"""


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a server listens, each with its port.

    Attributes:
        client: For clients.
        monitor: For who asks it of itself.
        route: For the other servers.
    """

    client: str
    monitor: str
    route: str


def write(
    folder: Path,
    name: str,
    at: Ends,
    *,
    routes: Sequence[str],
    store: str,
    advertised: str | None = None,
    users: str = "",
) -> Path:
    """Write them, and what they include; returns the file.

    Args:
        folder: For the files, which is there.
        name: Of the server, and its tag.
        at: Where it listens.
        routes: Where the others do, each with its port; none where it is alone.
        store: Folder for what it keeps, as the server sees it.
        advertised: Where clients are told that it listens; None is where it does.
        users: Who is let in, in its own words; nothing lets in all.
    """
    (folder / _LIMITS).write_text((_OPS / _LIMITS).read_text("utf-8"), "utf-8")
    text = _ALONE.format(name=name, client=at.client, monitor=at.monitor, limits=_LIMITS, store=store) + users
    if advertised is not None:
        text += _ADVERTISED.format(advertised=advertised)
    if routes:
        text += _CLUSTER.format(route=at.route, routes=", ".join(f'"nats://{each}"' for each in routes))
    file = folder / _NAME
    file.write_text(text, "utf-8")
    return file
