"""The token head against the logits of transformers, and pairs as sentence-transformers joins them."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from headrace_engine import Checkpoint, CheckpointError, Engine, EngineConfig, UnsupportedModel, finish_scores, pack
from headrace_engine.heads.answer_tokens import AnswerTokens
from headrace_engine.heads.pair_text import QWEN3_RERANKER
from headrace_engine.modules import Modules
from safetensors.torch import load_file
from tokenizers import Tokenizer

from .byte_level import encode, write_tokenizer
from .checkpoints import change_tensors, edit, write, write_modules
from .texts import texts
from .vectors import random_ids

# transformers and sentence-transformers warn about their own deprecations; which ones depends on their versions.
pytestmark = pytest.mark.filterwarnings("ignore")

VOCAB = 400
WIDTH = 48
SEQUENCES = [random_ids(index, length, VOCAB) for index, length in enumerate((7, 1, 33, 20, 7, 64, 33, 2, 90, 33))]
# The layout of Qwen3-Reranker's own chat template.
RERANKER = (
    '{%- set instruct = messages | selectattr("role", "eq", "system") | map(attribute="content") | first '
    f'| default("{QWEN3_RERANKER.instruction}") -%}}\n'
    f"{QWEN3_RERANKER.pair.prefix}<Instruct>: {{{{ instruct }}}}\n"
    '<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}\n'
    '<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}'
    f"{QWEN3_RERANKER.pair.suffix}\n"
)
# One for chats alone, as the first Qwen3-Reranker came with.
CHAT = (
    "{% for message in messages %}{% if message.role == 'user' %}<|im_start|>user\n{{ message.content }}<|im_end|>\n"
    "{% endif %}{% endfor %}"
)
# One that knows no instruction and asks for the prompt of an answer.
BARE = (
    "<|im_start|>system\n{{ (messages | selectattr('role', 'eq', 'query') | first).content }}<|im_end|>\n"
    "<|im_start|>user\n{{ (messages | selectattr('role', 'eq', 'document') | first).content }}<|im_end|>\n"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PAIRS = [(query, document) for query in ("Who signs the lease?", "\n水 ", ".") for document in texts()[30:60:3]]


def make_reranker(path: Path, *, template: str | None = None, **fields: Any) -> Any:
    """Save a random Qwen3 with a token head, as Qwen3-Reranker is on the hub, and return it."""
    from transformers import Qwen3Config, Qwen3ForCausalLM  # noqa: PLC0415 - slow, and only these tests need it

    torch.manual_seed(3)
    config = {
        "vocab_size": VOCAB,
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 64,
        "max_position_embeddings": 1024,
        "initializer_range": 0.2,
        "tie_word_embeddings": True,
    }
    model = Qwen3ForCausalLM(Qwen3Config(**{**config, **fields})).train(mode=False)
    model.save_pretrained(path)
    write_tokenizer(path, model_max_length=1024, **({} if template is None else {"chat_template": template}))
    return model


def add_scorer(path: Path, *, true: int, false: int | None, **settings: Any) -> None:
    """Add the files that sentence-transformers adds to a reranker."""
    types = ("base.modules.transformer.Transformer", "cross_encoder.modules.logit_score.LogitScore")
    modules = [
        {"type": f"sentence_transformers.{kind}", "path": path, "name": str(index), "idx": index}
        for index, (kind, path) in enumerate(zip(types, ("", "1_LogitScore"), strict=True))
    ]
    write(path / "modules.json", modules)
    write(path / "1_LogitScore" / "config.json", {"true_token_id": true, "false_token_id": false})
    logits = {"method": "forward", "method_output_name": "logits"}
    transformer = {
        "transformer_task": "text-generation",
        "modality_config": {"text": logits, "message": {**logits, "format": "flat"}},
        "module_output_name": "causal_logits",
    }
    write(path / "sentence_bert_config.json", {**transformer, **settings})
    write(path / "config_sentence_transformers.json", {"model_type": "CrossEncoder", "prompts": {}})


def tokenizer_of(path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(path / "tokenizer.json"))


def token(path: Path, word: str) -> int:
    found = tokenizer_of(path).token_to_id(word)
    assert found is not None
    return found


def scores(path: Path, sequences: Any = SEQUENCES, dtype: Any = "float32") -> npt.NDArray[Any]:
    return Engine.load(path, EngineConfig(dtype=dtype)).step(pack(sequences)).numpy()


@torch.inference_mode()
def last_logits(model: Any) -> npt.NDArray[Any]:
    """[n, VOCAB], what transformers expects after each sequence."""
    inputs = [torch.from_numpy(sequence.astype(np.int64))[None] for sequence in SEQUENCES]
    return np.stack([model(input_ids=ids).logits[0, -1].float().numpy() for ids in inputs])


@pytest.mark.parametrize("tied", [True, False])
def test_a_score_is_the_logit_of_yes_less_that_of_no(tmp_path: Path, tied: bool) -> None:
    model = make_reranker(tmp_path, tie_word_embeddings=tied)
    yes, no = token(tmp_path, "yes"), token(tmp_path, "no")
    logits = last_logits(model)
    np.testing.assert_allclose(scores(tmp_path)[:, 0], logits[:, yes] - logits[:, no], atol=1e-5, rtol=1e-5)


def test_bfloat16_scores_are_close_to_those_of_float32(tmp_path: Path) -> None:
    make_reranker(tmp_path)
    np.testing.assert_allclose(scores(tmp_path, dtype="bfloat16"), scores(tmp_path), atol=0.15)


def test_a_score_is_its_own_alone_and_in_any_order(tmp_path: Path) -> None:
    make_reranker(tmp_path)
    together = scores(tmp_path)
    assert together.shape == (len(SEQUENCES), 1)
    np.testing.assert_allclose(np.concatenate([scores(tmp_path, [each]) for each in SEQUENCES]), together, atol=1e-5)
    np.testing.assert_allclose(scores(tmp_path, SEQUENCES[::-1]), together[::-1], atol=1e-5)


@pytest.mark.parametrize("false", [17, None])
def test_a_scorer_may_name_other_tokens_or_one_alone(tmp_path: Path, false: int | None) -> None:
    model = make_reranker(tmp_path, template=RERANKER)
    add_scorer(tmp_path, true=5, false=false)
    logits = last_logits(model)
    expected = logits[:, 5] if false is None else logits[:, 5] - logits[:, false]
    np.testing.assert_allclose(scores(tmp_path)[:, 0], expected, atol=1e-5, rtol=1e-5)


def test_a_tied_token_head_that_is_there_all_the_same_must_be_the_embedding(tmp_path: Path) -> None:
    make_reranker(tmp_path)
    before = scores(tmp_path)
    embedding = load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"]
    change_tensors(tmp_path, lambda tensors: tensors.update({"lm_head.weight": embedding}))
    np.testing.assert_array_equal(scores(tmp_path), before)
    change_tensors(tmp_path, lambda tensors: tensors.update({"lm_head.weight": embedding + 1}))
    with pytest.raises(CheckpointError, match=r"lm_head\.weight is not the embedding.*tie_word_embeddings=true"):
        Engine.load(tmp_path)


def test_a_token_head_of_its_own_must_be_there(tmp_path: Path) -> None:
    make_reranker(tmp_path, tie_word_embeddings=False)
    change_tensors(tmp_path, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(CheckpointError, match=r"tensor lm_head\.weight is missing"):
        Engine.load(tmp_path)


def test_the_checkpoint_says_that_it_scores_pairs_and_how_they_are_asked_about(tmp_path: Path) -> None:
    make_reranker(tmp_path)
    checkpoint = Checkpoint.read(tmp_path, "reranker")
    assert (checkpoint.tasks, checkpoint.dim, checkpoint.dtypes) == (("score",), 1, ("f32",))
    assert (checkpoint.pooling, checkpoint.activation, checkpoint.num_segments) == ("last_token", "sigmoid", 1)
    assert checkpoint.pair_template == QWEN3_RERANKER.pair
    assert checkpoint.prompts == {"default": QWEN3_RERANKER.instruction}
    assert checkpoint.default_prompt == "default"


@pytest.mark.parametrize("template", [None, CHAT, RERANKER, "{{ raise_exception('no such role') }}"])
def test_qwen3_reranker_reads_pairs_in_its_own_format_whichever_template_it_comes_with(
    tmp_path: Path, template: str | None
) -> None:
    make_reranker(tmp_path, template=template)
    checkpoint = Checkpoint.read(tmp_path, "reranker")
    assert checkpoint.pair_template == QWEN3_RERANKER.pair
    assert checkpoint.prompts == {"default": QWEN3_RERANKER.instruction}


def test_a_model_asked_for_other_words_needs_a_template(tmp_path: Path) -> None:
    make_reranker(tmp_path, template=CHAT)
    yes = token(tmp_path, "yes")
    add_scorer(tmp_path, true=yes, false=token(tmp_path, "no"))
    assert Checkpoint.read(tmp_path, "reranker").pair_template == QWEN3_RERANKER.pair
    add_scorer(tmp_path, true=yes, false=None)
    with pytest.raises(UnsupportedModel, match="no chat template with the roles query and document"):
        Checkpoint.read(tmp_path, "reranker")


# Against sentence-transformers: the same tokens, and the same scores.


def ids_of_pair(checkpoint: Checkpoint, tokenizer: Tokenizer, pair: tuple[str, str], prompt: str) -> Any:
    template = checkpoint.pair_template
    assert template is not None
    query, document = pair
    body = template.body.removesuffix("{document}")
    for slot, text in {"{instruction}": prompt, "{query}": query}.items():
        body = text.join(body.split(slot))
    parts = [encode(tokenizer, part, special=False) for part in (template.prefix, body + document, template.suffix)]
    return np.concatenate(parts)


def compare(path: Path, prompt_name: str | None = None) -> None:
    """Compare tokens and scores with those of CrossEncoder."""
    from sentence_transformers import CrossEncoder  # noqa: PLC0415 - slow, and only these tests need it

    oracle = CrossEncoder(str(path), device="cpu")
    engine = Engine.load(path, EngineConfig(dtype="float32"))
    checkpoint = engine.checkpoint
    name = prompt_name or checkpoint.default_prompt
    prompt = "" if name is None else checkpoint.prompts[name]
    sequences = [ids_of_pair(checkpoint, tokenizer_of(path), pair, prompt) for pair in PAIRS]
    asked = None if prompt_name is None else prompt
    for pair, sequence in zip(PAIRS, sequences, strict=True):
        features = oracle.preprocess([pair], prompt=asked or oracle._resolve_prompt(None, None))
        assert features["input_ids"][0].tolist() == sequence.tolist()
    assert checkpoint.activation is not None
    found, good = finish_scores(engine.step(pack(sequences)).numpy(), checkpoint.activation)
    assert good.all()
    expected = oracle.predict(PAIRS, prompt=asked, batch_size=4)
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-5, rtol=1e-5)


def test_a_bare_causal_model_scores_as_in_sentence_transformers(tmp_path: Path) -> None:
    make_reranker(tmp_path, template=RERANKER)
    compare(tmp_path)


def make_classifier(path: Path, template: str) -> None:
    """Save what tomaarsen/Qwen3-Reranker-0.6B-seq-cls is: a Qwen3 that scores the last token, and a chat template."""
    from transformers import Qwen3ForSequenceClassification  # noqa: PLC0415 - slow, and only these tests need it

    config = make_reranker(path, template=template).config
    config.num_labels, config.pad_token_id = 1, token(path, "<|endoftext|>")
    torch.manual_seed(3)
    make: Any = Qwen3ForSequenceClassification  # untyped
    make(config).save_pretrained(path)


def test_a_classifier_reads_pairs_through_its_chat_template_as_in_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder  # noqa: PLC0415 - slow, and only these tests need it

    make_classifier(tmp_path / "bare", RERANKER)
    compare(tmp_path / "bare")
    CrossEncoder(str(tmp_path / "bare"), device="cpu").save_pretrained(str(tmp_path / "saved"))
    compare(tmp_path / "saved")


def test_a_classifier_has_no_use_for_a_chat_template_without_pairs_or_from_before_there_were_any(
    tmp_path: Path,
) -> None:
    make_classifier(tmp_path / "chat", CHAT)
    make_classifier(tmp_path / "old", RERANKER)
    write_modules(tmp_path / "old", "Transformer")
    write(tmp_path / "old" / "sentence_bert_config.json", {"max_seq_length": 512})
    for name in ("chat", "old"):
        checkpoint = Checkpoint.read(tmp_path / name, name)
        assert (checkpoint.tasks, checkpoint.pair_template, dict(checkpoint.prompts)) == (("score",), None, {})


@pytest.mark.parametrize("prompt", [None, "legal"])
def test_a_prompt_is_the_instruction_as_in_sentence_transformers(tmp_path: Path, prompt: str | None) -> None:
    make_reranker(tmp_path, template=RERANKER)
    add_scorer(tmp_path, true=token(tmp_path, "yes"), false=token(tmp_path, "no"))
    edit(
        tmp_path / "config_sentence_transformers.json",
        prompts={"legal": "Find the clause", "web": "Find the page"},
        default_prompt_name="web",
    )
    compare(tmp_path, prompt)


@pytest.mark.parametrize("activation", ["Identity", "Sigmoid"])
def test_a_saved_scorer_keeps_its_template_and_its_activation(tmp_path: Path, activation: str) -> None:
    make_reranker(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(BARE)
    arguments = {"processing_kwargs": {"chat_template": {"add_generation_prompt": True}}}
    add_scorer(tmp_path, true=token(tmp_path, "Yes"), false=None, **arguments)
    path = f"torch.nn.modules.{'linear' if activation == 'Identity' else 'activation'}.{activation}"
    edit(tmp_path / "config_sentence_transformers.json", activation_fn=path)
    checkpoint = Checkpoint.read(tmp_path, "reranker")
    assert (checkpoint.activation, checkpoint.prompts) == (activation.lower(), {})
    assert checkpoint.pair_template is not None
    assert checkpoint.pair_template.suffix.endswith("<|im_start|>assistant\n")
    compare(tmp_path)


def test_what_sentence_transformers_saves_scores_the_same(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder  # noqa: PLC0415 - slow, and only these tests need it

    make_reranker(tmp_path / "bare", template=RERANKER)
    CrossEncoder(str(tmp_path / "bare"), device="cpu").save_pretrained(str(tmp_path / "saved"))
    compare(tmp_path / "saved")


def test_the_files_that_change_a_score_change_the_revision(tmp_path: Path) -> None:
    make_reranker(tmp_path, template=RERANKER)
    add_scorer(tmp_path, true=5, false=17)
    revisions = {Checkpoint.read(tmp_path, "reranker").revision}
    edit(tmp_path / "1_LogitScore" / "config.json", true_token_id=6)
    revisions.add(Checkpoint.read(tmp_path, "reranker").revision)
    edit(tmp_path / "config_sentence_transformers.json", activation_fn="torch.nn.modules.linear.Identity")
    revisions.add(Checkpoint.read(tmp_path, "reranker").revision)
    assert len(revisions) == 3


@pytest.mark.parametrize(
    ("file", "fields", "error", "message"),
    [
        (
            "config.json",
            {"model_type": "bidirectional_pplx_qwen3"},
            UnsupportedModel,
            "model_type='bidirectional_pplx_qwen3' has no token head",
        ),
        ("1_LogitScore/config.json", {"true_token_id": VOCAB}, CheckpointError, "token 400 of 1_LogitScore/config"),
        ("1_LogitScore/config.json", {"false_token_id": -1}, CheckpointError, "token -1 of .* is outside"),
        ("1_LogitScore/config.json", {"true_token_id": None}, CheckpointError, "true_token_id is missing"),
        ("sentence_bert_config.json", {"modality_config": {"text": {}}}, UnsupportedModel, "without message"),
        ("config_sentence_transformers.json", {"activation_fn": "x.Tanh"}, UnsupportedModel, "activation_fn='x.Tanh'"),
    ],
)
def test_contradictions_are_refused_by_name(
    tmp_path: Path, file: str, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    make_reranker(tmp_path, template=RERANKER)
    add_scorer(tmp_path, true=5, false=17)
    edit(tmp_path / file, **fields)
    with pytest.raises(error, match=message):
        Engine.load(tmp_path)


def test_a_chain_that_goes_on_after_the_score_is_refused(tmp_path: Path) -> None:
    make_reranker(tmp_path, template=RERANKER)
    add_scorer(tmp_path, true=5, false=17)
    write_modules(tmp_path, "Transformer", "LogitScore", "Dense")
    with pytest.raises(UnsupportedModel, match="Transformer → LogitScore → Dense is not supported"):
        Engine.load(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"added_tokens": ["yes"]}, "added_tokens has 'yes' and should list objects"),
        ({"added_tokens": [{"id": 5}]}, "content is missing"),
        ({"added_tokens": [{"content": "yes"}]}, "id is missing"),
        ({"added_tokens": [{"content": "yes", "id": "5"}]}, "id='5' should be of type int"),
        ({"model": {"vocab": {"yes": "5", "no": 6}}}, "yes='5' should be of type int"),
    ],
)
def test_a_tokenizer_that_is_malformed_is_refused_by_name(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    write(tmp_path / "tokenizer.json", {"model": {"vocab": {"yes": 5, "no": 6}}, **fields})
    with pytest.raises(CheckpointError, match=rf"tokenizer\.json: {message}"):
        AnswerTokens.read(Modules.read(tmp_path), VOCAB)


def test_a_tokenizer_without_the_words_is_refused(tmp_path: Path) -> None:
    make_reranker(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(file.read_text().replace('"yes":', '"yesss":'))
    with pytest.raises(UnsupportedModel, match='"yes" and "no" are not both tokens'):
        Engine.load(tmp_path)


def test_prompts_need_a_place_in_the_template(tmp_path: Path) -> None:
    make_reranker(tmp_path, template=BARE)
    write(tmp_path / "config_sentence_transformers.json", {"prompts": {"web": "Find the page"}})
    with pytest.raises(UnsupportedModel, match=r"prompts \['web'\] are not supported beside a chat template"):
        Checkpoint.read(tmp_path, "reranker")
