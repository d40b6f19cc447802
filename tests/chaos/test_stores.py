"""Stores that are damaged, lost or full: a server says less than it had, or the cluster gives it back, never lies."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from bulk.disk import SmallDisk
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError
from survival import store
from survival.cluster import NAMES, cluster
from survival.node import has_given_up, num_messages

from ..fleet.broker_view import connected

STREAM = "WHEEL"
LEFT, MIDDLE, RIGHT = NAMES
NUM = 50

Damage: TypeAlias = Callable[[Path, random.Random, str], Path | None]


def chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - it is to be told in advance


async def filled(connection: NatsClient, *, replicas: int = 1) -> None:
    config = {"name": STREAM, "subjects": ["wheel"], "num_replicas": replicas, "storage": "file"}
    assert await api(connection, f"STREAM.CREATE.{STREAM}", config)
    for number in range(NUM):
        await connection.jetstream().publish("wheel", body(number), timeout=10)


def body(number: int) -> bytes:
    return f"{number} ".encode() * 100


async def refused(connection: NatsClient) -> None:
    """Publish until that is refused."""
    while True:
        await connection.jetstream().publish("wheel", b"too much", timeout=2)


async def kept(connection: NatsClient) -> dict[int, bytes]:
    """What can still be read, by number."""
    found = {}
    for number in range(NUM):
        try:
            message = await connection.jetstream().get_msg(STREAM, number + 1)
        except NotFoundError:
            continue
        assert message.data is not None
        found[number] = message.data
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("damage", [store.truncate, store.flip])
async def test_a_server_whose_file_of_messages_is_damaged_starts_and_has_what_is_whole(
    tmp_path: Path, damage: Damage, seed: int
) -> None:
    with cluster(tmp_path, size=1, kind="processes") as alone:
        await alone.ready()
        node = alone.nodes[LEFT]
        async with connected(alone.url) as connection:
            await filled(connection)
        node.kill()
        before = {file: file.read_bytes() for file in store.blocks(node.store, STREAM)}
        damaged = damage(node.store, chance(seed), STREAM)
        assert {file for file in before if file.read_bytes() != before[file]} == {damaged}
        node.start()
        await alone.ready()
        async with connected(alone.url) as connection:
            left = await kept(connection)
            assert len(left) < NUM
            assert all(data == body(number) for number, data in left.items())
            await connection.jetstream().publish("wheel", b"it goes on")


def test_the_same_seed_does_the_same_damage(tmp_path: Path) -> None:
    found = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        for number in range(5):
            file = folder / "streams" / STREAM / "msgs" / f"{number}.blk"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(1000 * number))
        seeded = chance(7)
        for _ in range(5):
            store.truncate(folder, seeded)
            store.flip(folder, seeded, bits=3)
        found.append([file.read_bytes() for file in sorted(folder.rglob("*.blk"))])
    assert found[0] == found[1]


def test_nothing_is_damaged_where_nothing_is_kept(tmp_path: Path) -> None:
    assert store.truncate(tmp_path, chance(1)) is None
    assert store.flip(tmp_path, chance(1)) is None
    store.lose(tmp_path)


async def test_one_server_of_three_gets_back_from_the_others_what_was_damaged_or_lost(tmp_path: Path) -> None:
    with cluster(tmp_path, kind="processes") as three:
        await three.ready()
        async with connected(three.url) as connection:
            await filled(connection, replicas=3)
        node = three.nodes[MIDDLE]
        for damage in (store.truncate, store.flip, lost):
            node.kill()
            damage(node.store, chance(1), STREAM)
            node.start()
            await three.ready()
            async with asyncio.timeout(30):
                while await asyncio.to_thread(num_messages, node, STREAM) < NUM:  # noqa: ASYNC110 - servers tell nobody
                    await asyncio.sleep(0.05)
            async with connected(three.url) as connection:
                assert await kept(connection) == {number: body(number) for number in range(NUM)}


def lost(folder: Path, _: random.Random, __: str) -> None:
    store.lose(folder)
    assert not [*folder.iterdir()]


async def test_a_server_whose_disk_is_full_refuses_and_takes_again_once_it_is_free_and_started_anew(
    tmp_path: Path,
) -> None:
    with cluster(tmp_path, size=1, kind="processes", disk_mb=32) as alone:
        node, small = alone.nodes[LEFT], alone.disks[LEFT]
        if not isinstance(small, SmallDisk):
            pytest.skip("no file system can be mounted here")
        assert node.store == small.folder
        await alone.ready()
        async with connected(alone.url) as connection:
            await filled(connection)
            small.fill()
            with pytest.raises(NatsError):
                await refused(connection)
        small.free()
        assert await asyncio.to_thread(has_given_up, node), "it does not try again by itself"
        small.fill()
        await asyncio.to_thread(node.stop)
        small.free()
        node.start()
        await alone.ready()
        assert not await asyncio.to_thread(has_given_up, node)
        async with connected(alone.url) as connection:
            assert await kept(connection) == {number: body(number) for number in range(NUM)}
            await connection.jetstream().publish("wheel", b"it goes on")
