"""A folder that holds vectors: the card in it, the kind of its ids, and one process at a time where it matters.

Knows the subfolder `_headrace`, which readers of the folder pass over for the underscore. Does not know the files of
vectors.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from headrace.bulk.card import Card
from headrace.bulk.file_lock import locked
from headrace.bulk.rows import Id
from headrace.bulk.whole_file import UNFINISHED, refusal, sync_folder, whole_file, with_no_error_remove
from headrace.errors import SinkError, SinkRefused

IdKind: TypeAlias = Literal["int64", "string"]
# With a full stop, which no name of a job has: jobs have folders beside them.
_CARD, _IDS, _LOCK, _SETTLED = "card.json", "ids.txt", "alone.lock", "settled.txt"
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class Folder:
    """The folder of a sink.

    Attributes:
        path: it.
        place: its subfolder for all that is not for readers of vectors.
    """

    def __init__(self, path: Path, place: Path | None = None) -> None:
        self.path = path
        self.place = place or path / "_headrace"

    def open(self, card: Card, *, replace: bool, found: Callable[[], Card | None], empty: Callable[[], None]) -> None:
        """Make it, and see that what is there goes with the card, or is replaced.

        Args:
            card: of what is to be written.
            replace: empty the sink if what is there is of another card.
            found: finds the card that vectors carry themselves, for a folder that has lost its own.
            empty: removes all vectors; may come again when it failed.

        Raises:
            CardMismatch: vectors of another card are there, and `replace` is false.
            SinkError: it is no folder, cannot be written to, or holds what is no job's.
        """
        if self.path.is_dir() and not self.place.exists():
            found()  # before anything is left in what may be somebody's folder
        try:
            self.place.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise SinkError(f"{self.path} is a file: name a folder, which may be new") from error
        except OSError as error:
            raise refusal(self.place, error) from error
        with self.alone():
            there = self.card() or found()
            if there is not None and there != card:
                if not replace:
                    card.check(there, str(self.path))
                elif not _goes_with(card, there):
                    empty()
                    with_no_error_remove(self.place / _IDS)
            self._write(_CARD, card.to_json())

    def card(self) -> Card | None:
        """The card of what is there; None if it has none.

        Raises:
            SinkError: it cannot be read.
        """
        written = self._read(_CARD)
        return None if written is None else Card.from_json(written)

    def check(self, card: Card) -> None:
        """See that the folder is still one of this card, before something is written.

        Raises:
            CardMismatch: another job has replaced it meanwhile.
            SinkError: its card cannot be read.
        """
        if (there := self.card()) is not None:
            card.check(there, str(self.path))

    def id_kind(self, ids: Sequence[Id] = (), found: Callable[[], IdKind | None] = lambda: None) -> IdKind | None:
        """What the ids of the sink are, which the first ones decide for all.

        Args:
            ids: to be written.
            found: finds what the ids of vectors that are there are, for a folder that has lost the note of it.

        Returns:
            The kind; None where nothing has decided it yet.

        Raises:
            SinkError: an id of `ids` is of another kind, or of none.
        """
        kind = self._noted_kind()
        if kind is None and (ids or found() is not None):
            with self.alone():
                kind = self._noted_kind() or found() or _kind_of(ids[0], "the first id")
                self._write(_IDS, kind)
        for one in ids:
            if _kind_of(one, "an id") != kind:
                raise SinkRefused(
                    f"{self.path} holds ids of kind {kind}, and id {one!r:.80} is none: give --id a column whose "
                    "values are all of one kind, or choose another sink"
                )
        return kind

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out of here for a moment.

        Where a file system knows no locks there is no harm but to processes that begin in the same moment.

        Raises:
            SinkError: the folder cannot be written to.
        """
        with locked(self.place / _LOCK):
            yield

    @property
    def is_settled(self) -> bool:
        """Whether all that is there is of one corpus, so that no id is there twice."""
        return (self.place / _SETTLED).exists()

    def settle(self) -> None:
        """Note that it is.

        Raises:
            SinkError: that cannot be written.
        """
        self._write(_SETTLED, "finished, and not written to since")

    def unsettle(self) -> None:
        """Note that it no longer is, before something is written.

        Raises:
            SinkError: that cannot be written.
        """
        if not self.is_settled:
            return
        try:
            (self.place / _SETTLED).unlink(missing_ok=True)
            sync_folder(self.place)
        except OSError as error:
            raise refusal(self.place / _SETTLED, error) from error

    def sweep(self) -> None:
        """Remove what crashes have left of files that were not whole."""
        for left in self.place.glob(f"*{UNFINISHED}"):
            with_no_error_remove(left)

    def _noted_kind(self) -> IdKind | None:
        match self._read(_IDS):
            case b"int64":
                return "int64"
            case b"string":
                return "string"
            case _:
                return None

    def _read(self, name: str) -> bytes | None:
        path = self.place / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refusal(path, error) from error

    def _write(self, name: str, content: str) -> None:
        if self._read(name) != content.encode():
            with whole_file(self.place / name) as file:
                file.write(content.encode())


def of_kind(ids: Collection[Id], kind: IdKind) -> list[Id]:
    """Those ids that a sink with ids of this kind may have."""
    if kind == "int64":
        return [one for one in ids if isinstance(one, int) and _SMALLEST <= one <= _LARGEST]
    return [one for one in ids if isinstance(one, str) and _is_unicode(one)]


def _goes_with(card: Card, there: Card) -> bool:
    try:
        card.check(there, "")
    except SinkError:
        return False
    return True


def _kind_of(one: Id, what: str) -> IdKind:
    if isinstance(one, str):
        try:
            one.encode()
        except UnicodeEncodeError:
            raise SinkRefused(
                f"{what}, {one!r:.80}, is no Unicode text, having half of a surrogate pair: mend it"
            ) from None
        return "string"
    if not _SMALLEST <= one <= _LARGEST:
        raise SinkRefused(f"{what}, {one}, does not fit into 64 bits: give --id a column of strings")
    return "int64"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
