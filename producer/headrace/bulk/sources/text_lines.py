"""The lines of a file that may be compressed, in constant memory.

Knows gzip, Zstandard and line ends. Does not know what is in a line.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO, Self, cast

import pyarrow as pa

from headrace.bulk.sources.corpus_file import CorpusFile, unreadable
from headrace.bulk.sources.values import MAX_BYTES
from headrace.errors import SourceError

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BLOCK = 1 << 20


class LineTooLong(Exception):
    """Raised in place of a line that is longer than lines may be; the next one is there all the same."""


def compression(file: CorpusFile) -> str | None:
    """How a file is compressed, which its first bytes say; None if it is not.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        with file.path.open("rb") as opened:
            head = opened.read(4)
    except OSError as error:
        raise unreadable(file, error) from error
    if head.startswith(_GZIP):
        return "gzip"
    # A file of several compressors at work begins with a frame of another mark.
    return "zstd" if head == _ZSTD or (head and file.path.suffix == ".zst") else None


class TextLines:
    """The lines that begin in a stretch of a file, with their ends. To be used in a `with` statement.

    Attributes:
        number: of the line that was given last, from 1 at the beginning of the stretch.
    """

    def __init__(self, file: CorpusFile, start: int = 0, end: int | None = None, *, limit: int = MAX_BYTES) -> None:
        """Open it.

        Args:
            file: the file.
            start: a byte of it; only of one that is not compressed may it be another than 0.
            end: the byte that lines must begin before.
            limit: bytes that a line may have.

        Raises:
            SourceError: it cannot be read, or is UTF-16.
        """
        self.number = 0
        self._file = file
        self._end = end
        self._limit = limit
        self._at = start
        self._closing = ExitStack()
        try:
            self._open(start)
        except BaseException:
            self._closing.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._end is not None and self._at >= self._end:
            raise StopIteration
        is_first = self._at == 0
        line = self._read(self._limit + 1)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) > self._limit and not line.endswith(b"\n"):
            self._skip()
            raise LineTooLong(f"line {self.number} is longer than {self._limit} bytes")
        return self._unmarked(line) if is_first else line

    def _open(self, start: int) -> None:
        how = compression(self._file)
        try:
            if how == "gzip":
                lines = cast("BinaryIO", self._closing.enter_context(gzip.GzipFile(self._file.path)))
            elif how == "zstd":
                raw = self._closing.enter_context(pa.input_stream(str(self._file.path), compression="zstd"))
                lines = self._closing.enter_context(io.BufferedReader(raw, _BLOCK))
            else:
                lines = self._closing.enter_context(self._file.path.open("rb", buffering=_BLOCK))
        except (OSError, pa.ArrowException) as error:
            raise unreadable(self._file, error) from error
        self._lines = lines
        if start:
            # The line that reaches over the start, or ends at it, is of the stretch before.
            lines.seek(start - 1)
            self._at = start - 1
            self._skip()

    def _unmarked(self, line: bytes) -> bytes:
        if line.startswith(_UTF16_MARKS):
            raise SourceError(f"{self._file.path} is UTF-16: convert it to UTF-8 (iconv -f utf-16 -t utf-8)")
        return line.removeprefix(_UTF8_MARK)

    def _skip(self) -> None:
        while (piece := self._read(_BLOCK)) and not piece.endswith(b"\n"):
            pass

    def _read(self, limit: int) -> bytes:
        try:
            line = self._lines.readline(limit)
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            raise unreadable(self._file, error, f" after line {self.number}") from error
        self._at += len(line)
        return line
