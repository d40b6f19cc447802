"""What ops/image/needs.py says an image needs, beside what the installed package says."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "ops" / "image" / "needs.py"


def needs(*extras: str) -> set[Requirement]:
    said = subprocess.run(
        [sys.executable, str(SCRIPT), *extras], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return {Requirement(line) for line in said.splitlines()}


def of_metadata(*extras: str) -> set[Requirement]:
    """All requirements of these extras by the metadata, where each of ours that names others is followed."""
    found, names = set[Requirement](), {*extras}
    while True:
        for text in metadata.requires("headrace") or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": name}) for name in ("", *names)):
                found.add(requirement)
        more = {extra for each in found if each.name == "headrace" for extra in each.extras} - names
        if not more:
            return {each for each in found if each.name != "headrace"}
        names |= more


@pytest.mark.parametrize("extras", [(), ("worker", "otel"), ("worker", "cuda", "flash4"), ("demo",)], ids=" ".join)
def test_an_image_needs_what_the_package_needs(extras: tuple[str, ...]) -> None:
    assert {(r.name, str(r.specifier)) for r in needs(*extras)} == {
        (r.name, str(r.specifier)) for r in of_metadata(*extras)
    }


def test_an_extra_that_is_not_there_is_an_error() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        needs("mill")
