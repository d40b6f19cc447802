import platform
import sys

import pytest
from headrace_engine.errors import Misconfigured
from headrace_engine.native import compiler, processor
from headrace_engine.native.processor import Unfit, best_level, chosen

HASWELL = "fpu sse4_2 movbe popcnt avx f16c fma abm bmi1 avx2 bmi2"
SKYLAKE = f"{HASWELL} avx512f avx512dq avx512cd avx512bw avx512vl"
ZEN4 = f"{SKYLAKE} avx512_bf16 avx512_vnni"
SAPPHIRE_RAPIDS = f"{ZEN4} avx512_fp16"


def cpuinfo(*processors: str) -> str:
    return "\n".join(
        f"processor\t: {index}\nmodel name\t: one\nflags\t\t: {flags}\nvmx flags\t: vnmi\nbugs\t\t: spectre_v1\n"
        for index, flags in enumerate(processors)
    )


@pytest.mark.parametrize(
    ("flags", "level"),
    [(HASWELL, "avx2"), (SKYLAKE, "avx512"), (ZEN4, "avx512bf16"), (SAPPHIRE_RAPIDS, "avx512fp16")],
)
def test_a_processor_runs_the_best_level_that_it_has_all_flags_of(flags: str, level: str) -> None:
    assert best_level("linux", "x86_64", cpuinfo(flags, flags)) == level


@pytest.mark.parametrize("flag", ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
def test_a_part_of_avx512_is_none(flag: str) -> None:
    assert best_level("linux", "x86_64", cpuinfo(SAPPHIRE_RAPIDS.replace(f" {flag}", ""))) == "avx2"


def test_float16_without_bfloat16_is_left_alone() -> None:
    assert best_level("linux", "x86_64", cpuinfo(SAPPHIRE_RAPIDS.replace(" avx512_bf16", ""))) == "avx512"


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("avx2", "AVX2"),
        ("fma", "FMA"),
        ("f16c", "F16C"),
        ("bmi1", "BMI1"),
        ("bmi2", "BMI2"),
        ("movbe", "MOVBE"),
        ("abm", "LZCNT"),
    ],
)
def test_a_flag_that_every_level_needs_is_named_where_it_is_lacking(flag: str, name: str) -> None:
    assert best_level("linux", "x86_64", cpuinfo(ZEN4.replace(f" {flag}", ""))) == Unfit(f"the processor has no {name}")


def test_an_old_processor_is_told_the_flag_that_people_know() -> None:
    assert best_level("linux", "x86_64", cpuinfo("fpu sse4_2 avx")) == Unfit("the processor has no AVX2")


def test_a_machine_of_unlike_processors_runs_what_all_of_them_run() -> None:
    assert best_level("linux", "x86_64", cpuinfo(ZEN4, HASWELL, SKYLAKE)) == "avx2"
    assert best_level("linux", "x86_64", cpuinfo(ZEN4, "fpu")) == Unfit("the processor has no AVX2")


@pytest.mark.parametrize(
    ("system", "machine"), [("darwin", "arm64"), ("linux", "aarch64"), ("darwin", "x86_64"), ("win32", "AMD64")]
)
def test_other_systems_and_machines_have_no_kernels(system: str, machine: str) -> None:
    reason = f"the kernels are for x86-64 Linux, and this is {system} {machine}"
    assert best_level(system, machine, cpuinfo(ZEN4)) == Unfit(reason)


def test_a_machine_that_tells_nothing_of_its_processors_has_no_kernels() -> None:
    assert best_level("linux", "x86_64", "") == Unfit("/proc/cpuinfo lists no flags of a processor")


def test_without_a_wish_the_best_level_is_taken() -> None:
    assert chosen("", "avx512") == "avx512"
    assert chosen("", Unfit("it is old")) == Unfit("it is old")


def test_a_lower_level_can_be_asked_for() -> None:
    assert chosen("avx2", "avx512bf16") == "avx2"
    assert chosen("avx512bf16", "avx512fp16") == "avx512bf16"
    assert chosen("avx512", "avx512bf16") == "avx512"
    assert chosen("avx512", "avx512") == "avx512"


@pytest.mark.parametrize("best", ["avx2", Unfit("it is old")])
def test_none_can_be_asked_for_everywhere(best: str | Unfit) -> None:
    assert chosen("none", best) == Unfit("HEADRACE_KERNELS_LEVEL=none asks for torch's own")


@pytest.mark.parametrize(
    ("asked", "best", "message"),
    [
        ("sse", "avx2", "LEVEL=sse is no level: set it to avx512fp16, avx512bf16, avx512, avx2 or none"),
        ("AVX2", "avx2", "HEADRACE_KERNELS_LEVEL=AVX2 is no level"),
        ("avx512fp16", "avx512bf16", "LEVEL=avx512fp16 is above avx512bf16, the best that this processor runs"),
        ("avx512", "avx2", "HEADRACE_KERNELS_LEVEL=avx512 is above avx2, the best that this processor runs"),
        ("avx2", Unfit("it is old"), r"HEADRACE_KERNELS_LEVEL=avx2 cannot be had \(it is old\)"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(asked: str, best: str | Unfit, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        chosen(asked, best)


def test_the_environment_lowers_the_level_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_KERNELS_LEVEL", "none")
    assert processor.level() == Unfit("HEADRACE_KERNELS_LEVEL=none asks for torch's own")
    monkeypatch.delenv("HEADRACE_KERNELS_LEVEL")
    found = processor.level()
    assert isinstance(found, Unfit) or found in compiler.LEVELS
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        assert isinstance(found, Unfit)


def test_every_level_that_is_compiled_has_its_flags_told() -> None:
    assert list(processor._NEEDS) == list(compiler.LEVELS)
