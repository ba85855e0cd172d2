"""Exceptions of the package, and how they travel from a worker to the trainer.

An error of the library is an EnergonError and also the built-in exception for its kind: a missing
dataset is a FileNotFoundError, a wrong option a ValueError. An exception of a user function is
raised in the trainer with its own type, if it can be pickled. Its cause is a UserFunctionError with
the location (sample, shard, worker) and the traceback of the worker. StopIteration, GeneratorExit
and SystemExit are reversed: the UserFunctionError is raised, and they are its cause.
"""

from __future__ import annotations

import errno
import os
import pickle
import signal
import traceback
from typing import Any


class EnergonError(Exception):
    """Base class of the library's errors.

    Attributes:
        code: The kind of failure, such as "corrupt_data".
        path: The shard or other file, or None if unknown.
        byte_offset: The offset in that file, or None if unknown.
        sample_key: The key of the sample, or None if unknown.
        worker: The index of the worker in its rank, or None if unknown.
    """

    code: str = "internal"
    path: str | None = None
    byte_offset: int | None = None
    sample_key: str | None = None
    worker: int | None = None


class InvalidArgumentError(EnergonError, ValueError):
    """An argument, an option or a configuration is invalid."""


class NotFoundError(EnergonError, FileNotFoundError, KeyError):
    """A file, a dataset, a sample or a key does not exist."""

    __str__ = EnergonError.__str__  # KeyError would quote the message, OSError shorten it


class CorruptDataError(EnergonError, ValueError):
    """Data violates its format."""


class StorageError(EnergonError, OSError):
    """A call of the operating system failed. `errno` is its error number."""

    __str__ = EnergonError.__str__  # OSError would show only errno and the path


class WorkerDiedError(EnergonError, RuntimeError):
    """A worker or the fork server ended unexpectedly."""


class WaitTimeoutError(EnergonError, TimeoutError):
    """A wait exceeded its timeout."""

    __str__ = EnergonError.__str__


class CancelledError(EnergonError, RuntimeError):
    """The object was closed by the caller, or is used after a fork."""


class UnsupportedError(EnergonError, NotImplementedError):
    """The data or request is valid, but not supported."""


class ResourceExhaustedError(EnergonError, MemoryError):
    """A limit was reached. The message names the option to change."""


class StateMismatchError(EnergonError, ValueError):
    """A state belongs to another configuration or dataset."""


class InternalError(EnergonError, RuntimeError):
    """A bug in the library."""


class UserFunctionError(EnergonError, RuntimeError):
    """A user function raised an exception."""


class SkipSample(Exception):
    """Raise this in a function to leave the sample out, which is counted but not reported."""


class SampleException(ValueError):
    """Base class of errors about one sample."""

    @classmethod
    def from_sample_key(cls, sample_key: str) -> "SampleException":
        return cls(f"sample '{sample_key}' failed")

    @classmethod
    def from_sample(cls, sample: Any, message: str = "") -> "SampleException":
        key = sample["__key__"] if isinstance(sample, dict) else getattr(sample, "__key__", sample)
        return cls(f"sample '{key}' failed" + (f": {message}" if message else ""))


class FatalSampleError(SampleException):
    """Raise this in a function to end the stream, regardless of the error policy."""


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

# Errors in the program rather than in a sample, which are never skipped. The list is Energon's.
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


# These would end the loop over the loader, or the process, without a message.
_SILENT = (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit)


def end_stream(error: BaseException) -> None:
    """Marks the exception as one that ends the stream, regardless of the error policy."""
    try:
        error.__energon_ends_stream__ = True  # type: ignore[attr-defined]
    except AttributeError:  # a class with slots
        pass


def interrupts(error: BaseException) -> bool:
    """Whether `error`, which is not an Exception, came from outside the function that it ended:
    KeyboardInterrupt, or SystemExit of a signal handler. sys.exit() in a function would end the
    trainer without a message, so it counts as an error of the function."""
    if not isinstance(error, SystemExit):
        return True
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code in handlers for frame, _ in frames)


def _code_of(function: Any) -> Any:
    return getattr(getattr(function, "__func__", function), "__code__", None)


def describe_failure(error: BaseException) -> tuple[str, str, bytes]:
    """Describes an exception for the core: its error code or "fatal", its text and its detail."""
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
    # Some exceptions can be pickled, but not unpickled.
    return data if len(data) <= 65536 and _unpickled(data) is not None else None


def _unpickled(data: bytes) -> BaseException | None:
    """The exception, or None if unpickling fails or its result cannot be raised."""
    try:
        error = pickle.loads(data)
    except (Exception, SystemExit):  # for example, only the worker has the class
        return None
    return error if isinstance(error, BaseException) else None


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
    """Returns the exception for an error of the core."""
    original, worker_traceback = _unpack(detail)
    if worker_traceback:
        text = f"{text}\n\nThe function's own traceback:\n{worker_traceback}"
    error = _CLASSES.get(code, EnergonError)(text)
    error.code = code
    error.path = path
    error.byte_offset = byte_offset
    error.sample_key = sample_key
    error.worker = worker
    if isinstance(error, OSError):
        _set_errno(error, code, message, path)
    if original is None:
        return error
    if isinstance(original, _SILENT):
        error.__cause__ = original
        return error
    original.__cause__ = error
    return original


def _set_errno(error: OSError, code: str, message: str, path: str | None) -> None:
    """Sets what Python sets in errors of the operating system. The core ends a message with the
    text of errno."""
    number = {"not_found": errno.ENOENT, "timeout": errno.ETIMEDOUT}.get(code)
    if number is None:
        texts = ((text, found) for found in errno.errorcode if (text := f": {os.strerror(found)}") in message)
        number = max(texts, key=lambda one: len(one[0]), default=("", None))[1]
    if number is not None:
        error.errno = number
        error.strerror = os.strerror(number)
    error.filename = path


def _unpack(detail: bytes) -> tuple[BaseException | None, str]:
    if not detail:
        return None, ""
    data, worker_traceback = pickle.loads(detail)
    return _unpickled(data) if data else None, worker_traceback
