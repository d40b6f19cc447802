"""Counters, rates and the time that is left."""

from headrace.bulk.progress import Progress
from headrace.bulk.rate import Rate


def running(total_rows: int | None = None) -> Progress:
    progress = Progress(total_rows)
    progress.stage = "running"
    return progress


def test_a_rate_looks_back_as_far_as_its_window_and_no_further() -> None:
    rate = Rate(10)
    for second in range(100):
        rate.add(second, 5 * second if second < 50 else 250 + 7 * (second - 50))
    assert rate.per_s == 7


def test_a_rate_is_unknown_until_two_moments_are_known() -> None:
    rate = Rate(10)
    assert rate.per_s is None
    rate.add(1.0, 5)
    assert rate.per_s is None
    rate.add(1.0, 9)
    assert rate.per_s is None
    rate.add(2.0, 9)
    assert rate.per_s == 4


def test_samples_rarer_than_the_window_still_make_a_rate() -> None:
    rate = Rate(10)
    rate.add(0, 0)
    rate.add(60, 600)
    rate.add(120, 1800)
    assert rate.per_s == 20


def test_a_progress_says_how_fast_it_goes_and_how_long_it_takes() -> None:
    progress = running(total_rows=1000)
    progress.snapshot(50.0)
    progress.rows_done, progress.tokens_done = 100, 2000
    snapshot = progress.snapshot(54.0)
    assert (snapshot.tokens_per_s, snapshot.rows_per_s) == (500, 25)
    assert snapshot.eta_s == 36
    assert snapshot.elapsed_s == 4


def test_what_was_done_before_counts_as_done_and_not_as_fast() -> None:
    progress = Progress(total_rows=1000)
    progress.snapshot(0.0)
    progress.rows_elsewhere = 900
    progress.stage = "running"
    progress.snapshot(1.0)
    progress.rows_done = 10
    snapshot = progress.snapshot(2.0)
    assert snapshot.rows_done == 910
    assert snapshot.rows_per_s == 10
    assert snapshot.eta_s == 9


def test_other_processes_bring_the_end_nearer() -> None:
    progress = running(total_rows=100)
    progress.snapshot(0.0)
    progress.rows_done, progress.rows_elsewhere = 10, 40
    assert progress.snapshot(1.0).eta_s == 1


def test_a_pause_counts_for_no_rate() -> None:
    progress = running(total_rows=1000)
    progress.snapshot(0.0)
    progress.stage = "paused"
    paused = progress.snapshot(100.0)
    assert (paused.tokens_per_s, paused.eta_s) == (None, None)
    progress.stage = "running"
    progress.snapshot(200.0)
    progress.rows_done = 50
    assert progress.snapshot(201.0).rows_per_s == 50


def test_nothing_is_said_of_the_end_where_it_is_not_known() -> None:
    without_total = running()
    without_total.snapshot(0.0)
    without_total.rows_done = 5
    assert without_total.snapshot(1.0).eta_s is None

    standing_still = running(total_rows=5)
    standing_still.snapshot(0.0)
    assert standing_still.snapshot(1.0).eta_s is None


def test_more_rows_than_were_counted_are_no_negative_time() -> None:
    progress = running(total_rows=5)
    progress.snapshot(0.0)
    progress.rows_done = 9
    assert progress.snapshot(1.0).eta_s == 0


def test_the_last_rates_stay_when_the_job_is_done() -> None:
    progress = running(total_rows=5)
    progress.snapshot(0.0)
    progress.rows_done, progress.tokens_done, progress.stage = 5, 30, "running"
    progress.snapshot(1.0)
    progress.stage = "done"
    done = progress.snapshot(50.0)
    assert (done.rows_per_s, done.tokens_per_s, done.eta_s) == (5, 30, None)


def test_silence_counts_while_chunks_wait_in_the_broker_alone() -> None:
    progress = running(total_rows=1000)
    assert progress.snapshot(0).silent_s == 0
    progress.rows_done = 100
    assert progress.snapshot(60).silent_s == 0  # the sink may be at work, or a slow corpus
    progress.chunks_queued = 3
    assert (progress.snapshot(89).silent_s, progress.snapshot(89).eta_s is None) == (29, False)
    assert (progress.snapshot(90).silent_s, progress.snapshot(90).eta_s is None) == (30, True)
    progress.tokens_done = 5
    assert progress.snapshot(100).silent_s == 0
    progress.stage = "paused"
    assert progress.snapshot(200).silent_s == 0
