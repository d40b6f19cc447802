"""How a query and a document become one text, for models that were taught to read a pair so.

It knows the three parts. Whoever tokenises fills them in; the engine never sees them as such.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTemplate:
    """A text in three parts, each tokenised by itself and without special tokens added.

    Attributes:
        prefix: What stands first.
        body: The middle, with {query}, perhaps {instruction}, and {document} at its very end. It is cut at its end when
            all is too long, so that only the document loses tokens.
        suffix: What stands last, and is never cut.
    """

    prefix: str
    body: str
    suffix: str
