"""Finds the columns of an Arrow schema, and takes them out of its batches.

Knows nested columns and which types can be ids and texts. Does not know values: that is arrow_values.py.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from headrace.bulk.sources.columns import Columns, IdKind, doubled, missing
from headrace.errors import SourceError


@dataclass(frozen=True, slots=True)
class ArrowColumns:
    """Where the columns are in batches of one schema.

    Attributes:
        text: index of the column, then of the field in each struct on the way.
        id: the same for the id; None if there is none.
        id_kind: what ids are; None if the column holds nothing but nulls.
    """

    text: tuple[int, ...]
    id: tuple[int, ...] | None
    id_kind: IdKind | None

    @classmethod
    def find(cls, columns: Columns, schema: pa.Schema, where: str) -> Self:
        """Find them.

        Args:
            columns: their names.
            schema: of the batches.
            where: the file, for people.

        Raises:
            SourceError: one is missing, there twice, or of a type that cannot be one.
        """
        text = _locate(columns, columns.text, schema, where)
        if not (_is_text(kind := _type_at(schema, text)) or pa.types.is_null(kind)):
            raise SourceError(
                f"column {columns.text!r} of {where} is of type {kind}: texts are strings; choose another with --column"
            )
        if columns.id is None:
            return cls(text, None, "str")
        place = _locate(columns, columns.id, schema, where)
        return cls(text, place, _id_kind(_type_at(schema, place), columns.id, where))

    def texts(self, batch: pa.RecordBatch) -> pa.Array:
        """The texts of a batch."""
        return _take(batch, self.text)

    def ids(self, batch: pa.RecordBatch) -> pa.Array | None:
        """The ids of a batch, if there is a column of them."""
        return None if self.id is None else _take(batch, self.id)


def one_id_kind(kinds: Iterable[tuple[IdKind | None, str]]) -> IdKind | None:
    """What the ids of a corpus are.

    Args:
        kinds: what they are in each of its files, and the file, for people.

    Raises:
        SourceError: they differ.
    """
    first: tuple[IdKind, str] | None = None
    for kind, where in kinds:
        if kind is None:
            continue
        first = first or (kind, where)
        if kind != first[0]:
            raise SourceError(f"ids are of type {first[0]} in {first[1]} and {kind} in {where}: cast them to one")
    return first[0] if first else None


def _locate(columns: Columns, name: str, schema: pa.Schema, where: str) -> tuple[int, ...]:
    found = schema.get_all_field_indices(name)
    if len(found) > 1:
        raise doubled(columns, name, where)
    if found:
        return (found[0],)
    place: list[int] = []
    fields = list(schema)
    for part in name.split("."):
        at = [index for index, field in enumerate(fields) if field.name == part]
        if not at:
            raise missing(columns, name, where, list(_names(schema)))
        if len(at) > 1:
            raise doubled(columns, name, where)
        place.append(at[0])
        fields = _children(fields[at[0]].type)
    return tuple(place)


def _type_at(schema: pa.Schema, place: Sequence[int]) -> pa.DataType:
    kind = schema.field(place[0]).type
    for index in place[1:]:
        kind = kind.field(index).type
    return kind


def _take(batch: pa.RecordBatch, place: Sequence[int]) -> pa.Array:
    array = batch.column(place[0])
    # A field of a null struct is null, whatever the field's own buffers say.
    return pc.struct_field(array, list(place[1:])) if len(place) > 1 else array


def _children(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(index) for index in range(kind.num_fields)] if pa.types.is_struct(kind) else []


def _names(fields: Iterable[pa.Field], before: str = "") -> Iterator[str]:
    for field in fields:
        yield before + field.name
        yield from _names(_children(field.type), f"{before}{field.name}.")


def _bare(kind: pa.DataType) -> pa.DataType:
    """The type of the values, whatever they are wrapped in."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def _is_text(kind: pa.DataType) -> bool:
    kind = _bare(kind)
    return any(
        is_one(kind)
        for is_one in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            # Older writers of Parquet do not say that bytes are a text.
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
        )
    )


def _id_kind(kind: pa.DataType, name: str, where: str) -> IdKind | None:
    if _is_text(kind) or is_uuid(kind):
        return "str"
    bare = _bare(kind)
    if pa.types.is_integer(bare) or (pa.types.is_decimal(bare) and bare.scale == 0):
        return "int"
    if pa.types.is_null(bare):
        return None
    raise SourceError(
        f"column {name!r} of {where} is of type {kind}: ids are integers or strings; choose another with --id"
    )


def is_uuid(kind: pa.DataType) -> bool:
    """Whether values are UUIDs, of 16 bytes."""
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"
