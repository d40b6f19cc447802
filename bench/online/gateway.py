"""What the HTTP gateway adds to a call, and whether a large request holds up those that only ask whether it lives.

Both ways are measured on one fleet, whose engine answers at once, with the same texts, taking turns. Sixteen callers
make a pause between two calls, so that no process waits for a core: where they do not, all cores are full, and what is
measured is how much more processor time a call costs, sixteen times over; that is shown too, and not judged. There is
no device whose cores must be its own, so all processes may use all.
"""

import asyncio
import json
from dataclasses import dataclass
from statistics import median

from economics import processes

from online import gateway_process
from online.call import Call, took_ms
from online.cores import on
from online.finding import Figure, Finding, Verdict, p50_ms, p99_ms
from online.fleet import Fleet
from online.ground import Ground, run
from online.http_traffic import HttpPlan
from online.plan import Loop, Plan, Ran
from online.tally import Tally

_PACED, _FULL = Loop(callers=16, pause_s=0.05), Loop(callers=16)
_ROUNDS = 3
_ADDED_MS, _LIVE_MS = 1.0, 10.0
_LARGE_BYTES, _LARGE_TEXTS, _LARGE_LENGTH = 1_990_000, 580, 500  # 290,000 tokens
_LARGE_CALLERS = 2
_LIVE_RATE = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen; calls of both ways, one list a round.

    Attributes:
        library: With pauses.
        http: With pauses.
        full_library: Without.
        full_http: Without.
        live: Questions whether it lives, beside large requests.
        large: The large requests.
        errors: Texts of what failed.
    """

    library: list[list[Call]]
    http: list[list[Call]]
    full_library: list[Call]
    full_http: list[Call]
    live: list[Call]
    large: list[Call]
    errors: list[str]


async def measure(ground: Ground) -> Finding:
    """Run the part, if there is a gateway."""
    if not await gateway_process.is_there():
        return Finding(part="gateway", what=_WHAT, not_run="`headrace gateway` is not there")
    with on(ground.cores.all), ground.null_fleet() as fleet:
        await fleet.warm_up(ground.short()[0][0])
        async with gateway_process.running(fleet.url) as served:
            return finding(await _Turns(ground, fleet, served.port).all())


class _Turns:
    """The library and the gateway on one fleet."""

    def __init__(self, ground: Ground, fleet: Fleet, port: int) -> None:
        self._ground = ground
        self._fleet = fleet
        self._port = port
        self._queries = ground.queries()
        self._bodies = [_body(texts) for texts in self._queries]
        self._errors: list[str] = []

    async def all(self) -> Seen:
        say, seconds = self._ground.say, self._ground.amount.phase_s / _ROUNDS
        library, http = [], []
        for number in range(1 if self._ground.amount.is_quick else _ROUNDS):
            say(f"gateway: round {number + 1}")
            library.append(await self._by_library(_PACED, seconds))
            http.append(await self._by_http(_PACED, seconds))
        say("gateway: without pauses")
        full_library, full_http = await self._by_library(_FULL, seconds), await self._by_http(_FULL, seconds)
        say("gateway: large requests")
        live, large = await self._beside_large()
        return Seen(
            library=library,
            http=http,
            full_library=full_library,
            full_http=full_http,
            live=live,
            large=large,
            errors=self._errors,
        )

    async def _by_library(self, loop: Loop, seconds: float) -> list[Call]:
        when = self._ground.soon(seconds)
        plan = Plan(url=self._fleet.url, texts=self._queries, loop=loop, when=when, tokenised=False)
        (ran,) = await run(plan)
        return self._calls(ran)

    async def _by_http(self, loop: Loop, seconds: float) -> list[Call]:
        when = self._ground.soon(seconds)
        plan = HttpPlan(port=self._port, path=_PATH, bodies=self._bodies, loop=loop, when=when)
        return self._calls(await _ask(plan))

    async def _beside_large(self) -> tuple[list[Call], list[Call]]:
        when = self._ground.soon(self._ground.amount.phase_s)
        live = HttpPlan(port=self._port, path="/health/live", bodies=(), loop=Loop(rate=_LIVE_RATE), when=when)
        large = HttpPlan(
            port=self._port,
            path=_PATH,
            bodies=(large_body(self._ground.texts.of([_LARGE_LENGTH] * _LARGE_TEXTS, 5)),),
            loop=Loop(callers=_LARGE_CALLERS),
            when=when,
            timeout_s=60,
        )
        async with asyncio.TaskGroup() as tasks:
            living, asking = tasks.create_task(_ask(live)), tasks.create_task(_ask(large))
        return self._calls(living.result()), self._calls(asking.result())

    def _calls(self, ran: Ran) -> list[Call]:
        self._errors += ran.errors
        return list(ran.calls)


_PATH = "/v1/embeddings"
_WHAT = "16 callers of one query each, by the library and by HTTP, on a fleet that answers at once"


async def _ask(plan: HttpPlan) -> Ran:
    return await processes.ask("online.http_traffic", plan, Ran)


def _body(texts: list[str]) -> str:
    # base64 is what OpenAI's own client asks for.
    return json.dumps({"model": gateway_process.MODEL, "input": texts, "encoding_format": "base64"})


def large_body(texts: list[str]) -> str:
    """A request of nearly two million bytes.

    Args:
        texts: Of it; blanks between their words make up what they lack, since a gateway bounds tokens, too.
    """
    blanks = (_LARGE_BYTES - len(_body(texts))) // len(texts)
    return _body([text.replace(" ", " " * (blanks + 1), 1) for text in texts])


def finding(seen: Seen) -> Finding:
    """What it comes to."""
    rounds = [
        (p50_ms(took_ms(library, "answered")), p50_ms(took_ms(http, "answered")))
        for library, http in zip(seen.library, seen.http, strict=True)
    ]
    others = (seen.full_library, seen.full_http, seen.live, seen.large)
    every = [call for calls in (*seen.library, *seen.http, *others) for call in calls]
    live = took_ms(seen.live, "answered", "expired")
    return Finding(
        part="gateway",
        what=_WHAT,
        figures=[
            Figure(what="by the library, p50", value=median(library for library, _ in rounds), unit="ms"),
            Figure(what="by HTTP, p50", value=median(http for _, http in rounds), unit="ms"),
            *Figure.spread("by the library without pauses", took_ms(seen.full_library, "answered")),
            *Figure.spread("by HTTP without pauses", took_ms(seen.full_http, "answered")),
            Figure(what="large requests, answered", value=Tally.of(seen.large).answered),
            *Figure.spread("large requests", took_ms(seen.large, "answered")),
        ],
        verdicts=[
            Verdict(
                what="p50 that HTTP adds",
                found=median(http - library for library, http in rounds),
                limit=_ADDED_MS,
                sense="at most",
                unit="ms",
            ),
            Verdict(
                what="p99 of /health/live beside large requests",
                found=p99_ms(live),
                limit=_LIVE_MS,
                sense="at most",
                unit="ms",
            ),
            Verdict(what="calls that failed", found=Tally.of(every).failed, limit=0, sense="at most"),
        ],
        notes=seen.errors,
    )
