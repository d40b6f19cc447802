"""Texts that callers hand in, through the client and into a worker: no crash, no hang, and no budget is exceeded.

It knows hostile texts, and that a worker takes whatever a client makes of them. It does not know what they mean.
"""

import asyncio
import json
from dataclasses import dataclass
from functools import cache, partial
from random import Random
from typing import Any

from headrace import Embeddings, Scores
from headrace.errors import DeadlineExceeded, HeadraceError
from headrace.pairs import PairTokenizer
from headrace.published import Model
from headrace.tokens import TextTokenizer
from tokenizers import Tokenizer

from fuzz import jsonish, kinds
from fuzz.echo import EchoClient
from fuzz.mutation import mutated_json
from fuzz.target import Target, Verdict, Wrong

_TIMEOUT_S = 20.0
_MOST_TOKENS = 300_000
# Of all texts of an input together. More would find what is known: normalisation makes 18 letters of U+FDFA, so that of
# 800,000 a Unigram tokenizer makes 4.8 million tokens, in 5 s and 1.5 GB, before anybody can count them.
_MOST_CHARACTERS = 1 << 18
_SURROGATES = "\ud800 \udc00 a\ud83d \ude00b \udfff"

HOSTILE: tuple[str, ...] = (
    *("", " ", "\0", "a\0b", "\n\n\n", "\t \u3000\u2003\u00a0", "the quick brown fox", _SURROGATES, "\ud83d\ude00"),
    *("e" + "\u0301" * 200, "\u202eabc\u202c \u2066x\u2069", "\u05d0\u05d1 \u0627\u0644\u0639", "\ufeff"),
    *("[CLS] [SEP] [PAD] [MASK] [UNK]", "<s></s><unk>", "<|endoftext|><|im_start|>", "##a", "\u2581a", "\u0120a"),
    *("{query}{document}{instruction}", "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 20, "\ufdfa" * 40, "\uffff"),
    *("\u0130\u0131\u017f\u212a", "\u01c5", "\x7f\x80\x9f", "\ud55c\uad6d \u6f22\u5b57", "\U0001d573\U0001d58a"),
    *("\U0010ffff", "\ue000", "\u200b\u200d\u200c", "1" * 400, "a" * 400, "-" * 400, "\\u0000", "%00", "a\r\n.\r\n"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """An input, read."""

    kind: str
    max_length: int
    max_chunk_tokens: int
    max_chunk_items: int
    prompt: str
    truncate: bool
    query: Any
    texts: Any


def targets() -> list[Target]:
    """Texts alone, and pairs."""
    return [_target("text", with_query=False), _target("pair", with_query=True)]


def _target(name: str, *, with_query: bool) -> Target:
    return Target(
        name=name,
        group="text",
        seeds=partial(_seeds, with_query=with_query),
        run=run,
        mutate=partial(mutated_json, refit=partial(_refit, with_query=with_query)),
        timeout_s=60,
        packages=("headrace", "headrace_contracts", "headrace_workers"),
    )


def _seeds(*, with_query: bool) -> list[bytes]:
    rng = Random(1)  # noqa: S311 - for inputs, not for secrets
    found = [_input(kind, list(HOSTILE), "query: " if with_query else "", with_query, rng) for kind in kinds.KINDS]
    found += [_input(kind, [["ab \n" * 3, 2000], ["\u0301", 9000]], "", with_query, rng) for kind in kinds.KINDS]
    return [json.dumps(each).encode() for each in found]


def _input(kind: str, texts: Any, prompt: str, with_query: bool, rng: Random) -> dict[str, Any]:
    return {
        "kind": kind,
        "max_length": rng.choice((1, 2, 3, 5, 16, 64, 512)),
        "max_chunk_tokens": rng.choice((1, 16, 64, 1000)),
        "max_chunk_items": rng.choice((1, 2, 7, 100)),
        "prompt": prompt,
        "truncate": rng.random() < 0.8,
        "query": rng.choice(HOSTILE[:20]) if with_query else None,
        "texts": texts,
    }


def _refit(tree: Any, rng: Random, *, with_query: bool) -> Any:
    """Another one, of odd texts in any order."""
    del tree
    texts: list[Any] = [_text(rng) for _ in range(rng.choice((0, 1, 1, 2, 5, 20)))]
    return _input(rng.choice(list(kinds.KINDS)), texts, rng.choice(("", "", _text(rng))), with_query, rng)


def _text(rng: Random) -> Any:
    chance = rng.random()
    if chance < 0.6:
        return "".join(rng.choice(HOSTILE) for _ in range(rng.choice((1, 1, 2, 5))))
    if chance < 0.9:
        planes = (0x20, 0x80, 0x300, 0x590, 0x2000, 0xD800, 0xFB00, 0x1F300, 0xE0000)
        return "".join(chr(rng.choice(planes) + rng.randrange(96)) for _ in range(rng.choice((1, 3, 30, 200))))
    return [rng.choice(HOSTILE), rng.choice((10, 1000, 20_000))]


def run(data: bytes) -> Verdict:
    """Have a client embed or score what an input asks for.

    Raises:
        Wrong: It takes for ever, or a worker would not take what it made.
    """
    asked = _read(data)
    if asked is None:
        return Verdict.REFUSED
    try:
        return _loop().run_until_complete(_ask(asked))
    except HeadraceError:
        return Verdict.REFUSED


async def _ask(asked: Asked) -> Verdict:
    client = EchoClient(_model(asked), _MOST_TOKENS)
    await client.open()
    options: dict[str, Any] = {"truncate": asked.truncate, "timeout": _TIMEOUT_S}
    found: Embeddings | Scores
    try:
        if asked.query is None:
            found = await client.embed(asked.texts, **options)
        else:
            found = await client.score(asked.query, asked.texts, **options)
    except DeadlineExceeded as error:
        raise Wrong("it is not answered, though its worker answers at once") from error
    except HeadraceError:
        client.check()
        raise
    client.check()
    if not isinstance(asked.texts, str) and len(found) != len(asked.texts):
        raise Wrong(f"{len(asked.texts)} texts have {len(found)} rows")
    return Verdict.TAKEN


def _model(asked: Asked) -> Model:
    spec = kinds.spec(
        asked.kind,
        max_length=asked.max_length,
        max_chunk_tokens=asked.max_chunk_tokens,
        max_chunk_items=asked.max_chunk_items,
        prompt=asked.prompt,
    )
    rust: Tokenizer = kinds.tokenizer(kinds.KINDS[asked.kind].tokenizer)
    texts = TextTokenizer(rust, spec.max_length, include_prompt=spec.include_prompt)
    return Model(spec, texts, PairTokenizer(rust, spec))


def _read(data: bytes) -> Asked | None:
    """None where it is no input; what callers can hand in wrongly stays as it is."""
    try:
        found = jsonish.parsed(data)
    except ValueError:
        return None
    if not isinstance(found, dict) or str(found.get("kind")) not in kinds.KINDS:
        return None
    counts = [found.get(name) for name in ("max_length", "max_chunk_tokens", "max_chunk_items")]
    if not all(type(count) is int and 0 < count < 2**31 for count in counts):
        return None
    texts, prompt = found.get("texts"), found.get("prompt", "")
    if isinstance(texts, list):
        texts = [_unfolded(each) for each in texts]
    # What a worker publishes is JSON, which has no lone surrogates.
    if not isinstance(prompt, str) or any("\ud800" <= letter <= "\udfff" for letter in prompt):
        return None
    query = _unfolded(found.get("query"))
    each = len(prompt) + (len(query) if isinstance(query, str) else 0)
    sizes = (
        [each + (len(text) if isinstance(text, str) else 0) for text in texts] if isinstance(texts, list) else [each]
    )
    if sum(sizes) > _MOST_CHARACTERS:
        return None
    max_length, max_tokens, max_items = (int(count or 0) for count in counts)
    return Asked(found["kind"], max_length, max_tokens, max_items, prompt, found.get("truncate") is True, query, texts)


def _unfolded(text: Any) -> Any:
    """[text, times] is a long text."""
    match text:
        case [str() as part, int() as times] if 0 <= times * len(part) <= _MOST_CHARACTERS:
            return part * times
    return text


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()
