"""How a pair becomes the text that a language model answers or scores.

It knows where a checkpoint says so, and the one format that may go without saying. It does not know what becomes of the
text.
"""

from typing import Any

from headrace_engine.document import Document, shown
from headrace_engine.errors import UnsupportedModel
from headrace_engine.heads.chat_template import ChatTemplate, read_chat_template
from headrace_engine.modules import Modules
from headrace_engine.pair_template import PairTemplate
from headrace_engine.prompts import Prompts

# What Qwen3-Reranker was trained with (huggingface.co/Qwen/Qwen3-Reranker-0.6B), for copies from before its chat
# template knew pairs.
QWEN3_RERANKER = ChatTemplate(
    pair=PairTemplate(
        prefix=(
            "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
            'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
        ),
        body="<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}",
        suffix="<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ),
    instruction="Given a web search query, retrieve relevant passages that answer the query",
)


def read_pair_text(modules: Modules, *, are_yes_and_no: bool) -> ChatTemplate:
    """Read the chat template, or take Qwen3-Reranker's format where there is none for pairs.

    Args:
        modules: The checkpoint's; its family is qwen3.
        are_yes_and_no: Whether the model answers with "yes" or "no", which is what that format asks for.

    Raises:
        CheckpointError: A file is malformed.
        UnsupportedModel: Nothing says how a pair becomes one text, or it is no text around the query and the document.
    """
    directory = modules.transformer
    _check_modalities(modules)
    chat = _read_template(modules)
    if chat is None and are_yes_and_no:
        chat = QWEN3_RERANKER
    if chat is None:
        message = (
            f"{directory}: no chat template with the roles query and document says how a pair becomes one text: "
            "use a model that has one"
        )
        raise UnsupportedModel(message)
    _check_prompts(modules, chat)
    return chat


def find_pair_text(modules: Modules) -> ChatTemplate | None:
    """Find the chat template with which sentence-transformers joins the pairs of a classifier; None where it has none.

    Without modules.json a template is used if there is one, and beside it only if modality_config says so: from before
    that field the tokenizer joins pairs (base/modules/transformer.py, version 6.2).

    Args:
        modules: The checkpoint's.

    Raises:
        CheckpointError: A file is malformed.
        UnsupportedModel: The template is no text around the query and the document.
    """
    modalities = _modalities(modules)
    if "message" not in modalities if modalities is not None else modules.steps is not None:
        return None
    chat = _read_template(modules)
    if chat is not None:
        _check_prompts(modules, chat)
    return chat


def _read_template(modules: Modules) -> ChatTemplate | None:
    prompts = Prompts.read(modules.file.parent)
    return read_chat_template(modules.transformer, is_prompted=prompts.default is not None)


def _check_prompts(modules: Modules, chat: ChatTemplate) -> None:
    prompts = Prompts.read(modules.file.parent)
    if any(prompts.texts.values()) and "{instruction}" not in chat.pair.body:
        message = (
            f"{modules.transformer}: prompts {sorted(prompts.texts)} are not supported beside a chat template that has "
            "no place for them: use another model"
        )
        raise UnsupportedModel(message)


def _modalities(modules: Modules) -> dict[str, Any] | None:
    file = modules.transformer / "sentence_bert_config.json"
    return Document.read(file).get("modality_config", dict) if file.is_file() else None


def _check_modalities(modules: Modules) -> None:
    modalities = _modalities(modules)
    if modalities is not None and "message" not in modalities:
        message = (
            f"{modules.transformer / 'sentence_bert_config.json'}: modality_config={shown(modalities)} without message,"
            " so that no chat template is used, is not supported: use another model"
        )
        raise UnsupportedModel(message)
