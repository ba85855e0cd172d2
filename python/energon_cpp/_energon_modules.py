"""The modules of Megatron-Energon, below this package and, on request, under their own names.

`energon_cpp.flavors.webdataset` and others have no file. The first import makes them from the table
in _energon_names.py. Type checkers read stubs, which python/tools/make_module_stubs.py writes when
the package is built.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
import types
from typing import Any, Callable, Iterator, Sequence, overload

from ._energon_names import NAMES

_PACKAGE = __name__.rpartition(".")[0]
_ENERGON = "megatron.energon"

# --- Modules that have no file ---


class _Finder:
    """Makes modules from the table. Comes before all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != _PACKAGE or name not in NAMES:
            return None
        in_file = importlib.machinery.PathFinder.find_spec(fullname, path)
        if in_file is not None and in_file.origin is not None:  # not only a folder of stubs
            in_file.loader = _FileLoader(fullname, in_file.origin)
            return in_file
        return _spec(fullname, self, is_package=_has_submodules(name))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__.partition(".")[2]
        module.__doc__ = f"The names of megatron.energon.{name}."
        _complete(module)
        entries = " ".join(NAMES[name].values()).split()
        names = sorted(entry.partition("=")[0] for entry in entries)
        module.__all__ = names  # type: ignore[attr-defined]


class _FileLoader(importlib.machinery.SourceFileLoader):
    """Adds the names of the table to a module that has a file."""

    def exec_module(self, module: types.ModuleType) -> None:
        super().exec_module(module)
        _complete(module)


def install() -> None:
    """Makes the modules importable. Adds names to modules that have a file."""
    sys.meta_path.insert(0, _Finder())
    package = sys.modules[_PACKAGE]
    vars(package)["__getattr__"] = _importer(package)
    for name in NAMES:
        module = sys.modules.get(f"{_PACKAGE}.{name}")
        if module is not None:
            _complete(module)
        elif name in vars(package):  # the function edataclass
            value = getattr(package, name)
            importlib.import_module(f"{_PACKAGE}.{name}")
            setattr(package, name, value)


def _complete(module: types.ModuleType) -> None:
    """Gives the module the names of the table, and its submodules as attributes."""
    own_name = module.__name__.partition(".")[2]
    for home, names in NAMES[own_name].items():
        source = importlib.import_module(f"{_PACKAGE}.{home}" if home else _PACKAGE)
        for entry in names.split():
            name, _, other = entry.partition("=")
            if name not in vars(module):
                setattr(module, name, getattr(source, other or name))
    if _has_submodules(own_name):
        if not hasattr(module, "__path__"):  # a file, not a folder
            module.__path__ = []
        vars(module)["__getattr__"] = _importer(module)


def _spec(fullname: str, loader: Any, is_package: bool) -> importlib.machinery.ModuleSpec:
    """The base classes of loaders, which importing importlib.abc would take long, are not needed."""
    return importlib.machinery.ModuleSpec(fullname, loader, is_package=is_package)


def _has_submodules(name: str) -> bool:
    return any(other.startswith(f"{name}.") for other in NAMES)


def _importer(package: types.ModuleType) -> Callable[[str], Any]:
    """Imports submodules that are used as attributes, as in `energon.flavors.Sample`."""

    def find(name: str) -> Any:
        fullname = f"{package.__name__}.{name}"
        if fullname.partition(".")[2] not in NAMES:
            raise AttributeError(f"module '{package.__name__}' has no attribute '{name}'")
        return importlib.import_module(fullname)

    return find


# --- The package under the name megatron.energon ---

_STATE_CLASSES = {
    "rng": "SystemRngState",
    "savable_loader": (
        "SavableCheckpoint SavableDataLoaderState SavableDatasetCheckpoint SavableDatasetState"
    ),
    "state": "FlexState",
}


def install_as_megatron_energon() -> None:
    """From now on, `import megatron.energon` imports this package, with all modules that Energon
    has in common with it. Other packages below `megatron`, such as megatron.core, are found as
    before. Call this before anything imports megatron.energon. Energon's classes of states are
    pickled under its names, which restricted unpicklers of frameworks allow.

    Raises:
        RuntimeError: Energon itself was imported before.
    """
    package = sys.modules[_PACKAGE]
    present = sys.modules.get(_ENERGON)
    if present is package:
        return
    if present is not None:
        raise RuntimeError(
            f"{_ENERGON} was imported before, from {getattr(present, '__file__', None)}: call "
            "install_as_megatron_energon() before anything imports it"
        )
    sys.meta_path.insert(0, _AliasFinder())
    sys.meta_path.append(_NamespaceFinder())
    for name in ["", *(f".{name}" for name in NAMES)]:
        if _PACKAGE + name in sys.modules:
            sys.modules[_ENERGON + name] = sys.modules[_PACKAGE + name]
    setattr(importlib.import_module("megatron"), "energon", package)
    for module, classes in _STATE_CLASSES.items():
        for name in classes.split():
            cls = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)
            cls.__module__ = f"{_ENERGON}.{module}"


class _AliasFinder:
    """Finds megatron.energon.NAME as NAME of this package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{_ENERGON}."):
            return None
        import importlib.util

        found = importlib.util.find_spec(_own_name(fullname))
        if found is None:
            raise ModuleNotFoundError(
                f"No module named '{fullname}': {_PACKAGE}, which replaces {_ENERGON}, does not "
                "have it (docs/energon-compat.md)",
                name=fullname,
            )
        is_package = found.submodule_search_locations is not None
        return _spec(fullname, self, is_package=is_package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(_own_name(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # the import system has replaced it


class _NamespaceFinder:
    """Finds the package megatron where no other part of it is installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "megatron":
            return None
        spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = _Portions()  # type: ignore[assignment]
        return spec


class _Portions(Sequence[str]):
    """The folders `megatron` of sys.path, as it is when they are used."""

    def _folders(self) -> list[str]:
        folders = [os.path.join(entry or os.getcwd(), "megatron") for entry in sys.path]
        return [folder for folder in folders if os.path.isdir(folder)]

    def __len__(self) -> int:
        return len(self._folders())

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._folders()[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders())


def _own_name(fullname: str) -> str:
    return _PACKAGE + fullname.removeprefix(_ENERGON)
