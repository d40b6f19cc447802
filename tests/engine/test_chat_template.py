"""A chat template taken apart."""

from pathlib import Path

import pytest
from headrace_engine import UnsupportedModel
from headrace_engine.heads.chat_template import ChatTemplate, read_chat_template
from headrace_engine.pair_template import PairTemplate

from .checkpoints import write

QUERY = "{{ (messages | selectattr('role', 'eq', 'query') | first).content }}"
DOCUMENT = "{{ (messages | selectattr('role', 'eq', 'document') | first).content }}"
SYSTEM = "{{ messages | selectattr('role', 'eq', 'system') | map(attribute='content') | first | default('Find it') }}"
# It names each role, and gives one a turn only where there is such a message.
TURNS = "{% for message in messages %}<{{ message.role }}>\n{{ message.content }}</>\n{% endfor %}"


def read(path: Path, template: str, *, is_prompted: bool = False) -> ChatTemplate | None:
    (path / "chat_template.jinja").write_text(template)
    return read_chat_template(path, is_prompted=is_prompted)


def parts(found: ChatTemplate | None) -> tuple[str, str, str]:
    assert found is not None
    return found.pair.prefix, found.pair.body, found.pair.suffix


def test_what_stands_before_the_first_line_with_a_text_is_the_prefix(tmp_path: Path) -> None:
    found = read(tmp_path, f"<s>\nJudge.\n\nTask: {SYSTEM}\nQ: {QUERY}\nD: {DOCUMENT}</s>\nA:\n\n")
    assert found == ChatTemplate(
        pair=PairTemplate(
            prefix="<s>\nJudge.\n\n", body="Task: {instruction}\nQ: {query}\nD: {document}", suffix="</s>\nA:\n"
        ),
        instruction="Find it",
    )


def test_a_line_that_begins_with_a_text_is_not_cut_from_the_one_before(tmp_path: Path) -> None:
    assert parts(read(tmp_path, f"<s>\nQ:\n{QUERY}\n{DOCUMENT}"))[:2] == ("<s>\n", "Q:\n{query}\n{document}")


def test_a_template_without_a_place_for_an_instruction_has_none(tmp_path: Path) -> None:
    found = read(tmp_path, f"{QUERY}|{DOCUMENT}|")
    assert parts(found) == ("", "{query}|{document}", "|")
    assert found is not None
    assert found.instruction is None


def test_a_turn_that_only_a_prompt_has_is_there_if_there_always_is_a_prompt(tmp_path: Path) -> None:
    pair = "<query>\n{query}</>\n<document>\n{document}"
    assert parts(read(tmp_path, TURNS)) == ("", pair, "</>\n")
    prompted = read(tmp_path, TURNS, is_prompted=True)
    assert parts(prompted) == ("", "<system>\n{instruction}</>\n" + pair, "</>\n")
    assert prompted is not None
    assert prompted.instruction is None


def test_contents_may_be_lists_of_parts(tmp_path: Path) -> None:
    structured = [slot.replace(".content", ".content[0].text") for slot in (QUERY, DOCUMENT)]
    assert parts(read(tmp_path, "|".join(structured))) == ("", "{query}|{document}", "")


def test_a_template_may_read_special_tokens_and_what_the_checkpoint_passes(tmp_path: Path) -> None:
    write(tmp_path / "tokenizer_config.json", {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": None})
    write(tmp_path / "sentence_bert_config.json", {"processing_kwargs": {"chat_template": {"language": "en"}}})
    template = f"{{{{ bos_token }}}}{{{{ language }}}}: {QUERY}|{DOCUMENT}{{{{ eos_token }}}}{{{{ tools is none }}}}"
    assert parts(read(tmp_path, template)) == ("", "<s>en: {query}|{document}", "</s>True")


@pytest.mark.parametrize("named", [False, True])
def test_the_template_may_stand_in_the_tokenizers_config(tmp_path: Path, named: bool) -> None:
    template = f"{QUERY}|{DOCUMENT}"
    several = [{"name": "tools", "template": ""}, {"name": "default", "template": template}]
    write(tmp_path / "tokenizer_config.json", {"chat_template": several if named else template})
    assert parts(read_chat_template(tmp_path, is_prompted=False)) == ("", "{query}|{document}", "")


@pytest.mark.parametrize(
    "template", ["", QUERY, DOCUMENT, "{{ raise_exception('no') }}", "{{ 1 // 0 }}", "{{ x.y.z }}"]
)
def test_a_template_that_leaves_out_a_text_is_none_for_pairs(tmp_path: Path, template: str) -> None:
    assert read(tmp_path, template) is None


def test_no_template_is_none(tmp_path: Path) -> None:
    assert read_chat_template(tmp_path, is_prompted=False) is None


@pytest.mark.parametrize(
    "template",
    [
        f"{DOCUMENT}|{QUERY}",
        f"{QUERY}|{DOCUMENT}|{QUERY}",
        f"{QUERY}|{DOCUMENT}|{DOCUMENT}",
        f"{QUERY}|{DOCUMENT}|{SYSTEM}",
        f"{SYSTEM}|{SYSTEM}|{QUERY}|{DOCUMENT}",
        f"{QUERY}|{DOCUMENT}".replace(".content", ".content | trim"),
    ],
)
def test_a_template_that_does_more_than_put_text_around_is_refused(tmp_path: Path, template: str) -> None:
    with pytest.raises(UnsupportedModel, match=r"chat_template\.jinja: a chat template that strips, changes, repeats"):
        read(tmp_path, template, is_prompted=True)


def test_what_is_no_jinja_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="the chat template is not supported"):
        read(tmp_path, "{% what %}")


def test_a_template_reaches_nothing_outside_its_sandbox(tmp_path: Path) -> None:
    escape = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    assert read(tmp_path, f"{escape}{QUERY}|{DOCUMENT}") is None
