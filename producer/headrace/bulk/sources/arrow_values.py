"""From Arrow batches to Rows.

Knows how values lie in Arrow's buffers, and that a bad one must not take the others with it. Does not know files.
"""

from collections.abc import Callable, Iterator
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from headrace.bulk.rows import Id, Problem, Rows
from headrace.bulk.source import MAX_ROWS
from headrace.bulk.sources.arrow_columns import ArrowColumns, is_uuid
from headrace.bulk.sources.columns import IdKind
from headrace.bulk.sources.row_builder import MAX_CHARACTERS
from headrace.bulk.sources.values import MAX_BYTES, from_bytes, to_id, to_text, too_long


def batch_rows(
    batch: pa.RecordBatch, columns: ArrowColumns, first: int, position: Callable[[int], str], kind: IdKind | None
) -> Iterator[Rows]:
    """The rows of a batch.

    Args:
        batch: the batch.
        columns: where the columns are in it.
        first: position of its first row in the shard.
        position: what names a row.
        kind: what ids of this corpus are.
    """
    for start in range(0, len(batch), MAX_ROWS):
        for piece, at in _halves(batch.slice(start, MAX_ROWS), columns, start):
            yield _rows(piece, columns, first + at, position, kind)


def check(array: pa.Array) -> None:
    """See that offsets stay inside their buffers: those of a damaged file lead anywhere.

    Raises:
        pa.ArrowException: they do not.
    """
    array.validate()
    if isinstance(array, pa.ExtensionArray):
        check(array.storage)
    elif pa.types.is_dictionary(array.type):
        array.indices.validate(full=True)
        check(array.dictionary)
    elif pa.types.is_run_end_encoded(array.type):
        check(array.values)
    elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        # As strings they would have to be UTF-8, too.
        _bytes(array).validate(full=True)
    elif pa.types.is_string_view(array.type):
        array.view(pa.binary_view()).validate(full=True)
    else:
        array.validate(full=True)


def _halves(batch: pa.RecordBatch, columns: ArrowColumns, at: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Cut a batch until no piece has more text than is held at a time."""
    if len(batch) == 1 or (pc.sum(_lengths(columns.texts(batch))).as_py() or 0) <= MAX_CHARACTERS:
        yield batch, at
        return
    half = len(batch) // 2
    yield from _halves(batch.slice(0, half), columns, at)
    yield from _halves(batch.slice(half), columns, at + half)


def _rows(
    batch: pa.RecordBatch, columns: ArrowColumns, first: int, position: Callable[[int], str], kind: IdKind | None
) -> Rows:
    texts = _texts(columns.texts(batch))
    found = columns.ids(batch)
    if found is None:
        return Rows(first, [position(row) for row in range(first, first + len(batch))], texts)
    ids: list[Id] = []
    for index, each in enumerate(_ids(found, kind)):
        if isinstance(each, Problem):
            ids.append(position(first + index))
            texts[index] = each
        else:
            ids.append(each)
    return Rows(first, ids, texts)


def _texts(array: pa.Array) -> list[str | Problem]:
    longest = pc.max(_lengths(array)).as_py()
    if longest is None:
        return [to_text(None)] * len(array)
    found = _bytes(array)
    if longest > MAX_BYTES:
        return [_text(value) for value in found]
    try:
        texts = _strings(found)
    except pa.ArrowInvalid:
        return [_text(value) for value in found]
    return [to_text(None) if text is None else text for text in texts]


def _text(value: pa.Scalar) -> str | Problem:
    if not value.is_valid:
        return to_text(None)
    buffer = value.as_buffer()
    return too_long(buffer.size, "bytes") if buffer.size > MAX_BYTES else from_bytes(buffer.to_pybytes())


def _ids(array: pa.Array, kind: IdKind | None) -> list[Id | Problem]:
    if is_uuid(array.type):
        return [to_id(None if each is None else UUID(bytes=each), kind) for each in array.storage.to_pylist()]
    array = _numbers(array)
    if pa.types.is_decimal(array.type):
        return [to_id(value, kind) for value in array.to_pylist()]
    if pa.types.is_integer(array.type):
        if array.null_count or pa.types.is_uint64(array.type):
            return [to_id(value, kind) for value in array.to_pylist()]
        integers: list[Id | Problem] = array.to_numpy().tolist()
        return integers
    found = _bytes(array)
    try:
        return [to_id(value, kind) for value in _strings(found)]
    except pa.ArrowInvalid:
        return [to_id(value, kind) for value in found.to_pylist()]


def _strings(array: pa.Array) -> list[str | None]:
    # By way of NumPy, which is several times as fast as one value after the other.
    strings: list[str | None] = array.cast(pa.large_string()).to_numpy(zero_copy_only=False).tolist()
    return strings


def _numbers(array: pa.Array) -> pa.Array:
    """Integers and decimals out of what they are wrapped in; others as they are."""
    if isinstance(array, pa.ExtensionArray):
        return _numbers(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return _numbers(pc.run_end_decode(array))
    if pa.types.is_dictionary(array.type) and pa.types.is_primitive(array.type.value_type):
        return array.dictionary.take(array.indices)
    return array


def _lengths(array: pa.Array) -> pa.Array:
    """How many bytes each string has, without a copy of it."""
    if isinstance(array, pa.ExtensionArray):
        return _lengths(array.storage)
    if pa.types.is_dictionary(array.type):
        return _lengths(array.dictionary).take(array.indices)
    return pc.binary_length(_bytes(array))


def _bytes(array: pa.Array) -> pa.Array:
    """Strings as bytes, since not all that is called a string is UTF-8."""
    if isinstance(array, pa.ExtensionArray):
        return _bytes(array.storage)
    if pa.types.is_dictionary(array.type):
        return _bytes(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(array.type):
        return _bytes(pc.run_end_decode(array))
    if pa.types.is_string(array.type):
        return array.view(pa.binary())
    if pa.types.is_large_string(array.type):
        return array.view(pa.large_binary())
    if pa.types.is_string_view(array.type):
        array = array.view(pa.binary_view())
    # Views can be neither measured nor taken by index; a column of nulls has no bytes at all.
    return array if pa.types.is_binary(array.type) else array.cast(pa.large_binary())
