"""A chat template (Jinja) taken apart into the three parts of a pair template.

sentence-transformers gives a chat template a pair as two messages, of the roles query and document; a prompt comes
before them, as one of the role system (base/modality.py and base/modules/transformer.py, version 6.2). Rendered with
placeholders for the texts, the template shows what stands around them. This module knows that and Jinja, which comes
with torch. It does not know what a model makes of the text.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateSyntaxError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headrace_engine.document import Document
from headrace_engine.errors import UnsupportedModel
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
        UnsupportedModel: The template is no Jinja, or does more than put text around the query and then the document.
    """
    file, source = _find(directory)
    if source is None:
        return None
    template, variables = _compile(file, source), _variables(directory)
    for content in _CONTENTS:
        plain = _render(template, variables, content, "query", "document")
        if "{query}" in plain and "{document}" in plain:
            prompted = _render(template, variables, content, "system", "query", "document")
            return _take_apart(file, plain, prompted, is_prompted=is_prompted)
    return None


def _find(directory: Path) -> tuple[Path, str | None]:
    file = directory / "chat_template.jinja"
    if file.is_file():
        return file, file.read_text("utf-8")
    file = directory / "tokenizer_config.json"
    found = Document.read(file).values.get("chat_template") if file.is_file() else None
    if isinstance(found, list):  # several, by name
        named = {entry.get("name"): entry.get("template") for entry in found if isinstance(entry, dict)}
        found = named.get("default")
    return file, found if isinstance(found, str) else None


def _variables(directory: Path) -> Mapping[str, Any]:
    """What a template may read besides the messages: the special tokens, and what the checkpoint says to pass."""
    config, settings = (
        Document.read(directory / name).values if (directory / name).is_file() else {}
        for name in ("tokenizer_config.json", "sentence_bert_config.json")
    )
    tokens = {
        field: token["content"] if isinstance(token, dict) else token
        for field, token in config.items()
        if field.endswith("_token") and isinstance(token, (str, dict))
    }
    passed = (settings.get("processing_kwargs") or {}).get("chat_template") or {}
    return {"add_generation_prompt": False, "tools": None, "documents": None, **tokens, **passed}


def _compile(file: Path, source: str) -> Template:
    # The blanks around blocks go as in transformers (utils/chat_template_utils.py). A template is code from elsewhere:
    # in this sandbox it reaches no Python object but its messages.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    try:
        return environment.from_string(source)
    except TemplateSyntaxError as error:
        message = f"{file}: the chat template is not supported ({error}): use a checkpoint with another"
        raise UnsupportedModel(message) from error


def _render(template: Template, variables: Mapping[str, Any], content: Callable[[str], Any], *roles: str) -> str:
    messages = [{"role": role, "content": content(_SLOTS[role])} for role in roles]
    try:
        return template.render(messages=messages, **variables)
    except Exception:  # noqa: BLE001 - a template can raise anything, and does where it does not know the roles
        return ""


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
