"""Whether a gateway lives, whether it can serve, and what it counted.

Knows the three pages. They need no key.
"""

from litestar import Response, get
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.gateway.answer import answer
from headrace.gateway.fleet import Fleet
from headrace.gateway.metrics import Metrics


class Health(Struct):
    """A word, and the reason where it is not ok."""

    status: str
    reason: str | None = None


@get("/health/live", summary="Is it alive?")
async def live() -> Response[Health]:
    """200 while the event loop turns."""
    return answer(Health("ok"))


@get("/health/ready", summary="Can it serve?")
async def ready(fleet: Fleet) -> Response[Health]:
    """200 if nats-server answers and a model is published, else 503."""
    try:
        specs = await fleet.now()
    except HeadraceError as error:
        return _unready(str(error))
    return answer(Health("ok")) if specs else _unready("no worker has published a model")


def _unready(reason: str) -> Response[Health]:
    response = answer(Health("unready", reason))
    response.status_code = 503
    return response


@get("/metrics", media_type="text/plain", summary="Metrics for Prometheus")
async def metrics(metrics: Metrics) -> Response[bytes]:
    """What was counted."""
    return Response(metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")
