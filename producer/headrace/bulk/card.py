"""What vectors are: the card that lies beside them in a sink.

Knows what must agree for two vectors to be compared, and how a card is written down. Does not know the sinks that keep
it, nor vectors.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from headrace_contracts import Dtype, ModelSpec, Options

from headrace.errors import CardMismatch, SinkError

# Of these may differ what vectors are compared all the same: names, and what the device computed in.
_FOR_PEOPLE = frozenset({"model", "source", "compute_dtype"})
# Types of the fields that are no texts.
_KINDS: dict[str, type] = {"dim": int, "max_length": int, "normalize": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What the vectors of a sink are.

    Attributes:
        model: the name that it was served by.
        source: where the worker had it from.
        fingerprint: the contract's, of tokenizer, revision, pooling and max length.
        tokenizer: SHA-256 of tokenizer.json.
        pooling: how token rows became one row.
        prompt: the text that was put before each text.
        dim: dimensions of a vector.
        dtype: of its elements.
        normalize: whether it was scaled to length one.
        max_length: tokens at which texts were cut.
        compute_dtype: what the device computed in.
    """

    model: str
    source: str
    fingerprint: str
    tokenizer: str
    pooling: str
    prompt: str
    dim: int
    dtype: Dtype
    normalize: bool
    max_length: int
    compute_dtype: str

    @classmethod
    def of(cls, spec: ModelSpec, options: Options, prompt: str) -> Self:
        """The card of what a model gives for these options."""
        return cls(
            model=spec.name,
            source=spec.source,
            fingerprint=spec.fingerprint,
            tokenizer=spec.tokenizer,
            pooling=spec.pooling,
            prompt=prompt,
            dim=options.dim or spec.dim,
            dtype=options.dtype,
            normalize=options.normalize,
            max_length=spec.max_length,
            compute_dtype=spec.compute_dtype,
        )

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, written: str | bytes) -> Self:
        """Read it.

        Raises:
            SinkError: it is none.
        """
        try:
            found = json.loads(written)
            return cls(**{field.name: _typed(field.name, found[field.name]) for field in fields(cls)})
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            text = f"the card beside the vectors cannot be read ({error!r}): is it another program's?"
            raise SinkError(text) from error

    def check(self, there: "Card", where: str) -> None:
        """See that vectors of this card may join those that are there.

        Raises:
            CardMismatch: they may not; the text says what differs.
        """
        differing = [
            f"{name} is {has!r}, this job has {wants!r}"
            for name, wants in asdict(self).items()
            if name not in _FOR_PEOPLE and (has := getattr(there, name)) != wants
        ]
        if differing:
            raise CardMismatch(
                f"{where} holds vectors that cannot be compared with those of this job: {'; '.join(differing)}. Choose "
                "another sink, or have them replaced (--replace)"
            )


def _typed(name: str, value: object) -> Any:
    kind = _KINDS.get(name, str)
    if type(value) is not kind:  # true is no number
        raise TypeError(f"{name} is of type {type(value).__name__}, not {kind.__name__}")
    return value
