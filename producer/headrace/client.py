"""The client: texts in, vectors and scores out, over NATS.

Knows the two calls and what may be asked of them; calls.py runs them. Needs nothing but the URL of a nats-server:
tokenizer and limits come from the fleet.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

from headrace_contracts import Dtype, ModelSpec, Priority, connection
from headrace_contracts.connection import Link
from headrace_contracts.credentials import Credentials
from nats.aio.client import Client as NatsClient
from tokenizers import Tokenizer

from headrace.batches import cut_any
from headrace.calls import Calls
from headrace.catalogue import Catalogue
from headrace.conveyor import convey
from headrace.embeddings import Embeddings
from headrace.errors import ConnectionFailed, InputError
from headrace.exchange import Exchange
from headrace.hedging import Hedging, check_hedging
from headrace.options import EmbedOptions, ScoreOptions, check_count, check_tenant, check_timeout
from headrace.published import Published
from headrace.reach import reach, read_access
from headrace.scores import Scores
from headrace.texts import check_source, read_text, read_texts
from headrace.token_ids import IdSequence, listed, read_token_ids

State: TypeAlias = Literal["connected", "reconnecting", "closed"]


class Client:
    """A connection to the fleet; one serves any number of concurrent calls and models.

    `client = await Client.connect(url)`, and close it later; or `async with await Client.connect(url) as client`.
    """

    def __init__(
        self,
        nats: NatsClient,
        link: Link,
        client_id: str,
        inbox: str,
        tenant: str | None,
        hedging: Hedging | None,
        max_call_tokens: int | None = None,
    ) -> None:
        """Use `connect`."""
        self._nats = nats
        self._link = link
        self._catalogue = Catalogue(Published(nats))
        self._exchange = Exchange(nats, link, inbox, hedging)
        self._calls = Calls(link, self._catalogue, self._exchange, client_id, tenant, max_call_tokens)

    @classmethod
    async def connect(
        cls,
        url: str = "nats://127.0.0.1:4222",
        *,
        timeout: float = 5,
        access: Credentials | str | Path | None = None,
        tenant: str | None = None,
        hedging: Hedging | None = None,
        max_call_tokens: int | None = None,
    ) -> Self:
        """Connect to a nats-server.

        Args:
            url: one URL, or several of one cluster with commas between.
            timeout: seconds for the first connection. A lost connection is sought until the client is closed, and calls
                that wait live through it.
            access: who connects, to a nats-server with access control: an access file, as `headrace access new` writes
                it, or what was read of one.
            tenant: in whose name calls are made that do not say; 1 to 64 of A-Z, a-z, 0-9, `_` and `-`. Tenants share
                the fleet by tokens, so that a burst of one does not hold up another. All who give none are one tenant.
            hedging: has late queries asked a second time, where a model has several shards; None has none.
            max_call_tokens: tokens that one call may come to; a larger one raises InputError and sends nothing. None
                sets no limit. For those who pass on what others ask for.

        Raises:
            InputError: an argument is wrong, such as a `tenant` that cannot stand in a header, or the access file.
            AccessDenied: the server does not take the credentials.
            ConnectionFailed: nothing answers, or the server is too old.
        """
        # All before there is a connection: nobody would close it.
        if not isinstance(url, str):
            raise InputError(f"url is {url!r}: pass a str, such as 'nats://127.0.0.1:4222'")
        check_timeout(timeout)
        check_tenant(tenant)
        check_hedging(hedging)
        if max_call_tokens is not None:
            check_count("max_call_tokens", max_call_tokens)
        client_id = secrets.token_hex(8)
        who = read_access(access)
        nats, link = await reach(url, name="headrace client", client_id=client_id, timeout_s=timeout, access=who)
        inbox = connection.inbox_of(client_id, who)
        client = cls(nats, link, client_id, inbox, tenant, hedging, max_call_tokens)
        await client._exchange.open()
        return client

    async def close(self) -> None:
        """Close the connection; calls that still wait raise ConnectionFailed, and the fleet drops their work."""
        await self._exchange.give_up()
        await connection.close(self._nats)
        self._exchange.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def state(self) -> State:
        """What the connection is: "connected"; "reconnecting", while a lost one is sought; or "closed", for good."""
        if self._nats.is_closed:
            return "closed"
        return "connected" if self._link.up.is_set() else "reconnecting"

    @property
    def is_connected(self) -> bool:
        """Whether the connection stands, as far as is known.

        Of several servers one that falls silent is left half a second after a call has waited for it in vain; a lone
        one is noticed after half a minute.
        """
        return self.state == "connected"

    async def wait_connected(self, timeout: float | None = 30) -> None:
        """Wait until the connection stands; calls do so by themselves.

        Args:
            timeout: seconds; None waits until the client is closed.

        Raises:
            ConnectionFailed: it does not stand in time, or the client is closed.
            InputError: the timeout is no number of seconds above 0.
        """
        check_timeout(timeout)
        try:
            async with asyncio.timeout(timeout):
                await self._link.up.wait()
        except TimeoutError:
            text = f"no nats-server answered within {timeout:g} s: see whether it runs; it is sought on"
            raise ConnectionFailed(text) from None
        if self.state == "closed":
            raise ConnectionFailed("the client is closed: open a new one")

    async def models(self) -> list[ModelSpec]:
        """The models that the fleet has published, by name."""
        return await self._catalogue.specs()

    async def tokenizer(self, model: str) -> Tokenizer:
        """A model's tokenizer, as calls use it: it neither truncates nor pads. It is shared, so change nothing in it.

        Raises:
            InputError: it is no model name.
            ModelNotFound: the fleet does not serve the model.
            ConnectionFailed: the fleet cannot be asked.
        """
        return (await self._catalogue.named(model)).texts.rust

    async def embed(  # noqa: PLR0913 - the options of a call are its public face
        self,
        texts: str | Iterable[str],
        *,
        model: str | None = None,
        priority: Priority = "online",
        prompt_name: str | None = None,
        dim: int | None = None,
        dtype: Dtype | None = None,
        normalize: bool | None = None,
        timeout: float | None = None,
        retries: int | None = 0,
        truncate: bool = True,
        strict: bool = False,
        tenant: str | None = None,
        traceparent: str | None = None,
        request_id: str | None = None,
    ) -> Embeddings:
        """Embed texts.

        A str is one text and gives one vector [dim]; any other iterable of str gives [n, dim] in its order, and an
        empty one [0, dim]. None, bytes and items that are not str raise InputError. Empty, blank and NUL-carrying
        texts are texts like others and get the vector that the model gives them; a lone surrogate is read as U+FFFD.
        A text may be of any size; what exceeds the model's max_length is cut off or refused, as `truncate` says.

        Args:
            texts: what to embed.
            model: served name; may be left out while the fleet serves one model that embeds.
            priority: "online" is served first and refused when the queue is full; "batch" waits for room.
            prompt_name: one of the model's prompts to put before each text; None takes the model's default, if any.
            dim: leading dimensions to keep; needs a model trained for it (Matryoshka).
            dtype: element type of the vectors, one of the model's: "f32" or "f16", for some also "i8" or "b1" (bits,
                eight to a byte); None takes the one that the model was trained for.
            normalize: scale "f32" and "f16" vectors to length one; None does what the checkpoint says.
            timeout: seconds for the whole call; None is 30 for online and 3600 for batch.
            retries: how often each chunk that is refused as overloaded may be tried again, after the time that the
                refusal names and within the timeout; None leaves the number to the timeout. The client's retry budget
                bounds all calls together.
            truncate: cut long texts and list them in `.truncated`; if false they have no vector and an entry in
                `.errors`.
            strict: raise if any text has no vector.
            tenant: in whose name; None is that of the client.
            traceparent: W3C trace context of the caller, which travels with each chunk. Without one it is that of the
                current span, where OpenTelemetry is configured.
            request_id: what logs, errors and dead letters call this call; 1 to 64 of A-Z, a-z, 0-9, `_` and `-`. None
                has one made.

        Returns:
            A NumPy array that also has `.usage`, `.truncated` and `.errors`. A text without a vector has a row of NaN
            (of zeros in "i8" and "b1") and its reason in `.errors`; it does not fail the others. A single text without
            a vector raises.

        Raises:
            InputError: an argument is wrong, or the model does not embed; nothing was sent.
            ModelNotFound: the fleet does not serve the model.
            Overloaded: the online queue is full, or workers refuse more, and no retry is left.
            DeadlineExceeded: the timeout passed.
            ItemsFailed: `strict`, or the only text, and it has no vector.
            RequestFailed: the fleet refused or failed a chunk for another reason.
            ConnectionFailed: the client is closed.
        """
        options = EmbedOptions(
            priority=priority,
            prompt_name=prompt_name,
            dim=dim,
            dtype=dtype,
            normalize=normalize,
            timeout=timeout,
            retries=retries,
            truncate=truncate,
            strict=strict,
            tenant=tenant,
            traceparent=traceparent,
            request_id=request_id,
        )
        items, is_single = read_texts(texts)
        gathered = await self._calls.run(
            model, options, lambda chosen: chosen.texts(items, options.prompt(chosen.spec))
        )
        vectors = Embeddings.of(gathered)
        if strict or is_single:
            vectors.raise_errors()
        return vectors.single() if is_single else vectors

    def embed_iter(  # noqa: PLR0913 - the options of a call are its public face
        self,
        texts: Iterable[str] | AsyncIterable[str],
        *,
        batch_size: int = 256,
        in_flight: int = 4,
        model: str | None = None,
        priority: Priority = "batch",
        prompt_name: str | None = None,
        dim: int | None = None,
        dtype: Dtype | None = None,
        normalize: bool | None = None,
        timeout: float | None = None,
        retries: int | None = 0,
        truncate: bool = True,
        strict: bool = False,
        tenant: str | None = None,
        traceparent: str | None = None,
        request_id: str | None = None,
    ) -> AsyncGenerator[Embeddings, None]:
        """Embed texts while they are read: `async for vectors in client.embed_iter(texts)`.

        Gives the vectors of one batch after the other, [n, dim] in the order of the texts; n is `batch_size` but for
        the last batch. Indices in `.errors` and `.truncated`, and `.usage`, are those of the batch. A batch is sent
        when it is full or the texts end. If the texts end in an error, those before it are embedded all the same, and
        it is raised after their vectors.

        At most `in_flight` batches are under way or done and not taken, and one more is read. To stop, leave the loop,
        or close the generator with `aclose()` to have all of it ended at once: what is under way is cancelled, and
        texts that were read are gone.

        Args:
            texts: what to embed, as many as there are; it may be endless. An iterable is read in the event loop, so
                that one that waits for its texts should be asynchronous.
            batch_size: texts of a batch.
            in_flight: batches at a time.
            model: as for `embed`, like all below.
            priority: "batch" unless somebody waits for the vectors.
            prompt_name: see `embed`.
            dim: see `embed`.
            dtype: see `embed`.
            normalize: see `embed`.
            timeout: seconds for each batch from when it is sent.
            retries: of each chunk.
            truncate: see `embed`.
            strict: raise at the first batch of which a text has no vector.
            tenant: see `embed`.
            traceparent: of the whole stream.
            request_id: likewise.

        Raises:
            InputError: an argument is wrong: `texts`, `batch_size` and `in_flight` at once, the others with the first
                batch; or something in `texts` is no str, after the vectors of those before it.
            HeadraceError: what `embed` raises for a batch, after the vectors of the batches before it.
        """
        check_source(texts, (Iterable, AsyncIterable))
        check_count("batch_size", batch_size)
        check_count("in_flight", in_flight)
        embed = partial(
            self.embed,
            model=model,
            priority=priority,
            prompt_name=prompt_name,
            dim=dim,
            dtype=dtype,
            normalize=normalize,
            timeout=timeout,
            retries=retries,
            truncate=truncate,
            strict=strict,
            tenant=tenant,
            traceparent=traceparent,
            request_id=request_id,
        )
        return convey(cut_any(texts, batch_size), embed, in_flight)

    async def embed_ids(  # noqa: PLR0913 - the options of a call are its public face
        self,
        token_ids: Iterable[IdSequence],
        *,
        model: str | None = None,
        priority: Priority = "online",
        dim: int | None = None,
        dtype: Dtype | None = None,
        normalize: bool | None = None,
        timeout: float | None = None,
        retries: int | None = 0,
        strict: bool = False,
        tenant: str | None = None,
        traceparent: str | None = None,
        request_id: str | None = None,
    ) -> Embeddings:
        """Embed sequences of token ids that the model's own tokenizer made.

        They run as they are: no prompt, no special token is added, and nothing is cut off.

        Args:
            token_ids: a sequence of ids a text, special tokens included; lists or NumPy arrays of int.
            model: served name; may be left out while the fleet serves one model that embeds.
            priority: as for `embed`.
            dim: as for `embed`.
            dtype: as for `embed`.
            normalize: as for `embed`.
            timeout: as for `embed`.
            retries: as for `embed`.
            strict: raise if any sequence has no vector.
            tenant: as for `embed`.
            traceparent: as for `embed`.
            request_id: as for `embed`.

        Returns:
            [n, dim] in order, as `embed` does.

        Raises:
            InputError: an argument is wrong, a sequence is empty or longer than the model takes, or an id is not in its
                vocabulary; nothing was sent.
            HeadraceError: see `embed`.
        """
        options = EmbedOptions(
            priority=priority,
            dim=dim,
            dtype=dtype,
            normalize=normalize,
            timeout=timeout,
            retries=retries,
            strict=strict,
            tenant=tenant,
            traceparent=traceparent,
            request_id=request_id,
        )
        sequences = listed(token_ids)
        vectors = Embeddings.of(
            await self._calls.run(model, options, lambda chosen: read_token_ids(sequences, chosen.spec))
        )
        if strict:
            vectors.raise_errors()
        return vectors

    async def score(  # noqa: PLR0913 - the options of a call are its public face
        self,
        query: str,
        documents: str | Iterable[str],
        *,
        model: str | None = None,
        priority: Priority = "online",
        prompt_name: str | None = None,
        top_n: int | None = None,
        raw: bool = False,
        timeout: float | None = None,
        retries: int | None = 0,
        truncate: bool = True,
        strict: bool = False,
        tenant: str | None = None,
        traceparent: str | None = None,
        request_id: str | None = None,
    ) -> Scores:
        """Score how relevant documents are to a query.

        A str is one document and gives one score, an array without dimensions that `float` takes; any other iterable of
        str gives [n] in its order, and an empty one [0]. What a text may be is the same as for `embed`. Each score
        depends on its own pair alone. A pair that exceeds the model's max_length loses the end of its document, never
        any of the query.

        Args:
            query: what is asked.
            documents: what may answer it.
            model: served name; may be left out while the fleet serves one model that scores.
            priority: "online" is served first and refused when the queue is full; "batch" waits for room.
            prompt_name: one of the model's prompts, which instructs it or stands before the query; None takes the
                model's default, if any.
            top_n: how many entries `.ranking` has at most; None ranks all. All documents are scored.
            raw: scores as the model's head gives them, without its final activation. The order is the same.
            timeout: seconds for the whole call; None is 30 for online and 3600 for batch.
            retries: how often each chunk that is refused as overloaded may be tried again, after the time that the
                refusal names and within the timeout; None leaves the number to the timeout. The client's retry budget
                bounds all calls together.
            truncate: cut long documents and list them in `.truncated`; if false they have no score and an entry in
                `.errors`.
            strict: raise if any document has no score.
            tenant: in whose name; None is that of the client.
            traceparent: W3C trace context of the caller, which travels with each chunk. Without one it is that of the
                current span, where OpenTelemetry is configured.
            request_id: what logs, errors and dead letters call this call; 1 to 64 of A-Z, a-z, 0-9, `_` and `-`. None
                has one made.

        Returns:
            A NumPy array of float32, the higher the more relevant, that also has `.ranking`, `.usage`, `.truncated` and
            `.errors`. A document without a score has NaN and its reason in `.errors`; it does not fail the others. A
            single document without a score raises.

        Raises:
            InputError: an argument is wrong, the query leaves no room for a document, or the model does not score;
                nothing was sent.
            ModelNotFound: the fleet does not serve the model.
            Overloaded: the online queue is full, or workers refuse more, and no retry is left.
            DeadlineExceeded: the timeout passed.
            ItemsFailed: `strict`, or the only document, and it has no score.
            RequestFailed: the fleet refused or failed a chunk for another reason.
            ConnectionFailed: the client is closed.
        """
        options = ScoreOptions(
            priority=priority,
            prompt_name=prompt_name,
            top_n=top_n,
            raw=raw,
            timeout=timeout,
            retries=retries,
            truncate=truncate,
            strict=strict,
            tenant=tenant,
            traceparent=traceparent,
            request_id=request_id,
        )
        asked = read_text(query, "query")
        items, is_single = read_texts(documents, "documents")
        gathered = await self._calls.run(
            model, options, lambda chosen: chosen.pairs(asked, items, options.prompt(chosen.spec))
        )
        scores = Scores.of(gathered, top_n)
        if strict or is_single:
            scores.raise_errors()
        return scores.single() if is_single else scores
