"""Models that leave prompts out of their pooling, against sentence-transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from headrace_engine import BatchError, Engine, EngineConfig, pack
from tokenizers import Tokenizer

from .checkpoints import edit
from .prompted import MAX_LENGTH, PROMPTS, save_prompted, sentence_transformer, some_texts

# transformers warns about its own deprecations; which ones depends on its version.
pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = some_texts(12)
# <s> and the words before the text; None asks without a prompt.
SKIPS = {"query": 4, "one word": 2, "blank": 1, None: 0}


@pytest.fixture(scope="module", params=["mean", "cls", "lasttoken"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("prompted")
    save_prompted(directory, request.param)
    return directory


@pytest.fixture(scope="module")
def engine(path: Path) -> Engine:
    return Engine.load(path, EngineConfig(dtype="float32"))


@pytest.fixture(scope="module")
def expected(path: Path) -> dict[str | None, npt.NDArray[Any]]:
    """What sentence-transformers makes of `TEXTS`, by prompt."""
    model = sentence_transformer(path)
    assert not model[1].include_prompt
    return {name: model.encode(TEXTS, prompt_name=name, batch_size=5) for name in SKIPS}


def tokenized(engine: Engine, name: str | None) -> list[npt.NDArray[np.uint32]]:
    tokenizer = Tokenizer.from_str(engine.checkpoint.tokenizer_json.decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_LENGTH)
    prompt = "" if name is None else PROMPTS[name]
    return [np.array(tokenizer.encode(prompt + text).ids, np.uint32) for text in TEXTS]


def close(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> None:
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("name", SKIPS)
def test_the_rows_of_one_prompt_are_those_of_sentence_transformers(
    engine: Engine, expected: dict[str | None, npt.NDArray[Any]], name: str | None
) -> None:
    batch = pack(tokenized(engine, name), skips=[SKIPS[name]] * len(TEXTS))
    close(engine.step(batch).numpy(), expected[name])


def test_prompts_of_several_lengths_and_none_share_a_batch(
    engine: Engine, expected: dict[str | None, npt.NDArray[Any]]
) -> None:
    sequences = [ids for name in SKIPS for ids in tokenized(engine, name)]
    skips = np.repeat(list(SKIPS.values()), len(TEXTS)).tolist()
    together = engine.step(pack(sequences, skips=skips)).numpy()
    close(together, np.concatenate(list(expected.values())))
    close(engine.step(pack(sequences[::-1], skips=skips[::-1])).numpy()[::-1], together)
    alone = [engine.step(pack([ids], skips=[skip])).numpy() for ids, skip in zip(sequences, skips, strict=True)]
    close(np.concatenate(alone), together)


def test_leaving_nothing_out_is_the_same_as_not_saying_so(engine: Engine) -> None:
    sequences = tokenized(engine, None)
    np.testing.assert_array_equal(
        engine.step(pack(sequences, skips=[0] * len(sequences))).numpy(), engine.step(pack(sequences)).numpy()
    )


def test_leaving_the_prompt_out_matters_unless_the_last_token_is_pooled(engine: Engine) -> None:
    sequences = tokenized(engine, "query")
    left_out = engine.step(pack(sequences, skips=[4] * len(sequences))).numpy()
    is_same = np.allclose(left_out, engine.step(pack(sequences)).numpy(), atol=1e-3)
    assert is_same == (engine.checkpoint.pooling == "last_token")


def test_bfloat16_rows_are_near(path: Path, expected: dict[str | None, npt.NDArray[Any]]) -> None:
    engine = Engine.load(path, EngineConfig(dtype="bfloat16"))
    rows = engine.step(pack(tokenized(engine, "query"), skips=[4] * len(TEXTS))).numpy()
    np.testing.assert_allclose(rows, expected["query"], atol=0.1)


def test_a_model_that_pools_the_prompt_too_refuses_to_leave_tokens_out(tmp_path: Path) -> None:
    save_prompted(tmp_path)
    edit(tmp_path / "1_Pooling" / "config.json", include_prompt=True)
    engine = Engine.load(tmp_path, EngineConfig(dtype="float32"))
    sequences = [np.arange(4, 4 + length, dtype=np.uint32) for length in (5, 3)]
    assert engine.step(pack(sequences, skips=[0, 0])).numpy().shape == (2, 48)
    with pytest.raises(BatchError, match=r"sequence 0 leaves 2 tokens out of the pooling.*pack it without skips"):
        engine.step(pack(sequences, skips=[2, 0]))
