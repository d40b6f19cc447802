"""A small byte-level tokenizer like Qwen's, and its files."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer

from .checkpoints import write
from .texts import texts

END = "<|endoftext|>"
# How Qwen's tokenizer.json splits a text: newlines stick to the blanks before them and the punctuation before those.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def write_tokenizer(path: Path, **config: object) -> Tokenizer:
    """Write tokenizer.json, which puts `END` after each text, and tokenizer_config.json."""
    tokenizer = Tokenizer(BPE())
    bytewise = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = Sequence([Split(Regex(_SPLIT), "isolated"), bytewise])
    trainer = BpeTrainer(
        vocab_size=360,
        special_tokens=[AddedToken(token, special=True) for token in (END, "<|im_start|>", "<|im_end|>")],
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts(), *["yes", "no", "Yes", ".\n", ">\n"] * 500], trainer)
    tokenizer.post_processor = TemplateProcessing(
        single=f"$A {END}", pair=f"$A $B {END}", special_tokens=[(END, tokenizer.token_to_id(END))]
    )
    path.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    write(
        path / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": END,
            "model_max_length": 512,
            **config,
        },
    )
    return tokenizer


def encode(tokenizer: Tokenizer, text: str, *, special: bool = True) -> npt.NDArray[np.uint32]:
    return np.array(tokenizer.encode(text, add_special_tokens=special).ids, np.uint32)
