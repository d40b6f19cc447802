"""The models of a fake fleet.

Knows what a ModelSpec needs so that a client can use it. Does not know how vectors are made.
"""

from collections.abc import Mapping
from hashlib import sha256

from headrace_contracts import DecodeError, Dtype, ModelSpec, Task, decode_spec, encode_spec

from headrace.errors import InputError
from headrace.testing.words import VOCAB_SIZE


def fake_model(  # noqa: PLR0913 - what a model can be
    name: str,
    *,
    tasks: tuple[Task, ...] = ("embed",),
    dim: int = 384,
    max_length: int = 512,
    dtypes: tuple[Dtype, ...] = ("f32", "f16"),
    normalize: bool = True,
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
    max_chunk_tokens: int = 16384,
    max_chunk_items: int = 256,
) -> ModelSpec:
    """The spec of a model for FakeClient. For fields that have no argument here, use `dataclasses.replace`.

    Args:
        name: served name.
        tasks: what it can do: "embed", "score" or both.
        dim: dimensions of its vectors.
        max_length: tokens of the longest text or pair. A word is a token, and so is a punctuation mark; a text has two
            special tokens besides, a pair three.
        dtypes: element types of its vectors; the first is its default.
        normalize: whether vectors have length one unless a call says otherwise.
        prompts: text to put before the input, by prompt name.
        default_prompt: name of the one to use when a call names none.
        max_chunk_tokens: tokens of a chunk; what is longer is sent in several.
        max_chunk_items: texts of a chunk.

    Raises:
        InputError: no worker could publish such a model.
    """
    digest = sha256(name.encode()).hexdigest()
    return checked(
        ModelSpec(
            name=name,
            source="headrace.testing",
            tasks=tasks,
            dim=dim,
            dtypes=dtypes,
            default_dtype=dtypes[0] if dtypes else "f32",
            compute_dtype="float32",
            max_length=max_length,
            max_length_source="headrace.testing",
            pooling="mean",
            include_prompt=True,
            normalize=normalize,
            prompts=prompts or {},
            default_prompt=default_prompt,
            pair_template=None,
            vocab_size=VOCAB_SIZE,
            num_segments=2,
            fingerprint=digest[:32],
            tokenizer=digest,
            max_chunk_tokens=max(max_chunk_tokens, max_length),
            max_chunk_items=max_chunk_items,
        )
    )


def checked(spec: ModelSpec) -> ModelSpec:
    """The spec, if a worker could publish it.

    Raises:
        InputError: it could not, or it is none.
    """
    if not isinstance(spec, ModelSpec):
        raise InputError(f"models has {spec!r}: pass ModelSpecs, which fake_model makes")
    try:
        return decode_spec(encode_spec(spec))
    except DecodeError as error:
        raise InputError(f"model {spec.name!r} cannot be: {error}") from None
