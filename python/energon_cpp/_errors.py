"""Exceptions of the package, and what travels from a worker to the trainer with an exception.

An error of the library is an EnergonError, and also what Python code expects for its kind: a
missing dataset is a FileNotFoundError, a wrong option a ValueError. An exception of a function of
yours is raised in the trainer with its own type, if it can be pickled; its cause is a
UserFunctionError that has the place (sample, shard, worker) and the traceback of the worker. For
StopIteration, GeneratorExit and SystemExit it is the other way round: the UserFunctionError is
raised, and they are its cause.
"""

from __future__ import annotations

import pickle
import signal
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


# These would end the loop over the loader, or the process, without a word.
_SILENT = (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit)


def end_stream(error: BaseException) -> None:
    """The exception ends the stream, whatever the policy says about failures."""
    try:
        error.__energon_ends_stream__ = True  # type: ignore[attr-defined]
    except AttributeError:  # a class with slots
        pass


def interrupts(error: BaseException) -> bool:
    """Whether `error`, which is not an Exception, came from outside the function that it ended:
    KeyboardInterrupt, or SystemExit of a signal handler. sys.exit() in a function would end the
    trainer without a word; it is an error of the function."""
    if not isinstance(error, SystemExit):
        return True
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code in handlers for frame, _ in frames)


def _code_of(function: Any) -> Any:
    return getattr(getattr(function, "__func__", function), "__code__", None)


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
    if isinstance(error, SystemExit):
        text += ": a function must not end the process; raise SkipSample to leave the sample out"
    places = traceback.extract_tb(error.__traceback__)
    if places:
        text += f" ({places[-1].filename}:{places[-1].lineno} in {places[-1].name})"
    whole = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return code, text, pickle.dumps((_pickled(error), whole[-65536:]))


def _pickled(error: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(error)
    except (Exception, SystemExit):
        return None
    # Some can be pickled, but not made again.
    return data if len(data) <= 65536 and _unpickled(data) is not None else None


def _unpickled(data: bytes) -> BaseException | None:
    """None if that fails, or makes something that cannot be raised."""
    try:
        made = pickle.loads(data)
    except (Exception, SystemExit):  # such as a class that only the worker had
        return None
    return made if isinstance(made, BaseException) else None


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
    if original is None:
        return error
    if isinstance(original, _SILENT):
        error.__cause__ = original
        return error
    original.__cause__ = error
    return original


def _unpack(detail: bytes) -> tuple[BaseException | None, str]:
    if not detail:
        return None, ""
    data, worker_traceback = pickle.loads(detail)
    return _unpickled(data) if data else None, worker_traceback
