"""Passes failures of a task encoder's functions to the error handler of the WorkerConfig."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from ._errors import FATAL, SkipSample, end_stream, make_error
from .errors import ErrorHandler, reraise_exception
from .source_info import get_source_info


def calls_handler(handler: ErrorHandler | None) -> bool:
    """Whether failures reach a handler. Without one, the option on_error decides."""
    return handler is not None and handler is not reraise_exception


def with_handler(function: Callable[..., Any], handler: ErrorHandler) -> Callable[..., Any]:
    """Wraps `function`: its exceptions go to the handler and then to the pipeline, which leaves the
    sample out. SkipSample, FatalSampleError and mistakes such as ImportError bypass the handler."""
    if inspect.isgeneratorfunction(inspect.unwrap(function)):

        @functools.wraps(function)
        def generate(item: Any) -> Any:
            outputs = iter(function(item))
            while True:
                try:
                    output = next(outputs)
                except StopIteration:
                    return
                except Exception as error:
                    _handle(error, item, handler)
                    raise
                yield output

        return generate

    @functools.wraps(function)
    def call(item: Any, *more: Any) -> Any:
        try:
            return function(item, *more)
        except Exception as error:
            _handle(error, item, handler)
            raise

    return call


def with_handler_of_each(function: Callable[..., Any], handler: ErrorHandler) -> Callable[..., Any]:
    """The same for a function of many samples: the handler gets the failure of a call with one
    sample. After another failure, the pipeline calls the function with each sample alone."""

    @functools.wraps(function)
    def call(samples: list[Any]) -> Any:
        alone = list(samples) if len(samples) == 1 else []
        try:
            return function(samples)
        except Exception as error:
            for sample in alone:
                _handle(error, sample, handler)
            raise

    return call


def for_native_stages(handler: ErrorHandler) -> Callable[..., None]:
    """Adapts the handler for the native part, which reports failures of stages such as "read" and
    "decode". The sample is a dict that contains only its key."""

    def call(code: str, text: str, path: str, keys: list[str], sources: list[Any]) -> None:
        key = keys[0] if keys else None
        error = make_error(code, text, text, path or None, None, key, None, b"")
        samples = [{"__key__": one} for one in keys]
        assert isinstance(error, Exception)
        handler(error, samples if len(samples) > 1 else {"__key__": key}, sources)

    return call


def _handle(error: Exception, item: Any, handler: ErrorHandler) -> None:
    if isinstance(error, (SkipSample, MemoryError, *FATAL)):
        return
    try:
        handler(error, item, get_source_info(item))
    except BaseException as raised:
        end_stream(raised)
        raise
