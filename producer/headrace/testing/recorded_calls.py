"""The middle of a fake client's calls: that of the real one, recorded and led astray.

Knows when a call is noted and when it fails. Does not know how it is made: headrace.calls does.
"""

from collections.abc import Awaitable, Callable

from headrace_contracts.connection import Link

from headrace.calls import Calls
from headrace.catalogue import Catalogue
from headrace.exchange import Exchange
from headrace.options import CallOptions
from headrace.published import Model
from headrace.result import Gathered
from headrace.testing.progress import CURRENT, Progress
from headrace.testing.recorded_call import RecordedCall
from headrace.testing.script import Script
from headrace.tokens import Tokenized


class RecordedCalls(Calls):
    """Runs the calls of one fake client."""

    def __init__(
        self,
        link: Link,
        catalogue: Catalogue,
        exchange: Exchange,
        client_id: str,
        tenant: str | None,
        max_tokens: int | None,
        *,
        script: Script,
    ) -> None:
        super().__init__(link, catalogue, exchange, client_id, tenant, max_tokens)
        self._script = script
        self._is_open = False

    async def run(
        self, model: str | None, options: CallOptions, tokenize: Callable[[Model], Awaitable[Tokenized]]
    ) -> Gathered:
        """Run one call; see Calls.run."""
        if not self._is_open:  # a fake client is made without an event loop, so without its inbox
            self._is_open = True
            await self._exchange.open()
        progress = Progress()

        async def noted(chosen: Model) -> Tokenized:
            tokenized = await tokenize(chosen)
            if progress.call is None:  # else the model has changed, and the call begins anew
                progress.call = self._record(progress, chosen, options)
                self._script.begin(progress.call)
            return tokenized

        outer = CURRENT.set(progress)
        try:
            gathered = await super().run(model, options, noted)
        finally:
            CURRENT.reset(outer)
        return gathered if progress.call is None else self._script.spoil(progress.call, gathered)

    def _record(self, progress: Progress, chosen: Model, options: CallOptions) -> RecordedCall:
        return RecordedCall(
            task=options.task,
            model=chosen.spec.name,
            texts=progress.texts,
            query=progress.query,
            prompt=progress.prompt,
            options=options,
            tenant=options.tenant or self._tenant,
        )
