"""A bulk seen from outside: one process, then several, each through its part, begun together.

It knows how to bring processes together and how to add up what they did. It does not know what each of them runs.
"""

from collections.abc import Callable, Sequence

from gpu.blueprint import QWEN3, Blueprint
from gpu.child import Command
from gpu.crew import Crew
from gpu.deadline import Deadline
from gpu.finding import Barrier, Bulk, Check, Done, Finding, Ready, Stint, Where
from gpu.floor import Matrices
from gpu.process import Process

_GO = "go"


class Crowd:
    """Processes of one backend.

    Attributes:
        where: What they run.
    """

    def __init__(self, crew: Crew, first: Process, deadline: Deadline, tell: Callable[[Finding], object]) -> None:
        """Begin with one.

        Args:
            crew: Where the others come from.
            first: Ready.
            deadline: When to stop.
            tell: Takes what is found.
        """
        self.where = Where("bulk", first.backend, QWEN3.name)
        self._crew = crew
        self._processes = [first]
        self._deadline = deadline
        self._tell = tell

    def measure(self, num_processes: int, batch: tuple[int, int], blueprint: Blueprint) -> None:
        """Measure one alone, then all.

        Args:
            num_processes: How many they are in the end.
            batch: Sequences of the batch that each runs, and tokens of each.
            blueprint: Of the model.

        Raises:
            RuntimeError: One of them ended, or was too slow.
        """
        self._measure(1, batch, blueprint)
        try:
            self._grow(num_processes)
            self._measure(num_processes, batch, blueprint)
        finally:
            for process in self._processes[1:]:
                process.end()

    def _grow(self, num: int) -> None:
        self._processes += [self._crew.start(self.where.backend) for _ in range(num - len(self._processes))]
        waiting = set(self._processes[1:])
        while waiting:
            process, message = self._hear()
            if isinstance(message, Ready):
                waiting.discard(process)

    def _measure(self, num: int, batch: tuple[int, int], blueprint: Blueprint) -> None:
        processes = self._processes[:num]
        for process in processes:
            process.tell(Command("bulk", self._deadline.left_s).to_line())
        stints = self._follow(processes)
        for is_graph in (False, True):
            parts = [stint for stint in stints if stint.is_graph is is_graph]
            if len(parts) == num:
                self._tell(add_up(self.where, parts, batch, blueprint))

    def _follow(self, processes: list[Process]) -> list[Stint]:
        """Listen until all are done; whenever all wait at a barrier, send them on."""
        stints: list[Stint] = []
        working, waiting = set(processes), set[Process]()
        while working:
            process, message = self._hear()
            match message:
                case Done():
                    working.discard(process)
                case Barrier():
                    waiting.add(process)
                case Stint():
                    stints.append(message)
                case Check() if process is processes[0]:
                    self._tell(message)
            if waiting == set(processes):
                waiting = self._send_on(waiting)
        return stints

    def _send_on(self, waiting: set[Process]) -> set[Process]:
        for process in waiting:
            process.tell(_GO)
        return set()

    def _hear(self) -> tuple[Process, object]:
        """The next message of one of them."""
        while True:
            heard = self._crew.receive(self._deadline.left_s)
            if heard is None:
                message = "the processes took too long"
                raise RuntimeError(message)
            process, said = heard
            if process in self._processes:
                if said is None:
                    raise RuntimeError(process.last_words())
                return process, said


def add_up(where: Where, stints: Sequence[Stint], batch: tuple[int, int], blueprint: Blueprint) -> Bulk:
    """What processes did together, from when the first began until the last was through."""
    num_sequences, length = batch
    lengths = (length,) * num_sequences
    seconds = max(stint.ended_s for stint in stints) - min(stint.began_s for stint in stints)
    batches_per_s = sum(stint.batches for stint in stints) / seconds
    work = Matrices.of(blueprint.config).work(lengths)
    return Bulk(
        where=where,
        batch=f"{num_sequences} × {length}",
        processes=len(stints),
        is_graph=stints[0].is_graph,
        batches_per_s=batches_per_s,
        texts_per_s=batches_per_s * num_sequences,
        tokens_per_s=batches_per_s * sum(lengths),
        flop=work.flop,
        num_bytes=work.num_bytes,
    )
