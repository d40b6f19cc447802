"""Everyone has a name, ours say what they compute in, and a short run leaves second choices out."""

import itertools

import pytest
from contenders import DTYPES, PEER_DTYPES, Dtype, PeerDtype, chosen, entrants

REMOTE = {"vllm": "http://127.0.0.1:8000", "tei": "http://127.0.0.1:8080"}
BOTH = list(itertools.product(DTYPES, PEER_DTYPES))


def names(ours: Dtype, best: PeerDtype, *wanted: str, both_dtypes: bool = True) -> list[str]:
    return [each.name for each in chosen(entrants(ours, best, {}), frozenset(wanted), both_dtypes=both_dtypes)]


@pytest.mark.parametrize(("ours", "best"), BOTH)
def test_everyone_has_a_name_and_a_label_of_their_own_and_ours_come_first(ours: Dtype, best: PeerDtype) -> None:
    everyone = list(entrants(ours, best, REMOTE))
    for of in ("name", "label"):
        found = [getattr(entrant, of) for entrant in everyone]
        assert len(set(found)) == len(found)
    assert sorted(not entrant.is_ours for entrant in everyone) == [not entrant.is_ours for entrant in everyone]
    assert all(entrant.script.exists() for entrant in everyone)


@pytest.mark.parametrize(("ours", "best"), BOTH)
def test_ours_compute_in_our_dtype_and_peers_in_one_that_they_have(ours: Dtype, best: PeerDtype) -> None:
    everyone = {entrant.name: entrant for entrant in entrants(ours, best, REMOTE)}
    assert everyone["headrace"].dtype == everyone["headrace-nats"].dtype == ours
    assert {each.dtype for each in everyone.values() if not each.is_ours} == set(PEER_DTYPES)
    assert {"sentence-transformers-fp32", "sentence-transformers-bf16", "openvino-bf16"} <= everyone.keys()
    assert {name for name in everyone if name.startswith("infinity")} == {
        "infinity-fp32" if best == "float32" else "infinity-bf16"
    }


@pytest.mark.parametrize("ours", DTYPES)
def test_ours_in_float32_is_beside_ours_where_that_is_another(ours: Dtype) -> None:
    mine = {entrant.name: entrant for entrant in entrants(ours, "float32", {}) if entrant.is_ours}
    assert ("headrace-fp32" in mine) == (ours != "float32")
    in_float32 = [entrant.label for entrant in mine.values() if entrant.dtype == "float32" and not entrant.is_server]
    assert in_float32 == ["Headrace, in process, fp32"]


def test_labels_say_what_ours_compute_in() -> None:
    labels = [entrant.label for entrant in entrants("float16", "float32", {}) if entrant.is_ours]
    assert labels == ["Headrace, in process, fp16", "Headrace, in process, fp32", "Headrace over NATS, fp16"]


@pytest.mark.parametrize(("ours", "best"), BOTH)
def test_a_short_run_has_everyone_once_in_the_dtype_that_is_faster(ours: Dtype, best: PeerDtype) -> None:
    left_out = set(names(ours, best)) - set(names(ours, best, both_dtypes=False))
    slower = "bf16" if best == "float32" else "fp32"
    peers = {f"sentence-transformers-{slower}", f"openvino-{slower}"}
    assert left_out == (peers if ours == "float32" else peers | {"headrace-fp32"})


def test_a_second_choice_that_is_asked_for_takes_part_in_a_short_run() -> None:
    for wanted in (["headrace", "headrace-fp32"], ["openvino-bf16"]):
        assert names("float16", "float32", *wanted, both_dtypes=False) == wanted
