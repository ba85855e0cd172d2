"""Errors for options of other libraries that a function does not have."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Mapping, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def explains_options(elsewhere: Mapping[str, str]) -> Callable[[F], F]:
    """A decorator that raises TypeError for an option in `elsewhere` that the function does not
    have. The value of the option in `elsewhere` explains what to use instead."""

    def decorated(function: F) -> F:
        known = inspect.signature(function).parameters
        called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

        @functools.wraps(function)
        def checked(*arguments: Any, **options: Any) -> Any:
            for name in options:
                if name in elsewhere and name not in known:
                    raise TypeError(f"{called}() has no option '{name}': {elsewhere[name]}")
            return function(*arguments, **options)

        return checked  # type: ignore[return-value]

    return decorated
