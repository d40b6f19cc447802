"""Whether a gateway lives, whether it can serve, and what it counted.

Knows the four pages. They need no key.
"""

from litestar import Response, get
from msgspec import Struct

from headrace.gateway.answer import answer
from headrace.gateway.fleet import Fleet
from headrace.gateway.metrics import Metrics


class Health(Struct, omit_defaults=True):
    """A word, and the reason where it is not ok."""

    status: str
    reason: str | None = None


@get("/health/live", summary="Is it alive?")
async def live() -> Response[Health]:
    """200 while the event loop turns."""
    return answer(Health("ok"))


@get("/health/startup", summary="Has it started?")
async def startup() -> Response[Health]:
    """200 from the first: it listens only once it is connected."""
    return answer(Health("ok"))


@get("/health/ready", summary="Can it serve?")
async def ready(fleet: Fleet) -> Response[Health]:
    """200 if nats-server answers, a model is published and a worker of one is there, else 503."""
    reason = await fleet.why_not_ready()
    if reason is None:
        return answer(Health("ok"))
    response = answer(Health("unready", reason))
    response.status_code = 503
    return response


@get("/metrics", media_type="text/plain", summary="Metrics for Prometheus")
async def metrics(fleet: Fleet, metrics: Metrics) -> Response[bytes]:
    """What was counted, and whether it can serve now."""
    metrics.ready.set(await fleet.why_not_ready() is None)
    metrics.know_models(fleet.known)
    return Response(metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")
