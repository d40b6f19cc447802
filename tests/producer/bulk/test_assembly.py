"""A window while its chunks are answered."""

from collections.abc import Sequence

import numpy as np
import pytest
from headrace.bulk.assembly import Assembly, Tokens
from headrace.bulk.bulk_chunk import BulkChunk, Chunker, window_of
from headrace.bulk.card import Card
from headrace.bulk.rows import Problem
from headrace.bulk.sift import sift, text_hash
from headrace.bulk.sink import Stored
from headrace.bulk.window import Window
from headrace.errors import JobFailed
from headrace_contracts import BadItem, ErrorCode, ErrorReply, Options, Reply, Usage, decode_chunk

from ..specs import scorer

SPEC = scorer(name="m", tasks=("embed",), dim=2, max_chunk_tokens=10, max_chunk_items=3)
USAGE = Usage(tokens=7, queue_ms=0, run_ms=0, batch_tokens=7)


def assembly(texts: Sequence[str | Problem], stored: dict[str | int, Stored] | None = None) -> Assembly:
    """Each letter of a text is a token."""
    window = Window(3, 5, 100, list(range(len(texts))), list(texts))
    sifted = sift(window, stored or {}, dedupe=True)
    sequences = [np.array([ord(letter) for letter in text], np.uint32) for text in sifted.texts]
    options = Options(normalize=False)
    card = Card.of(SPEC, options, "")
    return Assembly(sifted, Tokens(sequences, 0, {}), Chunker("job.1.3", "job", SPEC, options), card)


def reply(chunk: BulkChunk, *, bad: tuple[BadItem, ...] = ()) -> Reply:
    """A row is the first letter and the length."""
    sequences = decode_chunk(chunk.body).sequences()
    rows = np.array([[ids[0], len(ids)] for ids in sequences], np.float32)
    return Reply(id=chunk.id, rows=rows, dim=2, dtype="f32", bad=bad, usage=USAGE, worker="w")


def error(chunk: BulkChunk, code: ErrorCode) -> ErrorReply:
    return ErrorReply(id=chunk.id, code=code, text="because", worker="w")


def answer_all(window: Assembly) -> None:
    for chunk in list(window.outstanding.values()):
        assert not window.take(reply(chunk))


def test_texts_are_sent_by_length_in_full_chunks() -> None:
    window = assembly(["a", "bbbbbb", "cc", "dddd", "eee"])
    texts = [[len(ids) for ids in decode_chunk(chunk.body).sequences()] for chunk in window.outstanding.values()]
    assert texts == [[6, 4], [3, 2, 1]]


def test_the_same_texts_give_the_same_chunks_each_time() -> None:
    first, again = assembly(["a", "bb", "ccc"]), assembly(["a", "bb", "ccc"])
    assert list(first.outstanding) == list(again.outstanding)
    assert list(first.outstanding) != list(assembly(["a", "bb", "ccd"]).outstanding)


def test_a_chunk_says_which_window_it_is_of() -> None:
    (chunk_id,) = assembly(["a"]).outstanding
    assert window_of(chunk_id) == 5
    assert [window_of(text) for text in ("", "x-1", "12", "-1", "²-a")] == [None] * 5


def test_vectors_come_back_to_their_rows() -> None:
    texts = ["a", "bbbbbb", "cc", "a", "eee"]
    window = assembly(texts)
    answer_all(window)
    part = window.part(keep_texts=True)
    assert part.ids == [0, 1, 2, 3, 4]
    assert part.vectors.tolist() == [[ord(text[0]), len(text)] for text in texts]
    assert list(part.hashes) == [text_hash(text) for text in texts]
    assert part.texts == texts
    assert part.fresh.all()
    assert window.num_tokens == 14


def test_what_the_sink_has_stands_beside_what_is_new() -> None:
    old = Stored(text_hash("bb"), np.array([8, 9], np.float32))
    window = assembly(["a", "bb", "ccc"], {1: old})
    answer_all(window)
    part = window.part(keep_texts=False)
    assert part.fresh.tolist() == [True, False, True]
    assert part.vectors.tolist() == [[97, 1], [8, 9], [99, 3]]


def test_a_window_that_the_sink_has_all_of_sends_nothing() -> None:
    window = assembly(["bb"], {0: Stored(text_hash("bb"), np.array([8, 9], np.float32))})
    assert not window.outstanding
    assert not window.part(keep_texts=False).fresh.any()


def test_a_bad_item_fails_its_rows_alone() -> None:
    window = assembly(["a", "bb", "a", Problem("null", "null")])
    (chunk,) = window.outstanding.values()
    window.take(reply(chunk, bad=(BadItem(1, ErrorCode.NON_FINITE, "not finite"),)))  # the shorter text comes second
    assert window.part(keep_texts=False).ids == [1]
    assert [(each.id, each.row, each.code) for each in window.failures()] == [
        (0, 100, "non_finite"),
        (2, 102, "non_finite"),
        (3, 103, "null"),
    ]


def test_a_chunk_that_fails_is_halved_until_the_text_that_spoils_it_stands_alone() -> None:
    window = assembly(["p", "b", "c"])
    waiting, rounds = list(window.outstanding.values()), 0
    while waiting:
        chunk = waiting.pop()
        rounds += 1
        is_poisoned = ord("p") in decode_chunk(chunk.body).token_ids
        waiting += window.take(error(chunk, ErrorCode.INTERNAL) if is_poisoned else reply(chunk))
    assert not window.outstanding
    assert [each.id for each in window.failures()] == [0]
    assert window.failures()[0].text == "because"
    assert window.part(keep_texts=False).ids == [1, 2]
    assert rounds <= 5


def test_what_was_refused_for_now_is_sent_again_and_not_for_ever() -> None:
    window = assembly(["a"])
    (chunk,) = window.outstanding.values()
    tries = 0
    while window.outstanding:
        tries += 1
        assert window.take(error(chunk, ErrorCode.OVERLOADED)) in ([chunk], [])
    assert tries == 8
    assert [each.code for each in window.failures()] == ["overloaded"]


def test_another_revision_of_the_model_ends_the_job() -> None:
    window = assembly(["a"])
    (chunk,) = window.outstanding.values()
    with pytest.raises(JobFailed, match="another revision of m"):
        window.take(error(chunk, ErrorCode.MODEL_MISMATCH))


def test_a_second_copy_of_a_reply_changes_nothing() -> None:
    window = assembly(["a"])
    (chunk,) = window.outstanding.values()
    window.take(reply(chunk))
    assert window.take(error(chunk, ErrorCode.INTERNAL)) == []
    assert not window.failures()
    assert window.num_tokens == 7


def test_a_reply_of_another_shape_is_not_taken_for_vectors() -> None:
    window = assembly(["a"])
    (chunk,) = window.outstanding.values()
    wrong = Reply(id=chunk.id, rows=np.zeros((1, 3), np.float32), dim=3, dtype="f32", bad=(), usage=USAGE, worker="w")
    window.take(wrong)
    assert [each.code for each in window.failures()] == ["internal"]
