"""The contenders that run: all are started once and stay until the end, so that they can take turns.

It knows who came up and who did not. One that does not start, or breaks later, is left out with its reason; the others
go on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from child import Broken, Child, started
from contenders import Entrant
from models import Models
from result import Contender, Status


@dataclass(slots=True, eq=False)
class Runner:
    """A contender that is up.

    Attributes:
        entrant: Who.
        child: Its process.
        broken: Why it is out of the race since; empty while it is in.
    """

    entrant: Entrant
    child: Child
    broken: str = ""

    @property
    def name(self) -> str:
        """Its name."""
        return self.entrant.name

    def ask(self, command: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """As Child.ask; one that no longer answers is out for good, and stopped, lest it compute beside the others."""
        try:
            return self.child.ask(command, timeout_s)
        except Broken as error:
            if not self.child.is_alive:
                self.broken = str(error)
                self.child.stop()
            raise


@dataclass(slots=True, eq=False)
class Field:
    """Who runs, and who does not.

    Attributes:
        runners: Those that came up.
        left_out: Those that did not.
    """

    runners: list[Runner] = field(default_factory=list)
    left_out: list[Contender] = field(default_factory=list)

    def running(self) -> list[Runner]:
        """Those that are still in."""
        return [runner for runner in self.runners if not runner.broken]

    def contenders(self) -> tuple[Contender, ...]:
        """Everyone as the result keeps them, those that ran first."""
        return (*map(_contender, self.runners), *self.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all contenders are given.

    Attributes:
        models: To load.
        threads: To compute with.
        work: A directory between runs.
        environment: Variables besides those of this process.
    """

    models: Models
    threads: int
    work: Path
    environment: Mapping[str, str]

    def started(self, entrant: Entrant) -> AbstractContextManager[Child]:
        """See child.started."""
        return started(entrant, self.models, threads=self.threads, work=self.work, environment=self.environment)


@contextmanager
def assembled(entrants: Iterable[Entrant], ground: Ground, say: Callable[[str], None]) -> Iterator[Field]:
    """Start everyone, one after the other, and stop them at the end.

    Args:
        entrants: Who may take part.
        ground: What they are given.
        say: Told what happens.
    """
    with ExitStack() as stack:
        there = Field()
        for entrant in entrants:
            if entrant.missing is not None:
                there.left_out.append(left_out(entrant, "absent", entrant.missing))
                continue
            say(f"starting {entrant.label}")
            try:
                there.runners.append(Runner(entrant, stack.enter_context(ground.started(entrant))))
            except Broken as error:
                say(f"{entrant.label} did not start: {error}")
                there.left_out.append(left_out(entrant, "failed", str(error)))
        yield there


def _contender(runner: Runner) -> Contender:
    facts = runner.child.facts
    return replace(
        _named(runner.entrant, "failed" if runner.broken else "ran", runner.broken),
        versions=facts["versions"],
        settings=facts["settings"],
        load_s=runner.child.load_s,
        memory_mib=runner.child.cost().memory_mib,
    )


def left_out(entrant: Entrant, status: Literal["absent", "failed", "unasked"], reason: str) -> Contender:
    """One that takes no part, as the result keeps it."""
    return _named(entrant, status, reason)


def _named(entrant: Entrant, status: Status, reason: str) -> Contender:
    return Contender(
        name=entrant.name,
        label=entrant.label,
        is_ours=entrant.is_ours,
        is_server=entrant.is_server,
        dtype=entrant.dtype,
        is_second_choice=entrant.is_second_choice,
        versions={},
        settings={},
        status=status,
        reason=reason,
    )
