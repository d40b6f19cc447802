"""The application: all routes, and what stands before and around them.

Knows which parts there are. Does not know sockets: serve.py does.
"""

import logging
from importlib.metadata import version
from typing import Any

from headrace_contracts.tracing import Tracing
from litestar import Litestar, Request, Response, Router, get
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ASGIApp

from headrace.errors import HeadraceError
from headrace.gateway import cohere, health, openai, shapes, tei
from headrace.gateway.body import Body
from headrace.gateway.call import HEADERS, MEANT, provide_call
from headrace.gateway.fleet import Fleet
from headrace.gateway.gate import Gate
from headrace.gateway.keys import Keys
from headrace.gateway.limits import Limits, Slots
from headrace.gateway.meter import Meter, route_of
from headrace.gateway.metrics import Metrics
from headrace.gateway.problems import Kind, Problem, Refused, problem_of
from headrace.gateway.request_id import RequestIds
from headrace.gateway.traced import Traced

logger = logging.getLogger(__name__)

_SCHEME = "key"
_WITH_KEYS = Components(security_schemes={_SCHEME: SecurityScheme(type="http", scheme="bearer")})
# Letters of a reason in the log: it may quote what a caller sent.
_MAX_REASON = 200
_KINDS = {404: Kind.UNKNOWN_PATH, 405: Kind.WRONG_METHOD, 413: Kind.TOO_LARGE}


def build(fleet: Fleet, metrics: Metrics, limits: Limits, keys: Keys | None = None) -> ASGIApp:
    """The ASGI application of one gateway.

    Args:
        fleet: whom it asks.
        metrics: where it counts.
        limits: how much may be asked.
        keys: who may ask; None lets all in.
    """

    def refuse(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        problem = _problem(error, limits)
        shape = shapes.shape_of(request.scope["path"])
        status = shape.status(problem)
        # One bounded line each, whatever was sent: so a request id that a caller complains of is found.
        facts = {"code": str(problem.kind), "status": status, "route": route_of(request.scope)}
        logger.info("refused a request: %s: %s", problem.kind, problem.text[:_MAX_REASON], extra=facts)
        metrics.refusals.labels(str(problem.kind)).inc()
        return Response(
            shape.render(problem),
            status_code=status,
            headers=shapes.headers(problem),
            media_type="application/json",
        )

    apis = Router(
        "/",
        route_handlers=[
            *(openai.embeddings, openai.models, openai.model),
            cohere.rerank,
            *(tei.embed, tei.rerank, tei.tokenize, tei.info),
        ],
        middleware=[Gate(keys, Slots(limits.max_concurrent))],
        dependencies={"call": Provide(provide_call)},
        security=None if keys is None else [{_SCHEME: []}],
    )
    app = Litestar(
        [apis, health.startup, health.live, health.ready, health.metrics, document],
        dependencies={
            "fleet": Provide(lambda: fleet, sync_to_thread=False),
            "metrics": Provide(lambda: metrics, sync_to_thread=False),
        },
        exception_handlers={Exception: refuse},
        request_class=Body,
        request_max_body_size=limits.max_body_bytes,
        state=State({"limits": limits}),
        openapi_config=OpenAPIConfig(
            title="Headrace gateway",
            version=version("headrace"),
            path="/openapi",
            components=Components() if keys is None else _WITH_KEYS,
        ),
        logging_config=None,
    )
    metrics.know_routes(*_paths(app, apis))
    tracing = Tracing.found()
    return Meter(RequestIds(app if tracing is None else Traced(app, tracing)), metrics)


@get("/openapi.json", include_in_schema=False)
async def document(request: Body) -> dict[str, Any]:
    """The OpenAPI document of all this."""
    return request.app.openapi_schema.to_schema()


def _paths(app: Litestar, apis: Router) -> tuple[set[str], set[str]]:
    """The routes of the APIs and those for operators, as the metrics name them."""
    everything = {route.path_format for route in app.routes if not route.path_format.startswith("/openapi")}
    theirs = {route.path_format for route in apis.routes}
    return theirs, everything - theirs


def _problem(error: Exception, limits: Limits) -> Problem:
    if isinstance(error, Refused):
        return error.problem
    if isinstance(error, HeadraceError):
        return problem_of(error)
    if isinstance(error, ValidationException):  # of headers and parameters; bodies are read by body.py
        places = error.extra if isinstance(error.extra, list) else []
        keys = [place.get("key") for place in places]
        said = [
            "; ".join(filter(None, (f"{HEADERS.get(key, key)}: {place.get('message')}", MEANT.get(key))))
            for key, place in zip(keys, places, strict=True)
        ]
        return Problem(Kind.MALFORMED, "; ".join(said) or error.detail, HEADERS.get(keys[0], keys[0]) if keys else None)
    if isinstance(error, HTTPException) and error.status_code < 500:
        kind = _KINDS.get(error.status_code, Kind.MALFORMED)
        texts = {
            Kind.UNKNOWN_PATH: "there is no such path: see /openapi.json",
            Kind.WRONG_METHOD: "this path has another method: see /openapi.json",
            Kind.TOO_LARGE: f"the body is larger than {limits.max_body_bytes} bytes: send less at a time",
        }
        return Problem(kind, texts.get(kind, error.detail))
    logger.error("a request failed for a reason that nobody thought of", exc_info=error)
    return Problem(Kind.INTERNAL, "this gateway failed: its log says why")
