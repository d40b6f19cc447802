"""What a report says, and what its files are called."""

from dataclasses import replace

import pytest
from reporting import names, readme, tables, verdicts, words

from .results import changed, in_float16, result, without_peers


@pytest.mark.parametrize(
    ("processor", "family"),
    [
        ("Intel(R) Xeon(R) Processor", "xeon"),
        ("INTEL(R) XEON(R) PLATINUM 8581C CPU @ 2.60GHz", "xeon"),
        ("AMD EPYC 9B45", "epyc"),
        ("AMD Ryzen 9 7950X 16-Core Processor", "ryzen"),
        ("11th Gen Intel(R) Core(TM) i7-1185G7 @ 3.00GHz", "i7"),
        ("Apple M2 Pro", "m2"),
        ("Neoverse-N1", "neoverse"),
        ("QEMU Virtual CPU version 2.5+", "machine"),
        ("x86_64", "machine"),
        ("unknown", "machine"),
        ("", "machine"),
    ],
)
def test_a_processor_has_one_word(processor: str, family: str) -> None:
    assert names.family(processor) == family


def test_files_are_called_by_date_and_machine_and_a_quick_run_says_so() -> None:
    found = result()
    assert names.stem(found) == "2026-11-29-epyc-2-cores"
    assert names.stem(replace(found, mode="quick")) == "2026-11-29-epyc-2-cores-quick"
    assert names.stem(replace(found, machine=replace(found.machine, cores=1))) == "2026-11-29-epyc-1-core"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.number(1.3149), "1.31"),
        (words.number(26.42), "26.4"),
        (words.number(1309.4), "1,309"),
        (words.times(1.1249), "1.12×"),
        (words.times(12.34), "12.3×"),
        (words.times(0.0144), "0.014×"),
        (words.share(0.719), "72 %"),
        (words.share(0.0182), "1.8 %"),
        (words.divergence(0.021), "2.1e-2"),
        (words.divergence(0.001), "1e-3"),
        (words.listing(["a", "b", "c"]), "a, b and c"),
        (words.listing(["a"]), "a"),
        (words.cases(["query", "128 tokens", "512 tokens"]), "query, 128 and 512 tokens"),
        (words.cases(["1 client", "2 clients", "16 clients"]), "1, 2 and 16 clients"),
        (words.cases(["query", "25 documents"]), "query and 25 documents"),
        (words.spread(0.9, 1.1), "0.90 to 1.10"),
        (words.spread(0.9, 0.9), ""),
    ],
)
def test_numbers_and_lists_read_well(said: str, expected: str) -> None:
    assert said == expected


def test_ahead_level_and_behind_are_told_apart_in_one_sentence() -> None:
    found = result()
    ways = dict(verdicts.sentences(found, found.suites[0]))
    assert ways["In process"].startswith("ahead of every library at query (1.1")
    assert "; level with OpenVINO bf16 at 128 tokens (1.0" in ways["In process"]
    assert "; behind OpenVINO bf16 at 512 tokens (0.7" in ways["In process"]
    assert ways["Over the network"].startswith("ahead of every server in every case (")
    assert ways["Over the network, against everyone"].startswith("behind OpenVINO bf16 in every case (")


def test_a_suite_of_one_case_does_not_name_it() -> None:
    found = result()
    assert dict(verdicts.sentences(found, found.suites[2]))["Over the network"].startswith("ahead of every server (")


def test_where_it_is_behind_is_said_of_every_suite_and_peer() -> None:
    lines = dict(verdicts.where_behind(result()))
    assert "behind OpenVINO bf16 at 512 tokens (0.7" in lines["Low-latency embedding, in process"]
    everyone = lines["High concurrency, over the network, against everyone"]
    assert "behind OpenVINO bf16 at 1, 2 and 4 clients" in everyone
    assert "behind sentence-transformers bf16 at 1 client" in everyone


def test_ours_that_is_wrong_is_an_alarm_and_a_peer_that_is_wrong_is_not() -> None:
    assert not list(verdicts.alarms(changed(result(), "openvino", 0, 2, is_right=False, divergence=0.021)))
    (alarm,) = verdicts.alarms(changed(result(), "headrace", 0, 2, is_right=False, divergence=0.021))
    assert alarm == (
        "Low-latency embedding, 512 tokens: Headrace, in process is wrong: divergence 2.1e-2, the bound is 1e-3"
    )


def test_ours_that_broke_off_or_did_not_start_is_an_alarm() -> None:
    found = changed(result(), "headrace-nats", 3, 1, took=None, is_right=False, reason="no answer in 300 s")
    (alarm,) = verdicts.alarms(found)
    assert alarm == "High concurrency, 2 clients: Headrace over NATS is out: no answer in 300 s"
    first = replace(found.contenders[0], status="failed", reason="no such file")
    failed = replace(found, contenders=(first, *found.contenders[1:]))
    assert next(verdicts.alarms(failed)) == "Headrace, in process failed: no such file"


def test_without_peers_it_says_how_to_get_some() -> None:
    found = without_peers(result())
    assert list(verdicts.sentences(found, found.suites[0])) == [
        ("Headrace alone", "no peer took part: `make bench-peers` installs them")
    ]
    assert "make bench-peers" in verdicts.nowhere(found)
    assert not list(verdicts.where_behind(found))


def test_a_field_without_right_rows_says_so() -> None:
    found = changed(result(), "infinity", 0, 2, is_right=False, divergence=0.3)
    said = dict(verdicts.sentences(found, found.suites[0]))["Over the network"]
    assert said.endswith("; no server gave right rows at 512 tokens")
    ours = changed(result(), "headrace-nats", 0, 2, is_right=False, divergence=0.3)
    assert dict(verdicts.sentences(ours, ours.suites[0]))["Over the network"].endswith(
        "; Headrace gave no right rows at 512 tokens"
    )


def test_a_table_says_in_which_dtype_each_of_ours_ran_and_has_its_ratios() -> None:
    found = in_float16(result())
    rows = {row.name: row for _, group in tables.groups(found, found.suites[0]) for row in group}
    mine = [name for name, row in rows.items() if row.tone == "ours" and name.startswith("Headrace")]
    assert mine == ["Headrace, in process, fp16", "Headrace, in process, fp32", "Headrace over NATS, fp16"]
    assert all(cell.ratio.endswith("×") for name in mine for cell in rows[name].cells)


def test_sentences_and_the_share_of_the_limit_are_of_ours_in_its_own_dtype() -> None:
    before, found = result(), in_float16(result(), 0.5)
    for one, other in zip(before.suites, found.suites, strict=True):
        assert list(verdicts.sentences(found, other)) == list(verdicts.sentences(before, one))
        assert list(tables.limits(found, other)) == list(tables.limits(before, one))
    assert list(verdicts.where_behind(found)) == list(verdicts.where_behind(before))


def test_ours_in_float32_that_is_wrong_is_an_alarm_too() -> None:
    (alarm,) = verdicts.alarms(changed(in_float16(result()), "headrace-fp32", 0, 2, is_right=False, divergence=0.021))
    assert "Headrace, in process, fp32 is wrong" in alarm


def test_the_readme_says_what_ours_computes_in_where_that_is_not_float32() -> None:
    said = "Headrace computes in float16 in linear layers, float32 in all else; the report has it in float32, too."
    assert said in readme.block(in_float16(result()), "report.md")
    assert "Headrace computes in bfloat16." in readme.block(result(), "report.md")
    plain = result()
    plain = replace(plain, machine=replace(plain.machine, dtype="float32"))
    assert "computes in" not in readme.block(plain, "report.md")
