"""Errors for options that a function does not have."""

from __future__ import annotations

import functools
import inspect
from types import MappingProxyType
from typing import Any, Callable, Iterable, Mapping, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_NONE: Mapping[str, str] = MappingProxyType({})


def explains_options(elsewhere: Mapping[str, str] = _NONE) -> Callable[[F], F]:
    """A decorator that raises TypeError for options that the function does not have, before Python
    complains about missing ones. The value of the option in `elsewhere` explains what to use
    instead. For other options, the error names the most similar one."""

    def decorated(function: F) -> F:
        code = function.__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        takes_any = bool(code.co_flags & inspect.CO_VARKEYWORDS)
        called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

        @functools.wraps(function)
        def checked(*arguments: Any, **options: Any) -> Any:
            for name in options:
                if name in known:
                    continue
                if name in elsewhere:
                    raise TypeError(f"{called}() has no option '{name}': {elsewhere[name]}")
                if not takes_any:
                    raise TypeError(
                        f"{called}() got an unexpected keyword argument '{name}'"
                        f"{did_you_mean(name, known)}"
                    )
            return function(*arguments, **options)

        return checked  # type: ignore[return-value]

    return decorated


checks_options = explains_options()


def checks_fields(cls: C) -> C:
    """A decorator of classes: checks_options() for their constructor."""
    cls.__init__ = checks_options(cls.__init__)  # type: ignore[misc]
    return cls


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the most similar of the known names, if one is similar."""
    names = [one for one in known if one != "self"]
    similar = similar_name(name, names) or next((o for o in names if o.startswith(name)), None)
    return f"; did you mean '{similar}'?" if similar else ""


def similar_name(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that is most similar, as a ratio of at least `cutoff`."""
    import difflib  # only for errors

    similar = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return similar[0] if similar else None
