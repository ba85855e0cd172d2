"""What code a metadata file may name: the permissions sample_types and allow_imports."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import re
import sys
import types
from typing import Any, Iterable, Mapping, Union

from ._errors import InvalidArgumentError
from ._shard_paths import path_text

#: A prefix of module names, a folder, or "*".
Allowed = Union[str, "os.PathLike[str]"]

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_OWN_MODULES = ("megatron.energon", "energon_cpp")
_everywhere: list[Allowed] = []


def allow_imports(allowed: Allowed | Iterable[Allowed]) -> None:
    """Adds to the `allow_imports` of all datasets that this process opens afterwards.

    Args:
        allowed: As allow_imports of get_train_dataset().
    """
    given = _listed(allowed)
    Permissions(allowed=given)  # raises for wrong types
    _everywhere.extend(given)


def _listed(allowed: Allowed | Iterable[Allowed] | None) -> list[Allowed]:
    if allowed is None:
        return []
    return [allowed] if isinstance(allowed, (str, os.PathLike)) else list(allowed)


def is_own_module(name: str) -> bool:
    """Whether this package has the classes of the module."""
    return any(name == own or name.startswith(f"{own}.") for own in _OWN_MODULES)


@dataclasses.dataclass(frozen=True)
class Permissions:
    """Objects for names in metadata files, and modules and folders whose code may run."""

    sample_types: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    allowed: Iterable[Allowed] = ()

    def __post_init__(self) -> None:
        for name, value in self.sample_types.items():
            if not isinstance(name, str) or not callable(value):
                raise TypeError(
                    "sample_types must map names to classes or functions, not "
                    f"{name!r} to {value!r}"
                )
        for entry in self.allowed:
            if not isinstance(entry, (str, os.PathLike)):
                raise TypeError(
                    "allow_imports must list names of modules and folders, not "
                    f"{type(entry).__name__} {entry!r}"
                )

    @property
    def allows_everything(self) -> bool:
        return "*" in self.allowed

    def _modules(self) -> list[str]:
        return [entry for entry in self.allowed if isinstance(entry, str) and _is_module(entry)]

    def _folders(self) -> list[str]:
        """Entries that are not module names, such as "./data" and objects of pathlib."""
        others = [e for e in self.allowed if not (isinstance(e, str) and _is_module(e)) and e != "*"]
        return [os.path.realpath(path_text(entry)) for entry in others]

    def allows_module(self, name: str) -> bool:
        prefixes = self._modules()
        return self.allows_everything or any(
            name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes
        )

    def allows_file(self, path: str) -> bool:
        real = os.path.realpath(path)
        return self.allows_everything or any(
            os.path.commonpath([real, folder]) == folder for folder in self._folders()
        )

    def given(self, *names: str) -> Any:
        """The object in sample_types for the first of these names that it has, else None."""
        found = [self.sample_types[name] for name in names if name in self.sample_types]
        return found[0] if found else None

    def find(self, module: str, name: str, place: str, kind: str = "class") -> Any:
        """The class or function `name` of `module`.

        Args:
            module: Its module, or an empty string if the file names none.
            name: Its name in the module.
            place: The file that names it, for messages.
            kind: "class" or "function".

        Raises:
            InvalidArgumentError: It may not be imported, or does not exist.
        """
        given = self.given(f"{module}.{name}", name)
        if given is not None:
            return given
        itself = f"pass the {kind} itself as sample_types={{{name!r}: {name}}}"
        if not module:
            raise InvalidArgumentError(
                f"{place} names the {kind} {name} without a module: {itself}"
            )
        if not self.allows_module(module):
            raise InvalidArgumentError(
                f"{place} names the {kind} {name} of the module {module!r}, which must not be "
                f"imported without your permission: pass allow_imports=[{module!r}], or {itself}"
            )
        found = _imported(module, name, place, kind)
        origin = _origin_of(found)
        is_given = self.allows_module(origin) or kind == "class" and is_own_module(origin)
        if not origin and not self.allows_everything:
            raise InvalidArgumentError(
                f"{place} names the {kind} {name} of the module {module!r}, which does not define "
                f"it: {itself}"
            )
        if not is_given and not self.allows_everything:
            raise InvalidArgumentError(
                f"{place} names the {kind} {name} of the module {module!r}, which imports it from "
                f"{origin!r}, whose code must not be called without your permission: pass "
                f"allow_imports=[{module!r}, {origin!r}], or {itself}"
            )
        return found

    def find_in_file(self, text: str, default_name: str, folder: str, place: str) -> Any:
        """The function that "file.py:name" names, which is relative to `folder`.

        Raises:
            InvalidArgumentError: The file must not be run, or has no such function.
        """
        given = self.given(text)
        if given is not None:
            return given
        file, colon, name = text.rpartition(":")
        file, name = (file, name) if colon else (name, default_name)
        path = os.path.join(folder, file)
        if not self.allows_file(path):
            real = os.path.realpath(path)
            dataset = os.path.dirname(os.path.realpath(folder))
            allowed = dataset if real.startswith(f"{dataset}/") else os.path.dirname(real)
            raise InvalidArgumentError(
                f"{place} names the function {name} of the file {path!r}, which must not be run "
                f"without your permission: pass allow_imports=[{allowed!r}], or pass the function "
                f"itself as sample_types={{{text!r}: {name}}}"
            )
        code = _run_file(path, place)
        found = getattr(code, name, None)
        if not callable(found):
            raise InvalidArgumentError(f"{place}: the file {path!r} has no function '{name}'")
        origin = _origin_of(found)
        if origin != code.__name__ and not self.allows_module(origin):
            raise InvalidArgumentError(
                f"{place} names the function {name} of the file {path!r}, which imports it from "
                f"{origin!r}, whose code must not be called without your permission: pass "
                f"allow_imports=[{origin!r}] as well, or pass the function itself as "
                f"sample_types={{{text!r}: {name}}}"
            )
        return found


def permissions_of(
    sample_types: Mapping[str, Any] | None, allowed: Iterable[Allowed] | None
) -> Permissions:
    """The permissions of one dataset, with those of allow_imports()."""
    return Permissions(dict(sample_types or {}), tuple(_listed(allowed) + _everywhere))


def _is_module(text: str) -> bool:
    return _MODULE.fullmatch(text) is not None


def _imported(module: str, name: str, place: str, kind: str) -> Any:
    if not _is_module(module):
        raise InvalidArgumentError(
            f"{place} names the {kind} {name} of the module {module!r}, which is not the name of a "
            "module, such as 'package.module'"
        )
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        text = str(error) if isinstance(error, ImportError) else _text_of(error)
        raise InvalidArgumentError(
            f"{place} names the {kind} {name} of the module {module!r}, which cannot be imported: "
            f"{text}"
        ) from error
    *classes, last = name.split(".")
    for part in classes:
        found = getattr(found, part, None)
        if isinstance(found, types.ModuleType):
            raise InvalidArgumentError(
                f"{place} names the {kind} {name} of the module {module!r}, but '{part}' is a "
                f"module: write __module__: {found.__name__}"
            )
        if not isinstance(found, type):
            break
    found = getattr(found, last, None) if not classes or isinstance(found, type) else None
    if found is None:
        raise InvalidArgumentError(f"{place}: the module {module!r} has no {kind} '{name}'")
    if not (isinstance(found, type) if kind == "class" else callable(found)):
        raise InvalidArgumentError(
            f"{place}: expected a {kind}, found {name} of the module {module!r}, which is of type "
            f"{type(found).__name__}"
        )
    return found


def _origin_of(found: Any) -> str:
    """The module that defines the class or function, or an empty string if it does not tell."""
    while isinstance(found, functools.partial):
        found = found.func
    origin = getattr(found, "__module__", None)
    return origin if isinstance(origin, str) else ""


def _text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


_files: dict[str, types.ModuleType] = {}


def _run_file(path: str, place: str) -> types.ModuleType:
    """The module that the file is, which runs once in a process."""
    real = os.path.realpath(path)
    if real not in _files:
        try:
            with open(real, "rb") as file:
                code = compile(file.read(), real, "exec")
        except (OSError, SyntaxError, ValueError) as error:
            raise InvalidArgumentError(f"{place} names the file {path!r}: {error}") from error
        name = f"energon_dataset_file_{len(_files)}"
        module = types.ModuleType(name)
        module.__file__ = real
        sys.modules[name] = module  # dataclasses look for their module
        try:
            exec(code, vars(module))
        except BaseException as error:
            del sys.modules[name]
            if not isinstance(error, Exception):
                raise
            raise InvalidArgumentError(
                f"{place} names the file {path!r}, which cannot be run: {_text_of(error)}"
            ) from error
        _files[real] = module
    return _files[real]
