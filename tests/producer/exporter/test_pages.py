"""The pages of a process for its operators, asked over HTTP."""

import urllib.error
import urllib.request

from headrace.exporter.address import Address
from headrace.exporter.pages import Pages, serving
from prometheus_client import CollectorRegistry


def test_each_answer_is_as_long_as_it_says_whichever_came_before() -> None:
    reasons = ["the broker has not answered yet", None, "it is gone", None]
    pages = Pages(CollectorRegistry(), {"/health/ready": lambda: reasons.pop(0)})
    with serving(pages, Address("127.0.0.1", 0)) as url:
        for status in (503, 200, 503, 200):
            found, length, body = _ask(f"{url}/health/ready")
            assert found == status
            assert length == len(body)
        assert _ask(f"{url}/nothing")[0] == 404


def _ask(url: str) -> tuple[int, int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - http
            return answer.status, int(answer.headers["Content-Length"]), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, int(error.headers["Content-Length"]), error.read()
