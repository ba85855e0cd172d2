"""Errors of functions and their handlers: SkipSample, FatalSampleError, log_exception,
reraise_exception.

A handler is a function (exception, sample, sources). WorkerConfig(global_error_handler=...) calls
it in the worker for each sample whose function failed. It also calls it for each sample that cannot
be read or decoded, which is passed as a dict that contains only its key. If the handler returns,
the sample is left out and counted. If the handler raises an exception, the stream ends with it.
"""

from __future__ import annotations

import traceback
from typing import Any, Callable, Sequence

from ._errors import FatalSampleError, SampleException, SkipSample
from .source_info import SourceInfo

ErrorHandler = Callable[[Exception, Any, "Sequence[SourceInfo] | None"], None]

_LONGEST_VALUE = 200

__all__ = [
    "ErrorHandler",
    "FatalSampleError",
    "SampleException",
    "SkipSample",
    "log_exception",
    "reraise_exception",
]


def log_exception(
    e: Exception, sample: Any, sources: Sequence[SourceInfo] | None = None
) -> None:
    """Prints the traceback, and the sources and fields of the sample, to standard output."""
    lines = traceback.format_exception(type(e), e, e.__traceback__)
    lines += [f"source: {source!r}\n" for source in sources or ()]
    lines += [f"{name}: {_shortened(value)}\n" for name, value in _fields_of(sample)]
    print("".join(lines), end="", flush=True)


def reraise_exception(
    e: Exception, _sample: Any, _sources: Sequence[SourceInfo] | None = None
) -> None:
    """Ends the stream with the exception."""
    raise e


def _fields_of(sample: Any) -> list[tuple[str, Any]]:
    if isinstance(sample, list):
        return [(f"sample {i}", one) for i, one in enumerate(sample)]
    names = ["__key__"] if hasattr(sample, "__key__") else []
    fields: list[tuple[str, Any]] = [(name, getattr(sample, name)) for name in names]
    if hasattr(sample, "items"):
        return fields + list(sample.items())
    return fields + list(getattr(sample, "__dict__", {"sample": sample}).items())


def _shortened(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} {tuple(value.shape)} {value.dtype}"
    if isinstance(value, (bytes, bytearray)) and len(value) > _LONGEST_VALUE:
        return f"{len(value)} bytes, {bytes(value[:32])!r}..."
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."
