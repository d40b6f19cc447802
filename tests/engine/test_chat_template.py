"""A chat template taken apart."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from headrace_engine import CheckpointError, UnsupportedModel
from headrace_engine.heads.chat_template import ChatTemplate, read_chat_template
from headrace_engine.heads.render import render
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


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes too long"),
        ("{{ 10 ** (9 ** 9) }}", "takes too long"),
        ("{{ 'a' * 3000000000 }}", "MemoryError"),
        ("{% set a = ['a' * 9999] %}{% for i in range(9999) %}{{ a[0] * 9 }}{% endfor %}", "(MemoryError|memory)"),
        ("{{ 'a' * 300000 }}", "bytes of text"),
        ("{% for i in [1] %}" * 30 + "{% endfor %}" * 30, "SyntaxError"),
        ("{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}", "RecursionError"),
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "RecursionError"),
        ("{{ '\\ud800' }}", "UnicodeEncodeError"),
        ("{{ 'a' }}" * 9999, "longer than 65536 characters"),
    ],
)
def test_a_template_that_takes_more_than_it_should_is_refused(tmp_path: Path, template: str, reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=rf"chat_template\.jinja: the chat template is not supported.*{reason}"):
        read(tmp_path, f"{template}{QUERY}|{DOCUMENT}")


def test_a_template_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja is not UTF-8"):
        read_chat_template(tmp_path, is_prompted=False)


def test_a_template_is_read_as_far_as_it_may_be_long_whatever_its_letters(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="longer than 65536 characters"):
        read(tmp_path, "水" * 99_999)
    text = "水" * 60_000
    assert parts(read(tmp_path, f"{text}{QUERY}|{DOCUMENT}")) == ("", text + "{query}|{document}", "")


@pytest.mark.parametrize(
    ("file", "fields", "message"),
    [
        ("tokenizer_config.json", {"chat_template": 5}, "chat_template=5 should be of type str"),
        ("tokenizer_config.json", {"chat_template": {"default": ""}}, "chat_template=.* should be of type str"),
        ("tokenizer_config.json", {"chat_template": ["a"]}, "chat_template has 'a'"),
        ("tokenizer_config.json", {"chat_template": [{"name": 5}]}, "name=5 should be of type str"),
        ("tokenizer_config.json", {"chat_template": [{"name": "default"}]}, "template is missing"),
        ("tokenizer_config.json", {"chat_template": "a", "bos_token": {"id": 5}}, "content is missing"),
        (
            "sentence_bert_config.json",
            {"processing_kwargs": []},
            r"processing_kwargs=\[\] should be of type dict",
        ),
        (
            "sentence_bert_config.json",
            {"processing_kwargs": {"chat_template": "a"}},
            "chat_template='a' should be of type dict",
        ),
    ],
)
def test_fields_of_another_type_are_named(tmp_path: Path, file: str, fields: Mapping[str, Any], message: str) -> None:
    write(tmp_path / "tokenizer_config.json", {"chat_template": f"{QUERY}|{DOCUMENT}"})
    write(tmp_path / file, fields)
    with pytest.raises(CheckpointError, match=f"{file}: {message}"):
        read_chat_template(tmp_path, is_prompted=False)


def test_what_a_template_may_read_must_not_be_nested_too_deep(tmp_path: Path) -> None:
    nested: Any = None
    for _ in range(9999):
        nested = [nested]
    with pytest.raises(UnsupportedModel, match="nested too deep"):
        render(tmp_path, "", [{"nested": nested}])


def test_a_template_is_rendered_without_the_engine_or_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jinja2.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert render(tmp_path, "{{ a }}", [{"a": 1}, {"a": "水"}]) == ["1", "水"]
