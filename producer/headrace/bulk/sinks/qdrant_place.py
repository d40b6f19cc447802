"""Where Qdrant is: a server at a URL, or the client's own storage in a folder or in memory.

Knows how a client is made, and what its errors mean to people. Does not know collections or points.
"""

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from headrace.bulk.whole_file import refusal
from headrace.errors import SinkError

_KEY = "QDRANT_API_KEY"
_MEMORY = ":memory:"
# A server that has taken a request must have an answer by then.
_TIMEOUT_S = 60


class Place:
    """A Qdrant by what a user calls it.

    Attributes:
        name: the URL without a key, or the folder from the root on.
        is_local: whether it is the client's own storage.
        where: it is, for errors.
    """

    def __init__(self, place: str) -> None:
        """Read it; nothing is opened yet.

        Args:
            place: a URL such as http://localhost:6333, a folder, or `:memory:`.

        Raises:
            SinkError: it is none of them. A URL with a password in it is not quoted.
        """
        self._place = place
        self.is_local = "://" not in place
        if self.is_local:
            if re.fullmatch(r"[\w.-]+:\d+", place):
                raise SinkError(f"{place!r} is neither a URL nor a folder: write http://{place}, or ./{place}")
            if not place or "\0" in place:
                raise SinkError(f"{place!r} is no folder: write a URL such as http://localhost:6333, or a folder")
            self.name = place if place == _MEMORY else str(Path(place).expanduser().resolve())
        else:
            self.name = _checked(place)
        self.where = f"Qdrant ({self.name})"

    def client(self) -> QdrantClient:
        """A client of it. The key of a server comes from the environment, QDRANT_API_KEY.

        Raises:
            SinkError: the folder cannot be opened, or another process has it.
        """
        with self.reached():
            if not self.is_local:
                key = os.environ.get(_KEY) or None
                return QdrantClient(url=self._place, api_key=key, timeout=_TIMEOUT_S, check_compatibility=False)
            # One call at a time, but perhaps each on another thread.
            if self._place == _MEMORY:
                return QdrantClient(_MEMORY, force_disable_check_same_thread=True)
            return QdrantClient(path=self.name, force_disable_check_same_thread=True)

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Say of errors in the block what they mean.

        Raises:
            SinkError: in place of an error of the client.
        """
        try:
            yield
        except UnexpectedResponse as error:
            raise SinkError(f"{self.where}: {_said(error)}") from error
        except ApiException as error:
            text = f"{self.where} does not answer ({error}): see that it runs, then run the same command again"
            raise SinkError(text) from error
        except (ValueError, RuntimeError, OSError, sqlite3.Error) as error:  # all of these come from a local storage
            if isinstance(error, OSError) and error.errno:
                raise refusal(Path(self.name), error) from error
            raise SinkError(f"{self.where}: {error}") from error


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise SinkError("the URL of Qdrant cannot be read: write one such as http://localhost:6333") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SinkError(f"the URL of Qdrant is of the kind {parts.scheme}: write one such as http://localhost:6333")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise SinkError(
            f"the URL of Qdrant holds more than a host, port and path: give a key as {_KEY}, in the environment"
        )
    return f"{parts.scheme}://{parts.hostname}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


def _said(error: UnexpectedResponse) -> str:
    try:
        said = json.loads(error.content)["status"]["error"]
    except (ValueError, KeyError, TypeError):
        said = error.content.decode(errors="replace")
    advice = f": set {_KEY} in the environment" if error.status_code in {401, 403} else ""
    return f"it answered {error.status_code} ({said!s:.300}){advice}"
