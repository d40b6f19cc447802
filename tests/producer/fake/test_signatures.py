"""The fakes have all that the real clients have, with the same arguments, whatever is added to those."""

import inspect
from typing import Any

import pytest
from headrace import Client, SyncClient
from headrace.testing import FakeClient, FakeSyncClient

OF_FAKES_ALONE = {"calls", "delay_s", "fail", "fail_next", "fail_text", "heal"}
PAIRS: list[tuple[type, type]] = [(Client, FakeClient), (SyncClient, FakeSyncClient)]


def public(kind: type) -> dict[str, Any]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("real", "fake"), PAIRS)
def test_a_fake_has_the_public_names_of_the_real_one_and_those_that_tests_need(real: type, fake: type) -> None:
    assert set(public(fake)) == set(public(real)) | OF_FAKES_ALONE


@pytest.mark.parametrize(("real", "fake"), PAIRS)
def test_methods_take_the_same_arguments(real: type, fake: type) -> None:
    for name, member in public(real).items():
        if not isinstance(member, property):
            assert inspect.signature(getattr(fake, name)) == inspect.signature(getattr(real, name)), name


@pytest.mark.parametrize(("real", "fake"), PAIRS)
def test_but_for_connecting_what_is_called_is_the_real_one(real: type, fake: type) -> None:
    replaced = {name for name, member in public(real).items() if public(fake)[name] is not member}
    assert replaced <= {"connect"}


def test_a_sync_fake_is_made_with_the_arguments_of_the_real_one_and_those_of_the_fake() -> None:
    real, fake, made, connect = (
        inspect.signature(call).parameters for call in (SyncClient, FakeSyncClient, FakeClient, Client.connect)
    )
    assert list(fake.items())[: len(real)] == list(real.items())
    assert set(fake) - set(real) == set(made) - set(connect)
    assert set(connect) - set(made) == {"url", "timeout", "access"}


@pytest.mark.parametrize("fake", [FakeClient, FakeSyncClient])
def test_what_tests_order_is_ordered_alike_of_both(fake: type) -> None:
    for name in OF_FAKES_ALONE - {"calls", "delay_s"}:
        assert inspect.signature(getattr(fake, name)) == inspect.signature(getattr(FakeClient, name)), name
