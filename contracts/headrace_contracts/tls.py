"""How a connection to nats-server is encrypted, and what it takes for the right server.

Knows certificates as files, and what OpenSSL's refusals mean. Does not know who the user is: credentials.py does.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from headrace_contracts.errors import CredentialsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS of one user; a server that does not speak it is refused, before it hears any credentials.

    Attributes:
        ca: certificates of those who may have signed the server's, PEM; None takes those of the system.
        cert: this user's own certificate with its chain, PEM, for servers that ask for one.
        key: the private key of `cert`, PEM.
        handshake_first: begin with TLS, before the server's first word; the server must be told so, too.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    handshake_first: bool = False

    def context(self) -> ssl.SSLContext:
        """What asyncio needs; the files are read here.

        Raises:
            CredentialsError: a file cannot be read or does not hold what it should.
        """
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        except (OSError, ssl.SSLError) as error:
            raise CredentialsError(f"tls.ca is {self.ca}: it cannot be used ({_words(error)})") from None
        if self.cert is not None:
            try:
                # A key under a passphrase would have OpenSSL ask the terminal, and the program stand still.
                context.load_cert_chain(str(self.cert), None if self.key is None else str(self.key), password=_refuse)
            except (OSError, ssl.SSLError) as error:
                text = f"tls.cert is {self.cert}, tls.key is {self.key}: they cannot be used together"
                raise CredentialsError(f"{text} ({_words(error)})") from None
        return context


_NOT_TLS = "it does not begin with TLS: set handshake_first in its tls {}, or leave it out of the access file"
_NO_CERTIFICATE = "it asks for a certificate of ours: give cert and key under [tls] of the access file"
# By what OpenSSL says.
_ADVICE = {
    "wrong version number": _NOT_TLS,
    "record layer failure": _NOT_TLS,
    "certificate required": _NO_CERTIFICATE,
    "handshake failure": _NO_CERTIFICATE,
    "bad certificate": "it does not take our certificate: see cert under [tls] of the access file",
    "certificate expired": "our certificate has expired: renew cert under [tls] of the access file",
    "unknown ca": "it does not know who signed our certificate: see ca_file in its tls {}",
}


class PlainText(Exception):
    """Raised when TLS was asked for and the server speaks plain text."""


def advice(error: BaseException) -> str | None:
    """What is wrong with a TLS connection and what to do about it; None where the error is about something else."""
    if isinstance(error, PlainText):
        return "it speaks plain text where TLS was asked for, so no credentials were sent: give the server its tls {}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error)
    if not isinstance(error, ssl.SSLError):
        return None
    text = str(error).lower().replace("_", " ")
    return next((said for word, said in _ADVICE.items() if word in text), f"TLS fails ({_words(error)})")


def _of_certificate(error: ssl.SSLCertVerificationError) -> str:
    text = error.verify_message
    if "expired" in text:
        return f"its certificate has expired ({text}): renew it"
    if "not yet valid" in text:
        return f"its certificate is not valid yet ({text}): see the clocks of both machines"
    if "mismatch" in text or "not valid for" in text:
        return f"its certificate is another host's ({text}): use a name that the certificate has"
    return f"it is not known who signed its certificate ({text}): name theirs as ca under [tls] in the access file"


def _words(error: Exception) -> str:
    """A short reason, without what OpenSSL adds of its own source files."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return reason.partition(" (_ssl")[0]


def _refuse() -> str:
    raise ssl.SSLError("the key is under a passphrase, which nobody is there to type: store it without one")
