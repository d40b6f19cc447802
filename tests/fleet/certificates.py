"""Certificates for tests, by the openssl command: an authority, and what it signs."""

import subprocess
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """Somebody who signs certificates; all files are in its folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._name = name
        folder.mkdir(parents=True, exist_ok=True)
        self._made(name, "-days", "2")

    @property
    def certificate(self) -> Path:
        return self._folder / f"{self._name}.pem"

    def sign(self, name: str, *, hosts: str = "IP:127.0.0.1") -> tuple[Path, Path]:
        """A certificate and its key."""
        extensions = ("-addext", f"subjectAltName={hosts}", "-addext", "basicConstraints=critical,CA:FALSE")
        self._made(name, "-days", "2", *self._signing, *extensions)
        return self._folder / f"{name}.pem", self._folder / f"{name}-key.pem"

    def sign_expired(self, name: str) -> tuple[Path, Path]:
        """One that ends in the second in which it begins."""
        path, key = self.sign(name)
        request = self._folder / f"{name}.csr"
        hosts = ("-addext", "subjectAltName=IP:127.0.0.1")
        _openssl("req", "-new", "-key", str(key), "-subj", f"/CN={name}", *hosts, "-out", str(request))
        copied = ("-copy_extensions", "copy", "-days", "0")
        _openssl("x509", "-req", "-in", str(request), *self._signing, *copied, "-out", str(path))
        return path, key

    @property
    def _signing(self) -> tuple[str, ...]:
        return "-CA", str(self.certificate), "-CAkey", str(self._folder / f"{self._name}-key.pem")

    def _made(self, name: str, *more: str) -> None:
        files = ("-keyout", str(self._folder / f"{name}-key.pem"), "-out", str(self._folder / f"{name}.pem"))
        _openssl("req", "-x509", *_KEY, *files, "-subj", f"/CN={name}", *more)


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)  # noqa: S607 - where it lies differs
