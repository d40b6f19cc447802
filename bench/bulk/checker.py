"""Holds what a job has written against the corpus: which rows are missing, doubled, strange or wrong.

It reads the files itself, by pyarrow and json, and knows nothing of the code that wrote them. It does not know what a
vector should be: who calls it says so.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bulk import corpus

_BLOCK = 16_384
_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found.

    Attributes:
        expected: Rows of the corpus that have a text, without those that are excused.
        bad: Rows that have none.
        rows: In the sink.
        missing: Expected rows that are not there.
        doubled: Ids that are there more than once.
        strange: Ids that are there and should not be.
        wrong: Rows whose vector is another one.
        farthest: The largest difference of an element of those that are not the same bit for bit.
        unreported: Bad rows that the errors file does not have exactly once.
        overreported: Rows of the errors file that are none of these.
        examples: Some ids of each kind, in words.
    """

    expected: int
    bad: int
    rows: int
    missing: int
    doubled: int
    strange: int
    wrong: int
    farthest: float
    unreported: int
    overreported: int
    examples: Sequence[str] = field(default_factory=tuple)

    @property
    def is_whole(self) -> bool:
        """Whether all is as it should be."""
        kinds = (self.missing, self.doubled, self.strange, self.wrong, self.unreported, self.overreported)
        return not any(kinds) and self.rows == self.expected


def check(
    documents: Path,
    sink: Path,
    job: str,
    vectors: Callable[[Sequence[str]], NDArray[Any]] | None,
    *,
    excused: Collection[str] = (),
) -> Checked:
    """Check a sink of Parquet files.

    Args:
        documents: Folder of the corpus.
        sink: Folder of the sink.
        job: Name of the job that has filled it, for its errors file.
        vectors: Makes [n, elements] of texts; None leaves the vectors unchecked.
        excused: Codes of errors with which a row that has a text may be in the errors file instead of in the sink.

    Raises:
        ValueError: A file of the sink has no ids or vectors.
    """
    texts: dict[int, str] = {}
    bad: set[int] = set()
    for ids, block in corpus.read(documents):
        for number, text in zip(ids.tolist(), block, strict=True):
            if text is None:
                bad.add(number)
            else:
                texts[number] = text
    seen: Counter[int] = Counter()
    wrong: list[int] = []
    farthest = 0.0
    for numbers, there in rows(sink):
        seen.update(numbers)
        known = np.array([number in texts for number in numbers], bool)
        if vectors is None or not known.any():
            continue
        checked = np.array(numbers)[known]
        difference = _difference(there[known], vectors([texts[number] for number in checked.tolist()]))
        farthest = max(farthest, float(difference.max()))
        wrong += checked[difference > 0].tolist()
    told = list(_told(sink, job))
    spoilt = {number for number, code in told if code in excused and number in texts and number not in seen}
    errors = Counter(number for number, _ in told if number not in spoilt)
    found = {
        "missing": [number for number in texts if number not in seen and number not in spoilt],
        "doubled": [number for number, times in seen.items() if times > 1],
        "strange": [number for number in seen if number not in texts],
        "wrong": wrong,
        "unreported": [number for number in bad if errors[number] != 1],
        "overreported": [number for number in errors if number not in bad],
    }
    return Checked(
        expected=len(texts) - len(spoilt),
        bad=len(bad),
        rows=seen.total(),
        farthest=farthest,
        examples=[f"{kind}: {', '.join(map(str, some[:_EXAMPLES]))}" for kind, some in found.items() if some],
        **{kind: len(some) for kind, some in found.items()},
    )


def _difference(there: NDArray[Any], expected: NDArray[Any]) -> NDArray[np.float64]:
    """[n] the largest of each row; of what is no number, infinite."""
    if there.shape != expected.shape:
        return np.full(len(there), np.inf)
    difference: NDArray[np.float64] = np.abs(there.astype(np.float64) - expected.astype(np.float64)).max(axis=1)
    return np.nan_to_num(difference, nan=np.inf)


def rows(sink: Path) -> Iterable[tuple[list[int], NDArray[Any]]]:
    """Ids and vectors of a sink, block by block.

    Raises:
        ValueError: A file has none.
    """
    for file in sorted(sink.glob("*.parquet")):
        reader = pq.ParquetFile(file)
        columns = [each.name for each in reader.schema_arrow if pa.types.is_fixed_size_list(each.type)]
        if len(columns) != 1 or "id" not in reader.schema_arrow.names:
            message = f"{file.name} has {reader.schema_arrow.names}: one is to be `id`, and one a FixedSizeList"
            raise ValueError(message)
        for batch in reader.iter_batches(_BLOCK, columns=["id", *columns]):
            lists = batch.column(columns[0])
            flat = lists.flatten().to_numpy(zero_copy_only=False)
            yield batch.column("id").to_pylist(), flat.reshape(len(lists), lists.type.list_size)


def _told(sink: Path, job: str) -> Iterator[tuple[Any, str]]:
    """Id and code of each error of a job that is done."""
    for file in sorted(sink.glob(f"*/{job}/errors.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            error = json.loads(line)
            yield error["id"], error.get("code", "")
