"""What a client's process is asked to do, and what it answers.

It knows when calls are made and what they carry. It does not know how one is made: traffic.py and http_traffic.py do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace_contracts import Priority

from online.call import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """An open loop, where calls come whether or not those before them have ended, or a closed one, where callers wait.

    Attributes:
        rate: Calls a second of an open loop, in the mean; None makes it a closed one.
        callers: Of a closed loop, with one call at a time each.
        pause_s: Mean of the random pause that a caller of a closed loop makes before each call.
        seed: Of all that is random.
    """

    rate: float | None = None
    callers: int = 1
    pause_s: float = 0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """When a process makes its calls.

    Attributes:
        begin_s: The moment of the first, by time.perf_counter; a process that is ready only later begins then.
        seconds: For so long. What has begun by then is waited for.
    """

    begin_s: float
    seconds: float

    @property
    def end_s(self) -> float:
        """From here on no more are made."""
        return self.begin_s + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a process that uses the client library does.

    Attributes:
        url: Of nats-server.
        texts: Of each call; calls take them in turn.
        loop: How calls follow each other.
        when: The time.
        priority: The class.
        timeout_s: The deadline of each call.
        tenant: Whose calls they are; None is a tenant like any other.
        clients: That calls are spread over, with a connection each.
        stands_for_many: Whether one client stands for many, whose calls it lets out at once: what a client has on its
            way is bounded, and what all of them have is not.
        tokenised: Whether texts are tokenised before the first call, so that calls are cheap for whoever makes them.
    """

    url: str
    texts: Sequence[Sequence[str]]
    loop: Loop
    when: When
    priority: Priority = "online"
    timeout_s: float = 30
    tenant: str | None = None
    clients: int = 1
    stands_for_many: bool = False
    tokenised: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of it.

    Attributes:
        offered: Calls that were made.
        calls: Those that ended.
        cores: That the process kept busy, in the mean.
        errors: Some texts of what failed.
    """

    offered: int
    calls: Sequence[Call]
    cores: float
    errors: Sequence[str] = field(default_factory=tuple)
