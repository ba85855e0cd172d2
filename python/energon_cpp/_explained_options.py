"""Options that a function has not, but that users of another library look for."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Mapping, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def explains_options(elsewhere: Mapping[str, str]) -> Callable[[F], F]:
    """A decorator: an option of `elsewhere` that the function has not is a TypeError with its text,
    which says where the setting is."""

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
