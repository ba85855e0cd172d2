"""Functions that run when this process forks, as long as something else refers to them."""

from __future__ import annotations

import os
import types
import weakref
from typing import Any, Callable

Hook = Callable[[], Any]


class WeakCallbacks:
    """Functions without arguments, each once, in the order in which they were added. A function or
    the object of a method that is deleted leaves the list."""

    def __init__(self) -> None:
        self._hooks: list[weakref.ref[Any]] = []
        self._kept: list[Hook] = []

    def add_hook(self, callable: Hook, make_persistent: bool = False) -> None:
        """Adds `callable`. With `make_persistent`, nothing else has to refer to it."""
        if make_persistent:
            self._kept.append(callable)
        is_method = isinstance(callable, types.MethodType)
        made = weakref.WeakMethod if is_method else weakref.ref
        reference: weakref.ref[Any] = made(callable, self._remove)
        if reference not in self._hooks:
            self._hooks.append(reference)

    def _remove(self, reference: weakref.ref[Any]) -> None:
        self._hooks = [kept for kept in self._hooks if kept is not reference]

    def run(self) -> None:
        for reference in list(self._hooks):
            hook = reference()
            if hook is not None:
                hook()


_before, _in_child, _in_parent = WeakCallbacks(), WeakCallbacks(), WeakCallbacks()


def before_fork_hook(callable: Hook, make_persistent: bool = False) -> None:
    """Calls `callable` before each fork. With `make_persistent`, nothing else has to refer to
    it."""
    _before.add_hook(callable, make_persistent)


def after_in_child_fork_hook(callable: Hook, make_persistent: bool = False) -> None:
    """Calls `callable` in each child. With `make_persistent`, nothing else has to refer to it."""
    _in_child.add_hook(callable, make_persistent)


def after_in_parent_fork_hook(callable: Hook, make_persistent: bool = False) -> None:
    """Calls `callable` in this process after each fork. With `make_persistent`, nothing else has to
    refer to it."""
    _in_parent.add_hook(callable, make_persistent)


class ForkMixin:
    """Base class of objects that are told of forks by the methods that they define:
    `__before_fork__`, `__after_in_child_fork__` and `__after_in_parent_fork__`. Workers of a loader
    are forks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._register_hooks()

    def _register_hooks(self) -> None:
        for name, hooks in (
            ("__before_fork__", _before),
            ("__after_in_child_fork__", _in_child),
            ("__after_in_parent_fork__", _in_parent),
        ):
            if hasattr(self, name):
                hooks.add_hook(getattr(self, name))

    def __setstate__(self, state: Any) -> None:
        vars(self).update(state)
        self._register_hooks()


class DataclassForkMixin(ForkMixin):
    """The same for dataclasses: a `__post_init__` of a subclass must call this one."""

    def __post_init__(self) -> None:
        self._register_hooks()


os.register_at_fork(
    before=_before.run, after_in_child=_in_child.run, after_in_parent=_in_parent.run
)
