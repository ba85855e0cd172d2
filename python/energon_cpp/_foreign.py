"""Loads the samples of datasets whose dataset.yaml names classes and functions of Python."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import typing
from typing import Any, Callable, Sequence

from . import _factories
from ._epath import EPath
from ._errors import InvalidArgumentError
from ._factories import (
    BaseCoreDatasetFactory,
    CrudeWebdataset,
    StandardWebdatasetFactory,
    plain_bytes,
)
from ._imports import Permissions, is_own_module
from ._prepare import MAIN_FOLDER_NAME
from ._sample import _OWN, CrudeSample, Sample
from .decoder import SampleDecoder

# Entries of dataset.yaml that are not about how samples are made.
_OF_ORDER = (
    *("subflavors", "split_config", "shuffle_over_epochs", "max_samples_per_sequence"),
    "parallel_shard_iters",
)
# Arguments that Energon passes to the classes, which an entry of dataset.yaml must not replace.
_NOT_ENTRIES = {
    "path": "it is the folder of the dataset",
    "split_part": "pass split_part to get_train_dataset() or get_val_dataset(), or set it in a "
    "metadataset",
    "training": "get_train_dataset() and get_val_dataset() determine it",
    "worker_config": "pass it to get_train_dataset() or get_val_dataset()",
    "subset": "set it for the dataset in a metadataset",
}
# Methods of Energon's classes that nothing would call.
_NATIVE = ("build", "sample_filter", "shard_workers", "slice_workers", "_load_sample_raw")

_OWN_CLASSES = (BaseCoreDatasetFactory, Sample, CrudeSample, SampleDecoder)

Column = dict[str, Any]
MakeSpec = Callable[[Callable[..., Any], bool], dict[str, Any]]


class ForeignSamples:
    """Makes the loader of a dataset when the native part asks for it, and keeps it alive.

    Args:
        permissions: What may be imported.
        arguments: Arguments of all classes that accept them, such as the decoder.
        make_spec: Describes a loader for the native part; whether its samples are crude.
    """

    def __init__(
        self, permissions: Permissions, arguments: dict[str, Any], make_spec: MakeSpec
    ) -> None:
        self._permissions = permissions
        self._arguments = arguments
        self._make_spec = make_spec
        self._kept: list[Any] = []
        #: The class of the samples, if known, by the index of the dataset.
        self.sample_types: dict[int, Any] = {}

    def __call__(self, dataset: dict[str, Any]) -> dict[str, Any] | None:
        """Returns what open_data() needs, or None if the dataset is native.

        Args:
            dataset: Its index, the columns, one unless it is a join, and the joiner.
        """
        columns: list[Column] = dataset["columns"]
        is_join = dataset["joiner"] is not None
        joiner = self._joiner(dataset) if is_join else None
        if is_join and joiner is None or not is_join and self._is_native(columns[0]):
            return None
        loaders = [self._column_loader(column) for column in columns]
        loader: Any = loaders[0]
        if joiner is not None:
            loader = JoinLoader(loaders, [column["name"] for column in columns], joiner)
        self.sample_types[dataset["leaf"]] = loader.sample_type
        is_crude = _is_crude(loader.sample_type)
        spec = self._make_spec(loader, is_crude)
        self._kept.append(spec)
        return {
            "loader": spec,
            "is_crude": is_crude,
            "parts": [one.parts for one in loaders],
            "identity": json.dumps(loader.identity(), sort_keys=True, default=str),
        }

    def _is_native(self, column: Column) -> bool:
        """Whether only a function that drops parts is foreign, and it must not run: the samples
        then have all parts."""
        text = column["yaml"].get("part_filter")
        classes = _classes_in(column["yaml"])
        is_own = all(is_own_module(module or "energon_cpp") for module, _ in classes)
        is_crude = is_own and any("Crude" in name for _, name in classes)
        if not is_crude or not isinstance(text, str) or self._permissions.given(text):
            return False
        file = text.rpartition(":")[0] or text
        path = os.path.join(column["path"], MAIN_FOLDER_NAME, file)
        return not self._permissions.allows_file(path)

    def _joiner(self, dataset: dict[str, Any]) -> Any:
        """The function that joins the samples, or None if the native one may do it."""
        kind, module, name = dataset["joiner"]
        place = dataset["path"]
        permissions = self._permissions
        found = permissions.given(f"{module}.{name}", name)
        is_needed = kind == "function" or any(one["is_foreign"] for one in dataset["columns"])
        if found is None and not is_needed:
            if is_own_module(module) or not permissions.allows_module(module):
                return None
        if found is None and is_own_module(module):
            found = _own_class(name, place)
        elif found is None:
            found = permissions.find(module, name, place, kind)
        return getattr(found, "from_joined", found) if isinstance(found, type) else found

    def _column_loader(self, column: Column) -> ColumnLoader:
        kind, entries = self._class_of(column)
        place = column["yaml_path"] or column["path"]
        _check_entries(kind, entries, place)
        converted = {name: self._argument(kind, name, entries[name], column) for name in entries}
        more = {**self._arguments, "split_part": column["split_part"]}
        more["split_config"] = column["split_config"] or "split.yaml"
        try:
            factory = _made(kind, _path_for(kind, column["path"]), more, converted)
        except Exception as error:
            raise InvalidArgumentError(
                f"{place}: {_name_of(kind)} cannot be made: {type(error).__name__}: {error}"
            ) from error
        _check(factory, place)
        _merge_subflavors(factory, column["subflavors"])
        settings = {name: entries[name] for name in entries if name not in _OF_ORDER}
        return ColumnLoader(factory, settings, column["subflavors"])

    def _class_of(self, column: Column) -> tuple[Any, dict[str, Any]]:
        """The class of the dataset, and its arguments as dataset.yaml has them."""
        entries = dict(column["yaml"])
        module, name = _classes_in(column["yaml"])[0]
        entries.pop("__module__", None)
        entries.pop("__class__", None)
        if "tags" in entries:
            entries["subflavors"] = entries.pop("tags")  # another name
        if not name:
            is_crude = "sample_type" not in entries
            return (CrudeWebdataset if is_crude else StandardWebdatasetFactory), entries
        place = column["yaml_path"]
        if is_own_module(module) or (not module and not column["is_foreign"]):
            kind = _own_class(name, place)
        else:
            kind = self._permissions.find(module, name, place)
        if not isinstance(kind, type):
            raise InvalidArgumentError(
                f"{place}: expected {name} to be a dataset class with load_sample(), or a class of "
                f"samples, found {kind!r}"
            )
        if hasattr(kind, "load_sample"):
            return kind, entries
        if entries.get("field_map") is None and entries.get("sample_loader") is None:
            raise InvalidArgumentError(
                f"{place}: {_name_of(kind)} has no load_sample(): define it for a dataset class; "
                "for a class of samples add a field_map, or a sample_loader"
            )
        return StandardWebdatasetFactory, {"sample_type": kind, **entries}

    def _argument(self, kind: Any, name: str, value: Any, column: Column) -> Any:
        """An argument for the class, made of an entry of dataset.yaml."""
        place = column["yaml_path"]
        if name in ("sample_loader", "part_filter") and isinstance(value, str):
            folder = os.path.join(column["path"], MAIN_FOLDER_NAME)
            return self._permissions.find_in_file(value, name, folder, place)
        if not isinstance(value, dict):
            return value
        annotation = _annotation_of(kind, name)
        is_class = name == "sample_type" or typing.get_origin(annotation) is type
        return self._object(value, place, is_class)

    def _object(self, value: dict[str, Any], place: str, is_class: bool) -> Any:
        """The object that a mapping with __class__ or __function__ describes, else the mapping."""
        rest = dict(value)
        module = str(rest.pop("__module__", None) or "")
        kind = "class" if "__class__" in rest else "function"
        name = rest.pop(f"__{kind}__", None)
        if not isinstance(name, str):
            return value
        found = _own_class(name, place, or_none=True) if not module else None
        if is_own_module(module):
            found = _own_class(name, place)
        elif found is None:
            found = self._permissions.find(module, name, place, kind)
        if is_class or kind == "function":
            return found
        return found(**{key: self._nested(part, place) for key, part in rest.items()})

    def _nested(self, value: Any, place: str) -> Any:
        return self._object(value, place, False) if isinstance(value, dict) else value


class ColumnLoader:
    """Calls load_sample() of a dataset class.

    Args:
        factory: The object of the class.
        settings: Its arguments, as dataset.yaml has them.
        subflavors: Those of the dataset.
    """

    def __init__(
        self, factory: Any, settings: dict[str, Any], subflavors: dict[str, Any]
    ) -> None:
        self._factory = factory
        self._settings = settings
        self._subflavors = subflavors
        self._wants: Callable[[str], bool] | None = getattr(factory, "part_filter", None)
        self.parts: list[str] | None = getattr(factory, "_parts", None)
        self.sample_type = getattr(factory, "__sample_type__", None)
        if self.parts is not None:  # the others are not read
            self._wants = None
        self._is_wanted: dict[str, bool] = {}  # by the name of a part

    def identity(self) -> dict[str, Any]:
        settings = {**self._settings, "class": _name_of(type(self._factory))}
        if "sample_type" in settings:
            settings["sample_type"] = _name_of(self.sample_type)
        return settings

    def __call__(self, sample: CrudeSample) -> Any:
        return self.load(sample, sample, sample["__sources__"])

    def load(self, parts: dict[str, Any], sample: CrudeSample, sources: Any) -> Any:
        raw = {"__key__": sample["__key__"], "__shard__": sources[0].shard_name}
        raw |= {"__restore_key__": sample["__restore_key__"], "__sources__": sources}
        raw["__subflavors__"] = dict(self._subflavors)
        for name, value in parts.items():
            if name not in _OWN and self._keeps(name):
                raw[name] = plain_bytes(value)
        loaded = self._factory.load_sample(raw)
        if loaded is None:
            raise TypeError(
                f"load_sample() of {_name_of(type(self._factory))} returned None; raise SkipSample "
                "to leave the sample out"
            )
        return loaded

    def _keeps(self, part: str) -> bool:
        if self._wants is None:
            return True
        if part not in self._is_wanted:
            self._is_wanted[part] = bool(self._wants(part))
        return self._is_wanted[part]


class JoinLoader:
    """Calls load_sample() for each dataset of a join, and joins the results.

    Args:
        columns: One for each dataset.
        names: The name of each as an argument of the joiner, or empty texts.
        joiner: A function of the samples, which gets None for a dataset that has no such sample.
    """

    sample_type = None

    def __init__(
        self, columns: list[ColumnLoader], names: Sequence[str], joiner: Callable[..., Any]
    ) -> None:
        self._columns = columns
        self._names = names
        self._joiner = joiner

    def identity(self) -> dict[str, Any]:
        columns = [column.identity() for column in self._columns]
        return {"columns": columns, "joiner": _name_of(self._joiner)}

    def __call__(self, sample: CrudeSample) -> Any:
        samples = []
        sources = iter(sample["__sources__"])  # one for each dataset that has the sample
        for number, column in enumerate(self._columns):
            parts = sample.get(str(number))
            samples.append(
                None if parts is None else column.load(parts, sample, (next(sources),))
            )
        if any(self._names):
            return self._joiner(**dict(zip(self._names, samples)))
        return self._joiner(*samples)


def _classes_in(entries: dict[str, Any]) -> list[tuple[str, str]]:
    """Module and name of the class of the dataset and, if there is one, of its samples."""
    found = [entries, entries.get("sample_type")]
    return [
        (str(one.get("__module__") or ""), str(one.get("__class__") or ""))
        for one in found
        if isinstance(one, dict)
    ]


def _own_class(name: str, place: str, or_none: bool = False) -> Any:
    """The class of this package that a metadata file calls by its name in Energon: of datasets,
    samples or the decoder. Others must not be called by a file."""
    import energon_cpp

    found = getattr(_factories, name, None) or getattr(energon_cpp, name, None)
    if found is None and name.endswith("Webdataset"):
        if "Crude" in name or "Standard" in name:
            return CrudeWebdataset if "Crude" in name else StandardWebdatasetFactory
        found = getattr(energon_cpp, name.removesuffix("Webdataset") + "Sample", None)
    if isinstance(found, type) and issubclass(found, _OWN_CLASSES):
        return found
    if or_none:
        return None
    raise InvalidArgumentError(f"{place} names the class {name}, which energon_cpp does not have")


def _path_for(kind: Any, path: str) -> Any:
    """The path as the class expects it: for a class over the real package of Energon, its EPath."""
    if any(is_own_module(base.__module__) and base.__module__[0] == "m" for base in kind.__mro__):
        return importlib.import_module("megatron.energon.epathlib").EPath(path)
    return EPath(path)


def _name_of(kind: Any) -> str:
    name = getattr(kind, "__qualname__", None) or type(kind).__qualname__
    return f"{getattr(kind, '__module__', type(kind).__module__)}.{name}"


def _is_crude(sample_type: Any) -> bool:
    """Whether it is the class CrudeSample, also the one of the real package of Energon."""
    name = getattr(sample_type, "__qualname__", "")
    return name == "CrudeSample" and is_own_module(sample_type.__module__)


def _check_entries(kind: Any, entries: dict[str, Any], place: str) -> None:
    """Raises InvalidArgumentError for entries of dataset.yaml that could not have an effect, and a
    class that takes none."""
    if kind.__init__ is object.__init__ and kind.__new__ is object.__new__:
        raise InvalidArgumentError(
            f"{place}: {_name_of(kind)} has no __init__(), which gets the path of the dataset and "
            "the entries of dataset.yaml"
        )
    found = [name for name in _NOT_ENTRIES if name in entries]
    if found and _is_webdataset_class(kind):
        raise InvalidArgumentError(
            f"{place}: '{found[0]}' has no effect here; remove it: {_NOT_ENTRIES[found[0]]}"
        )


def _is_webdataset_class(kind: type) -> bool:
    """Whether it derives from BaseWebdatasetFactory, also the one of the real package."""
    return any(
        base.__name__ == "BaseWebdatasetFactory" and is_own_module(base.__module__)
        for base in kind.__mro__
    )


def _check(factory: Any, place: str) -> None:
    """Raises InvalidArgumentError for methods that nothing would call."""
    kind = type(factory)
    if not any(is_own_module(base.__module__) for base in kind.__mro__):
        return  # a class that need not know of pipelines
    found = [name for name in _NATIVE if _is_overridden(kind, name)]
    if found:
        raise InvalidArgumentError(
            f"{place}: {_name_of(kind)} overrides {', '.join(found)}, which nothing calls: shards "
            "and order are native; override load_sample()"
        )


def _is_overridden(kind: type, name: str) -> bool:
    owners = [base for base in kind.__mro__ if name in vars(base)]
    return bool(owners) and not is_own_module(owners[0].__module__)


def _merge_subflavors(factory: Any, subflavors: dict[str, Any]) -> None:
    own = getattr(factory, "subflavors", None)
    if isinstance(own, dict):
        own.update(subflavors)
    elif own is None and isinstance(factory, BaseCoreDatasetFactory):
        factory.subflavors = dict(subflavors)


def _made(kind: Any, path: Any, offered: dict[str, Any], entries: dict[str, Any]) -> Any:
    """An object of the class, with the entries and those of the offered arguments that it accepts.
    A class of the program that takes **kwargs gets all of them, as in Energon, unless it passes one
    on to a base class that does not have it, such as the decoder."""
    declared = _parameters_of(kind)
    if declared is None:
        return kind(path, **{**offered, **entries})
    accepted = {name: offered[name] for name in offered if name in declared}
    rest = [name for name in offered if name not in declared and name not in entries]
    if rest and _is_overridden(kind, "__init__") and _takes_any(kind.__init__):
        try:
            return kind(path, **{**offered, **entries})
        except TypeError as error:
            if not any(f"unexpected keyword argument '{name}'" in str(error) for name in rest):
                raise
    return kind(path, **{**accepted, **entries})


def _parameters_of(kind: Any) -> set[str] | None:
    """The names of the arguments of the class and, if it passes others on by **kwargs, of the next
    base class; None means any."""
    names: set[str] = set()
    for base in kind.__mro__[:-1]:
        if "__init__" in vars(base):
            names.update(inspect.signature(vars(base)["__init__"]).parameters)
            if not _takes_any(vars(base)["__init__"]):
                return names
    return None


def _takes_any(function: Any) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _annotation_of(kind: Any, name: str) -> Any:
    """The annotation of an argument of the class or of the class that it derives from."""
    for base in kind.__mro__:
        try:
            hints = typing.get_type_hints(vars(base).get("__init__"))
        except (TypeError, NameError, AttributeError):
            continue
        if name in hints:
            options = typing.get_args(hints[name]) if _is_union(hints[name]) else (hints[name],)
            return next((one for one in options if one is not type(None)), None)
    return None


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) is typing.Union
