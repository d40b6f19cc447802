import pytest
from headrace.errors import InputError
from headrace.retirement import NotRetired, check
from headrace.survey import Survey
from headrace_contracts.control import Status

from .fleets import a_crew, a_job, a_queue, a_status, a_survey


def test_a_model_that_nobody_needs_may_go() -> None:
    others = [a_status(model="other")]
    finished = (a_job(state="done"), a_job(model="other"), a_job(state="cancelled"))
    check("scorer", a_survey(jobs=finished, crews={"other": a_crew("mill-1")}), others, discard=False)


def test_queues_that_are_left_of_a_retirement_that_ended_midway_may_go() -> None:
    check("scorer", a_survey(models=()), [], discard=False)


def test_a_model_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(InputError, match="there is no model scorre: the fleet has scorer"):
        check("scorre", a_survey(), [], discard=False)


@pytest.mark.parametrize(
    ("survey", "statuses", "reason"),
    [
        (a_survey(), [a_status(state="drained")], r"workers, mill-1 \(drained\): drain them, and stop"),
        (a_survey(crews={"scorer": a_crew("rust-7")}), [], r"workers, rust-7 \(serving\)"),
        (
            a_survey(jobs=(a_job(), a_job(name="b", state="paused"))),
            [],
            r"need it, nightly \(running\), b \(paused\)",
        ),
        (a_survey(queues=(a_queue(num_messages=12, num_bytes=9000),)), [], "12 chunks of batch work wait, about"),
        (a_survey(queues=(a_queue(priority="online", num_messages=1),)), [], "1 chunk of online work waits: .* 30 s"),
        (a_survey(missing={"jobs": "no answer within 3 s"}), [], r"not all could be seen: jobs \(no answer"),
    ],
)
def test_what_is_in_the_way_is_said(survey: Survey, statuses: list[Status], reason: str) -> None:
    with pytest.raises(NotRetired, match=f"scorer stays.*{reason}"):
        check("scorer", survey, statuses, discard=False)


def test_all_reasons_are_said_at_once_and_discarding_takes_away_but_one() -> None:
    survey = a_survey(queues=(a_queue(num_messages=12, num_bytes=9000),), jobs=(a_job(),))
    with pytest.raises(NotRetired, match=r"workers, .*bulk jobs .*12 chunks"):
        check("scorer", survey, [a_status()], discard=False)
    with pytest.raises(NotRetired, match=r"bulk jobs") as left:
        check("scorer", survey, [], discard=True)
    assert "12 chunks" not in str(left.value)
