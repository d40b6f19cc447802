"""Fixtures of the tests that need Debian packages."""

from collections.abc import Callable

import pytest

from . import packages


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """From the name of a program to its path; a test that asks for one that is not here is skipped."""

    def find(name: str) -> str:
        found = packages.find(name)
        if found is None:
            owner = next(package.name for package in packages.listed() if package.program == name)
            pytest.skip(f"{name} is not here: apt-get install {owner}")
        return found

    return find
