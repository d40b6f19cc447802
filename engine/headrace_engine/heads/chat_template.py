"""A chat template (Jinja) taken apart into the three parts of a pair template.

sentence-transformers gives a chat template a pair as two messages, of the roles query and document; a prompt comes
before them, as one of the role system (base/modality.py and base/modules/transformer.py, version 6.2). Rendered with
placeholders for the texts, the template shows what stands around them. This module knows that. It does not know Jinja,
nor what a model makes of the text.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace_engine.document import Document, shown
from headrace_engine.errors import CheckpointError, UnsupportedModel
from headrace_engine.heads.render import MAX_SOURCE_CHARS, render
from headrace_engine.pair_template import PairTemplate

# With blanks around, so that a template that strips its texts is found out.
_SLOTS: Mapping[str, str] = {"system": " {instruction} ", "query": " {query} ", "document": " {document} "}
# What a template may expect as the content of a message: a text, or a list of parts.
_CONTENTS: tuple[Callable[[str], Any], ...] = (lambda text: text, lambda text: [{"type": "text", "text": text}])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """What a chat template makes of a pair.

    Attributes:
        pair: Its parts.
        instruction: What stands for {instruction} if there is no prompt; None where that is nothing.
    """

    pair: PairTemplate
    instruction: str | None


def read_chat_template(directory: Path, *, is_prompted: bool) -> ChatTemplate | None:
    """Read chat_template.jinja, or else chat_template in tokenizer_config.json.

    Args:
        directory: Where the tokenizer's files are.
        is_prompted: Whether a pair always comes with a prompt, since the checkpoint names a default one.

    Returns:
        The parts; None where there is no template, or it leaves out the query or the document, as one for chats does.

    Raises:
        CheckpointError: A file is malformed.
        UnsupportedModel: The template is no Jinja, takes more than a template should, or does more than put text around
            the query and then the document.
    """
    file, source = _find(directory)
    if source is None:
        return None
    variables = _variables(directory)
    # Both ways at once: a process takes longer to start than a template to render.
    sets = [
        {**variables, "messages": [{"role": role, "content": content(_SLOTS[role])} for role in roles]}
        for content in _CONTENTS
        for roles in (("query", "document"), ("system", "query", "document"))
    ]
    texts = render(file, source, sets)
    for plain, prompted in zip(texts[::2], texts[1::2], strict=True):
        if "{query}" in plain and "{document}" in plain:
            return _take_apart(file, plain, prompted, is_prompted=is_prompted)
    return None


def _find(directory: Path) -> tuple[Path, str | None]:
    file = directory / "chat_template.jinja"
    if file.is_file():
        return file, _read_source(file)
    file = directory / "tokenizer_config.json"
    if not file.is_file():
        return file, None
    document = Document.read(file)
    if isinstance(document.values.get("chat_template"), list):  # several, by name
        return file, _default(document)
    return file, document.get("chat_template", str)


def _read_source(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            # One more than may be: no more is read of a file that is too long, and `render` sees that it is.
            return opened.read(MAX_SOURCE_CHARS + 1)
    except UnicodeDecodeError as error:
        message = f"{file} is not UTF-8 ({error}): download the checkpoint again"
        raise CheckpointError(message) from error


def _default(document: Document) -> str | None:
    for entry in document.require("chat_template", list):
        if not isinstance(entry, dict):
            message = f"{document.path}: chat_template has {shown(entry)} and should list objects: correct the file"
            raise CheckpointError(message)
        named = Document(document.path, entry)
        if named.get("name", str) == "default":
            return named.require("template", str)
    return None


def _variables(directory: Path) -> Mapping[str, Any]:
    """What a template may read besides the messages: the special tokens, and what the checkpoint says to pass."""
    config, settings = (
        Document.read(file) if file.is_file() else Document(file, {})
        for file in (directory / "tokenizer_config.json", directory / "sentence_bert_config.json")
    )
    tokens = {
        field: Document(config.path, token).require("content", str) if isinstance(token, dict) else token
        for field, token in config.values.items()
        if field.endswith("_token") and isinstance(token, (str, dict))
    }
    passed = Document(settings.path, settings.get("processing_kwargs", dict) or {}).get("chat_template", dict) or {}
    return {"add_generation_prompt": False, "tools": None, "documents": None, **tokens, **passed}


def _take_apart(file: Path, plain: str, prompted: str, *, is_prompted: bool) -> ChatTemplate:
    before, slot, after = prompted.partition(_SLOTS["system"])
    is_framed = plain.startswith(before) and plain.endswith(after) and len(before) + len(after) <= len(plain)
    # A template that only adds text for a prompt has no place to fill when there is none.
    takes_instruction = bool(slot) and (is_framed or is_prompted)
    text = prompted if takes_instruction else plain
    _check(file, text)
    for padded in _SLOTS.values():
        text = text.replace(padded, padded.strip())
    body, document, suffix = text.partition("{document}")
    fixed = body[: min(body.find(slot.strip()) for slot in _SLOTS.values() if slot.strip() in body)]
    # A line has tokens of its own unless it begins with a blank, as a caller's text may: cut before a fixed one.
    cut = max((match.end() for match in re.finditer(r"\n(?=\S)", fixed)), default=0)
    return ChatTemplate(
        pair=PairTemplate(prefix=body[:cut], body=body[cut:] + document, suffix=suffix),
        instruction=plain[len(before) : len(plain) - len(after)] or None if takes_instruction and is_framed else None,
    )


def _check(file: Path, text: str) -> None:
    instruction, query, document = _SLOTS.values()
    counts = [text.count(slot) for padded in (query, document) for slot in (padded, padded.strip())]
    end = text.find(document)
    if counts != [1, 1, 1, 1] or text.count(instruction) > 1 or max(text.find(query), text.find(instruction)) > end:
        message = (
            f"{file}: a chat template that strips, changes, repeats or reorders its texts is not supported: use a "
            "checkpoint whose template puts text around the query and then the document"
        )
        raise UnsupportedModel(message)
