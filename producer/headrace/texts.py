"""What may be handed to `embed` and `score`, and what is made of odd texts.

Knows Python strings only. Does not know tokens. The rules, which the docstrings of Client repeat:

* a str is one text, any other iterable of str is a list of texts;
* None, bytes, numbers and mappings are InputErrors that name the place;
* empty, blank and NUL-carrying texts are texts like others: the tokenizer decides what is left of them;
* a lone surrogate, which no UTF-8 can carry, becomes U+FFFD as in every browser.
"""

from collections.abc import Iterable, Mapping

from headrace.errors import InputError


def read_text(text: str, name: str) -> str:
    """Check and clean one text; `name` is what the caller knows it by.

    Raises:
        InputError: it is no str.
    """
    if not isinstance(text, str):
        raise InputError(f"{name} is {_describe(text)}: pass a str")
    return _clean(text)


def read_texts(texts: str | Iterable[str], name: str = "texts") -> tuple[list[str], bool]:
    """Check and clean the texts; `name` is what the caller knows them by.

    Returns:
        The texts, and whether a single one was given.

    Raises:
        InputError: it is neither a str nor an iterable of str.
    """
    if isinstance(texts, str):
        return [_clean(texts)], True
    if isinstance(texts, (bytes, bytearray, Mapping)) or not isinstance(texts, Iterable):
        raise InputError(f"{name} is {_describe(texts)}: pass a str, or a list of str")
    return [_clean(require_text(item, name, index)) for index, item in enumerate(texts)], False


def check_source(texts: object, kinds: type | tuple[type, ...]) -> None:
    """Refuse what is no source of many texts.

    Args:
        texts: what was given.
        kinds: of sources that can be read.

    Raises:
        InputError: it is none of them, or a single text.
    """
    if isinstance(texts, (str, bytes, bytearray, Mapping)) or not isinstance(texts, kinds):
        raise InputError(f"texts is {_describe(texts)}: pass an iterable of str, such as a list or a generator")


def require_text(item: str, name: str, index: int) -> str:
    """The item, which stands at `index` of what the caller knows as `name`.

    Raises:
        InputError: it is no str.
    """
    if not isinstance(item, str):
        raise InputError(f"{name}[{index}] is {_describe(item)}: every one must be a str")
    return item


def _clean(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16 so that a surrogate pair that was split by bad JSON handling is joined again.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    # A subclass of str (NumPy's, for one) is not a str to the tokenizer.
    return str(text)


def _describe(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
