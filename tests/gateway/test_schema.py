"""Whatever is sent, by the OpenAPI document or against it: a status that says so, never a failure of the gateway."""

import json
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS, load_all_checks, not_a_server_error
from schemathesis.core.result import Ok

from .running import Running

load_all_checks()
# What is not checked of a reply: that odd methods are answered in ways that no client relies on, and that what the
# document does not say (a model must exist, a mix of kinds) is accepted.
CHECKED: list[Any] = [
    not_a_server_error,
    *CHECKS.get_by_names(["response_schema_conformance", "status_code_conformance"]),
]
FEW = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
)
POSTED = ["/v1/embeddings", "/v1/rerank", "/v2/rerank", "/embed", "/", "/rerank", "/tokenize"]


def test_what_the_document_allows_never_fails_the_gateway(served: Running) -> None:
    document = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    operations: list[Any] = [found.ok() for found in document.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) == 14
    for operation in operations:

        @FEW
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case[Any]) -> None:
            # A millisecond is a good timeout, and 504 the right answer to it: time for all.
            if (asked := case.headers.get("X-Headrace-Timeout-Ms", "")).isdecimal() and int(asked) > 0:
                case.headers["X-Headrace-Timeout-Ms"] = "60000"
            case.call_and_validate(checks=CHECKED)

        check()


def test_the_document_tells_of_every_route(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    assert set(POSTED) <= {path for path, item in paths.items() if "post" in item}
    gets = {"/v1/models", "/v1/models/{name}", "/info", "/health/startup", "/health/live", "/health/ready", "/metrics"}
    assert gets == {path for path, item in paths.items() if "get" in item}


texts = st.text(max_size=20) | st.sampled_from(["", " ", "\0", "\ud83d", "\u202e", "caf\u00e9"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3))
fields = st.sampled_from(
    [
        *("input", "inputs", "query", "documents", "texts", "model", "dimensions", "encoding_format", "truncate"),
        *("top_n", "max_tokens_per_doc", "return_documents", "prompt_name", "normalize", "truncation_direction"),
        *("raw_scores", "return_text", "add_special_tokens", "user"),
    ]
)
good = {"input": "text", "inputs": "text", "query": "a", "documents": ["b"], "texts": ["b"]}


@pytest.mark.parametrize("path", POSTED)
@FEW
@given(body=st.dictionaries(fields, values, max_size=5) | values, complete=st.booleans())
def test_any_json_is_answered_and_never_with_a_failure(
    http: httpx.Client, path: str, body: Any, complete: bool
) -> None:
    if complete and isinstance(body, dict):
        body = {**{key: good[key] for key in needed(path)}, **{k: v for k, v in body.items() if k in needed(path)}}
    reply = http.post(path, content=json.dumps(body).encode("ascii"))
    assert reply.status_code < 500, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    reply.json()


def needed(path: str) -> list[str]:
    return {
        "/v1/embeddings": ["input"],
        "/v1/rerank": ["query", "documents"],
        "/v2/rerank": ["query", "documents"],
        "/rerank": ["query", "texts"],
    }.get(path, ["inputs"])


@pytest.mark.parametrize("path", POSTED)
@FEW
@given(body=st.binary(max_size=200))
def test_any_bytes_are_answered_and_never_with_a_failure(http: httpx.Client, path: str, body: bytes) -> None:
    assert http.post(path, content=body).status_code < 500
