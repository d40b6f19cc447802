"""tokenizer.json, handed on as it is.

It knows that the file is there and can be used alone. It does not tokenise.
"""

from pathlib import Path
from typing import Any

from headrace_engine.document import Document
from headrace_engine.errors import CheckpointError, UnsupportedModel


def read_tokenizer(directory: Path) -> bytes:
    """Read tokenizer.json, byte for byte.

    Raises:
        CheckpointError: It is missing or not JSON.
        UnsupportedModel: sentence-transformers would turn texts to lower case before it, which the file alone does not.
    """
    file = directory / "tokenizer.json"
    if not file.is_file():
        message = (
            f"{file} is missing: make it with transformers, AutoTokenizer.from_pretrained(path).save_pretrained(path)"
        )
        raise CheckpointError(message)
    tokenizer = Document.read(file)
    settings = directory / "sentence_bert_config.json"
    lowers = settings.exists() and Document.read(settings).get("do_lower_case", bool)
    if lowers and not _lowercases(tokenizer.values.get("normalizer")):
        message = (
            f"{settings}: do_lower_case=true is not supported beside {file.name}: add a Lowercase normalizer there"
        )
        raise UnsupportedModel(message)
    return file.read_bytes()


def _lowercases(normalizer: Any) -> bool:
    """Tell whether a normalizer of tokenizer.json turns text to lower case by itself."""
    # No recursion: they may stand in each other as deep as JSON can be read.
    waiting = [normalizer]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if each.get("type") == "Lowercase" or each.get("lowercase"):
                return True
            inner = each.get("normalizers")
            waiting += inner if isinstance(inner, list) else []
    return False
