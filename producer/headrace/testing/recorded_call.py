"""What a fake client remembers of a call, for assertions.

Knows what the caller gave. Does not know what came back.
"""

from dataclasses import dataclass

from headrace_contracts import Task

from headrace.options import CallOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call whose arguments were right, so that the fleet was asked.

    Attributes:
        task: "embed" or "score".
        model: its served name, also where the call named none.
        texts: the texts or documents, cleaned as the real client does; of an iterator all that it gave. Empty for
            calls that hand in token ids.
        query: of a score, else None.
        prompt: what stands before each text or instructs the model; empty if nothing does.
        options: the keyword arguments of the call, as they were given.
        tenant: in whose name: the call's, or else the client's.
    """

    task: Task
    model: str
    texts: tuple[str, ...]
    query: str | None
    prompt: str
    options: CallOptions
    tenant: str | None
