from dataclasses import replace

import pytest
from headrace_contracts import topology
from headrace_contracts.access import roles_that_may
from headrace_workers.provision import Topology
from headrace_workers.upkeep import Part, Sizes, parts

SIZES = Sizes(batch_bytes=10, results_bytes=20, results_age_s=30, dead_bytes=40, dead_age_s=50)
WANTED = Topology(
    streams=(
        topology.online_stream("m", 0, 0, max_msg_size=9),
        topology.batch_stream("m", max_msg_size=9),
        topology.results_stream(),
        topology.dead_stream(),
    ),
    consumers=(topology.online_consumer("m", 0, 0), topology.batch_consumer("m")),
    shards={},
)


def all_parts() -> tuple[Part, ...]:
    return tuple(parts(WANTED.streams, topology.buckets(), WANTED.consumers))


def test_sizes_are_those_of_their_nats_streams_and_online_ones_are_left_to_the_workers() -> None:
    online, batch, results, dead = (SIZES.of(stream) for stream in WANTED.streams)
    assert online == WANTED.streams[0]
    assert batch.max_bytes == 10
    assert (results.max_bytes, results.max_age_s) == (20, 30)
    assert (dead.max_bytes, dead.max_age_s) == (40, 50)


@pytest.mark.parametrize("name", ["batch_bytes", "results_bytes", "dead_bytes", "results_age_s", "dead_age_s"])
def test_a_size_that_is_none_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is -1"):
        replace(SIZES, **{name: -1})


@pytest.mark.parametrize("part", all_parts(), ids=lambda part: part.name)
def test_an_operator_may_make_each_call(part: Part) -> None:
    for call in (part.info, part.create, part.update):
        assert "operator" in roles_that_may("publish", f"$JS.API.{call}")


def test_what_a_consumer_stands_in_is_made_before_it() -> None:
    made: set[str] = set()
    for part in all_parts():
        assert part.kind == "NATS stream" or part.name.partition(".")[0] in made
        made.add(part.name)
