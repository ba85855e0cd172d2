"""Exceptions of the package, and what travels from a worker to the trainer with an exception.

An error of the library is an EnergonError, and also what Python code expects for its kind: a
missing dataset is a FileNotFoundError, a wrong option a ValueError. An exception of a function of
yours is raised in the trainer with its own type, if it can be pickled; its cause is a
UserFunctionError that has the place (sample, shard, worker) and the traceback of the worker.
"""

from __future__ import annotations

import pickle
import traceback
from typing import Any


class EnergonError(Exception):
    """What the library raises.

    code: the kind of failure, such as "corrupt_data". path: the shard or other file.
    byte_offset: in it. sample_key: the key of the sample. worker: the worker of the rank. Each is
    None if it is not known.
    """

    code: str = "internal"
    path: str | None = None
    byte_offset: int | None = None
    sample_key: str | None = None
    worker: int | None = None


class InvalidArgumentError(EnergonError, ValueError):
    """A call, an option or a configuration is wrong."""


class NotFoundError(EnergonError, FileNotFoundError, KeyError):
    """A file, a dataset, a sample or a key does not exist."""

    __str__ = EnergonError.__str__  # that of KeyError shows the text in quotes


class CorruptDataError(EnergonError, ValueError):
    """Bytes that violate their format."""


class StorageError(EnergonError, OSError):
    """A call of the operating system failed."""


class WorkerDiedError(EnergonError, RuntimeError):
    """A worker or the fork server ended."""


class WaitTimeoutError(EnergonError, TimeoutError):
    """A wait passed its deadline."""


class CancelledError(EnergonError, RuntimeError):
    """Closed by the caller, or used after a fork."""


class UnsupportedError(EnergonError, NotImplementedError):
    """Valid, but not supported."""


class ResourceExhaustedError(EnergonError, MemoryError):
    """A limit was reached; the text names the option to change."""


class StateMismatchError(EnergonError, ValueError):
    """A state belongs to another configuration or dataset."""


class InternalError(EnergonError, RuntimeError):
    """A mistake of the library."""


class UserFunctionError(EnergonError, RuntimeError):
    """A function of yours raised an exception."""


class SkipSample(Exception):
    """Raise it in a function to leave the sample out; it is counted, not reported."""


class SampleException(ValueError):
    """Base of errors about one sample."""

    @classmethod
    def from_sample_key(cls, sample_key: str) -> "SampleException":
        return cls(f"sample '{sample_key}' failed")

    @classmethod
    def from_sample(cls, sample: Any, message: str = "") -> "SampleException":
        key = sample["__key__"] if isinstance(sample, dict) else getattr(sample, "__key__", sample)
        return cls(f"sample '{key}' failed" + (f": {message}" if message else ""))


class FatalSampleError(SampleException):
    """Raise it in a function to end the stream, whatever the policy says about failures."""


_CLASSES: dict[str, type[EnergonError]] = {
    "invalid_argument": InvalidArgumentError,
    "not_found": NotFoundError,
    "corrupt_data": CorruptDataError,
    "io": StorageError,
    "worker_died": WorkerDiedError,
    "timeout": WaitTimeoutError,
    "cancelled": CancelledError,
    "unsupported": UnsupportedError,
    "resource_exhausted": ResourceExhaustedError,
    "mismatch": StateMismatchError,
    "internal": InternalError,
    "user_function": UserFunctionError,
}

# Mistakes in a program rather than in a sample: never skipped. The list is Energon's.
FATAL = (
    FatalSampleError,
    SystemError,
    SyntaxError,
    ImportError,
    StopIteration,
    StopAsyncIteration,
    RecursionError,
    ReferenceError,
    NameError,
)


def end_stream(error: BaseException) -> None:
    """The exception ends the stream, whatever the policy says about failures."""
    try:
        error.__energon_ends_stream__ = True  # type: ignore[attr-defined]
    except AttributeError:  # a class with slots
        pass


def describe_failure(error: BaseException) -> tuple[str, str, bytes]:
    """What the core keeps of an exception: the code of its error or "fatal", text and detail."""
    if getattr(error, "__energon_ends_stream__", False):
        code = "fatal"
    elif isinstance(error, EnergonError):
        code = error.code
    elif isinstance(error, MemoryError):
        code = "resource_exhausted"
    elif isinstance(error, FATAL) or not isinstance(error, Exception):
        code = "fatal"
    else:
        code = "user_function"
    lines = traceback.format_exception_only(type(error), error)
    text = "".join(lines).strip()
    places = traceback.extract_tb(error.__traceback__)
    if places:
        text += f" ({places[-1].filename}:{places[-1].lineno} in {places[-1].name})"
    whole = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return code, text, pickle.dumps((_pickled(error), whole[-65536:]))


def _pickled(error: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(error)
        pickle.loads(data)  # some can be pickled, but not made again
    except Exception:
        return None
    return data if len(data) <= 65536 else None


def make_error(
    code: str,
    text: str,
    message: str,
    path: str | None,
    byte_offset: int | None,
    sample_key: str | None,
    worker: int | None,
    detail: bytes,
) -> BaseException:
    """The exception for an error of the core."""
    original, worker_traceback = _unpack(detail)
    if worker_traceback:
        text = f"{text}\n\nThe function's own traceback:\n{worker_traceback}"
    error = _CLASSES.get(code, EnergonError)(text)
    error.code = code
    error.path = path
    error.byte_offset = byte_offset
    error.sample_key = sample_key
    error.worker = worker
    # These would end the loop over the loader without a word.
    ends_loops = isinstance(original, (StopIteration, StopAsyncIteration, GeneratorExit))
    if original is None or ends_loops:
        return error
    original.__cause__ = error
    return original


def _unpack(detail: bytes) -> tuple[BaseException | None, str]:
    if not detail:
        return None, ""
    data, worker_traceback = pickle.loads(detail)
    try:
        original = pickle.loads(data) if data else None
    except Exception:  # a class that only the worker had
        original = None
    return original, worker_traceback
