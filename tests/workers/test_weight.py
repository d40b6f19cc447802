import pytest
from headrace_workers.weight import Weight


def test_before_anything_came_a_token_takes_what_it_does_in_texts_of_eighty() -> None:
    assert Weight().bytes_per_token == 8


def test_queries_make_a_token_heavy_and_large_chunks_make_it_light() -> None:
    queries, chunks = Weight(), Weight()
    for _ in range(3000):
        queries.add(368, 10)
        chunks.add(4427, 1024)
    assert queries.bytes_per_token == pytest.approx(36.8, rel=0.05)
    assert chunks.bytes_per_token == pytest.approx(4.32, rel=0.01)


def test_what_is_queued_is_found_to_be_more_after_a_few_large_chunks() -> None:
    weight = Weight()
    for _ in range(5000):
        weight.add(368, 10)
    for _ in range(50):
        weight.add(4427, 1024)
    assert weight.bytes_per_token < 36.8 / 2


def test_a_mix_weighs_what_all_its_bytes_and_tokens_do() -> None:
    weight = Weight()
    for _ in range(10_000):
        weight.add(368, 10)
        weight.add(842, 128)
    assert weight.bytes_per_token == pytest.approx((368 + 842) / 138, rel=0.01)
