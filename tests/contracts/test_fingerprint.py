from typing import Any

import pytest
from headrace_contracts import PairTemplate
from headrace_contracts.fingerprint import fingerprint

PARTS: dict[str, Any] = {"tokenizer": "abcd", "revision": "0123", "pooling": "mean", "max_length": 512}
TEMPLATE = {"prefix": "Judge:\n", "body": "{query}\n{document}", "suffix": "\n"}


def test_it_is_the_sha_256_of_its_parts_one_a_line() -> None:
    # printf 'abcd\n0123\nmean\n512' | sha256sum
    assert fingerprint(**PARTS) == "add41fbadcfd6c8b89388cf832bc0d84"


@pytest.mark.parametrize(
    ("part", "other"), [("tokenizer", "abce"), ("revision", "0124"), ("pooling", "cls"), ("max_length", 256)]
)
def test_every_part_matters(part: str, other: object) -> None:
    assert fingerprint(**PARTS | {part: other}) != fingerprint(**PARTS)


def test_a_pair_template_adds_the_hash_of_each_of_its_parts() -> None:
    # (printf 'abcd\n0123\nmean\n512'; for part in 'Judge:\n' '{query}\n{document}' '\n'; do
    #   printf '\n%s' "$(printf "$part" | sha256sum | cut -c-64)"; done) | sha256sum
    assert fingerprint(**PARTS, pair_template=PairTemplate(**TEMPLATE)) == "02f5b4291eff06542f39ec4ca009fa35"


@pytest.mark.parametrize("part", TEMPLATE)
def test_every_part_of_a_pair_template_matters(part: str) -> None:
    changed = PairTemplate(**TEMPLATE | {part: TEMPLATE[part] + "{document}"})
    assert fingerprint(**PARTS, pair_template=changed) != fingerprint(**PARTS, pair_template=PairTemplate(**TEMPLATE))


def test_what_moves_from_one_part_of_a_pair_template_to_the_next_matters() -> None:
    moved = PairTemplate(**TEMPLATE | {"prefix": "Judge:", "body": "\n" + TEMPLATE["body"]})
    assert fingerprint(**PARTS, pair_template=moved) != fingerprint(**PARTS, pair_template=PairTemplate(**TEMPLATE))


def test_no_pair_template_and_an_empty_one_differ() -> None:
    empty = PairTemplate(prefix="", body="", suffix="")
    assert fingerprint(**PARTS, pair_template=empty) != fingerprint(**PARTS)


def test_parts_do_not_run_into_each_other() -> None:
    assert fingerprint(**PARTS | {"tokenizer": "abcd0", "revision": "123"}) != fingerprint(**PARTS)
