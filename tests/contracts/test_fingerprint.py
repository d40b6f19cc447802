from typing import Any

import pytest
from headrace_contracts.fingerprint import fingerprint

PARTS: dict[str, Any] = {"tokenizer": "abcd", "revision": "0123", "pooling": "mean", "max_length": 512}


def test_it_is_the_sha_256_of_its_parts_one_a_line() -> None:
    # printf 'abcd\n0123\nmean\n512' | sha256sum
    assert fingerprint(**PARTS) == "add41fbadcfd6c8b89388cf832bc0d84"


@pytest.mark.parametrize(
    ("part", "other"), [("tokenizer", "abce"), ("revision", "0124"), ("pooling", "cls"), ("max_length", 256)]
)
def test_every_part_matters(part: str, other: object) -> None:
    assert fingerprint(**PARTS | {part: other}) != fingerprint(**PARTS)


def test_parts_do_not_run_into_each_other() -> None:
    assert fingerprint(**PARTS | {"tokenizer": "abcd0", "revision": "123"}) != fingerprint(**PARTS)
