import pytest
from headrace_contracts import InvalidName
from headrace_workers import WorkerConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step_tokens", 0),
        ("budget_tokens", -1),
        ("max_chunk_tokens", 0),
        ("shards", 0),
        ("replicas", 0),
        ("max_deliveries", 0),
        ("online_ack_wait_s", 0),
        ("batch_ack_wait_s", float("nan")),
        ("pull_expires_s", float("inf")),
        ("batch_floor", 1.0),
        ("batch_floor", -0.1),
        ("drain_timeout_s", -1),
        ("online_queue_s", 0),
        ("online_queue_s", float("inf")),
        ("online_queue_s", float("nan")),
        ("online_max_bytes", -1),
        ("announce_s", 0),
    ],
)
def test_a_bad_setting_is_refused_and_named(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} is {value}"):
        WorkerConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["name", "worker"])
def test_a_name_that_cannot_be_in_a_subject_is_refused(field: str) -> None:
    with pytest.raises(InvalidName, match="a b"):
        WorkerConfig(**{field: "a b"})  # type: ignore[arg-type]


def test_the_default_worker_name_can_be_in_a_subject() -> None:
    assert WorkerConfig().worker


@pytest.mark.parametrize("placement", [("left",), ("left", "middle", "right", "right")])
def test_a_placement_has_one_tag_for_each_shard(placement: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"placement has {len(placement)} tags for 3 shards"):
        WorkerConfig(shards=3, placement=placement)


@pytest.mark.parametrize("text", ["left,,right", "left,a b,right", ","])
def test_a_tag_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="placement has"):
        WorkerConfig(shards=3, placement=WorkerConfig.read_placement(text))


def test_a_placement_is_read_from_a_list_with_commas_and_none_from_nothing() -> None:
    assert WorkerConfig.read_placement("az:1, az:2") == ("az:1", "az:2")
    assert WorkerConfig.read_placement(" ") == ()
