"""What the broker cannot say for want of a leader or a server is asked again; all else is told at once."""

import pytest
from headrace_workers.leaders import led, passes
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.errors import APIError, NotFoundError, ServerError, ServiceUnavailableError

# As nats-server says it of a NATS stream, of a consumer, and of one that is to be made on a server with a tag.
OFFLINE = (
    ServerError(code=500, err_code=10118, description="stream is offline"),
    ServerError(code=500, err_code=10119, description="consumer is offline"),
    APIError(
        code=400, err_code=10005, description="no suitable peers for placement, peer offline, tags not matched ['a']"
    ),
)
NO_SUCH_TAG = APIError(code=400, err_code=10005, description="no suitable peers for placement, tags not matched ['a']")


@pytest.mark.parametrize("error", [*OFFLINE, ServiceUnavailableError(), NatsTimeoutError()])
async def test_what_passes_is_asked_again_until_it_is_answered(error: NatsError) -> None:
    ends: list[NatsError | str] = [error, error, "there it is"]

    async def ask() -> str:
        end = ends.pop(0)
        if isinstance(end, NatsError):
            raise end
        return end

    assert await led(ask) == "there it is"
    assert ends == []


@pytest.mark.parametrize("error", [ServerError(code=500, err_code=10049), NotFoundError(), NO_SUCH_TAG])
async def test_what_does_not_pass_is_raised_at_once(error: NatsError) -> None:
    num_asked = 0

    async def ask() -> None:
        nonlocal num_asked
        num_asked += 1
        raise error

    with pytest.raises(type(error)):
        await led(ask)
    assert num_asked == 1
    assert not passes(error)
