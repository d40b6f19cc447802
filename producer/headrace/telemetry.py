"""Sets OpenTelemetry's SDK up for a command, when its own environment variables ask for it.

Knows the SDK and the OTLP exporter, which are an extra (`headrace[otel]`), and the variables that decide between them
(https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/); the SDK reads the others, such as
sampler, limits and headers. Does not know spans. Nothing here is for programs that import the client: what they set up
is used.
"""

import os
import sys
from collections.abc import Mapping
from importlib import metadata

from headrace.errors import InputError

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_KNOWN = ("otlp", "console", "none")


def exporter_of(environment: Mapping[str, str]) -> str | None:
    """Which exporter the variables ask for: "otlp" or "console"; None asks for no traces.

    Raises:
        InputError: it is another one.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    named = environment.get(_EXPORTER, "").strip().lower()
    if not named:
        return "otlp" if any(environment.get(name) for name in _ENDPOINTS) else None
    if named not in _KNOWN:
        raise InputError(f"{_EXPORTER} is {named!r}: it must be one of {', '.join(_KNOWN)}")
    return None if named == "none" else named


def set_up(command: str) -> None:
    """Trace this process if its environment asks for it; what is left to send is sent when it ends.

    Args:
        command: subcommand, which names the service unless OTEL_SERVICE_NAME does: headrace-worker, say.

    Raises:
        InputError: the variables ask for what there is not, or the extra is not installed.
    """
    exporter = exporter_of(os.environ)
    if exporter is None:
        return
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra, and slow to import: only where it is asked for
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter  # noqa: PLC0415
    except ImportError as error:  # also of parts that do not fit together
        raise InputError(
            f"traces are asked for by OTEL_… in the environment, and OpenTelemetry is not installed, or not whole "
            f"({error}): pip install 'headrace[otel]', or set OTEL_TRACES_EXPORTER=none"
        ) from error
    told = {"service.version": metadata.version("headrace")}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        told["service.name"] = f"headrace-{command}"
    provider = TracerProvider(resource=Resource.create(told))
    sending = ConsoleSpanExporter(out=sys.stderr) if exporter == "console" else OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(sending))
    trace.set_tracer_provider(provider)


def finish() -> None:
    """Send what is left to send, for a process that ends without Python's own way out."""
    trace = sys.modules.get("opentelemetry.trace")
    shutdown = getattr(trace and trace.get_tracer_provider(), "shutdown", None)
    if shutdown is not None:
        shutdown()
