"""Base classes of dataset classes that a dataset.yaml names, as in Energon.

A class of this kind makes samples: `load_sample()` takes the parts of a sample, as bytes, and
returns the sample. Everything else is native: shards, order, splits, joins and states. The class is
constructed once, when the dataset is opened, with the entries of dataset.yaml as arguments.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from typing import Any, Callable, Generic, Iterable, Mapping, TypeVar, Union

from . import _core
from ._epath import EPath
from ._field_access import field_access, split_field_access
from ._file_stores import JsonlFileStore, WebdatasetFileStore
from ._prepare import JsonlPreparator, WebdatasetPreparator
from ._sample import _OWN, CrudeSample
from .decoder import SampleDecoder

_T_sample = TypeVar("_T_sample", covariant=True)

PartFilter = Union[str, "list[str]", Callable[[str], bool]]

DEFAULT_DECODER = SampleDecoder()


class BaseCoreDatasetFactory(Generic[_T_sample]):
    """Base class of the others.

    Attributes:
        path: The folder of the dataset, or its file.
        subflavors: Labels of the samples.
    """

    __sample_type__: Any = None

    path: Any
    paths: list[Any]
    subflavors: dict[str, Any] | None = None

    def load_sample(self, sample: dict[str, Any]) -> _T_sample:
        """Makes a sample. Override this.

        Args:
            sample: The parts as bytes, and `__key__`, `__shard__`, `__restore_key__`,
                `__subflavors__` and `__sources__`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define load_sample()")

    def build(self, worker_rotation_offset: int = 0) -> Any:
        raise NotImplementedError("pipelines are native: get_train_dataset() opens the dataset")

    def as_file_store(self) -> Any:
        """Opens the files of the dataset by name."""
        return WebdatasetFileStore(os.fspath(self.path))

    def config(self) -> dict[str, Any]:
        return {"type": type(self).__qualname__}

    def __repr__(self) -> str:
        path = getattr(self, "path", None)
        return f"{type(self).__name__}({'' if path is None else repr(os.fspath(path))})"


class BaseWebdatasetFactory(BaseCoreDatasetFactory[_T_sample], WebdatasetPreparator):
    """A dataset of tars. Subclasses define load_sample().

    Args:
        path: The folder of the dataset.
        split_part: The part of the dataset, such as "train".
        training: Whether the dataset is used for training.
        worker_config: Ranks and workers.
        part_filter: The names of the parts that load_sample() needs, or a function that tells for a
            name whether it does; None means all parts.
        shuffle_over_epochs: Accepted without effect, like the following: the order is native.
        parallel_shard_iters: Accepted without effect.
        max_samples_per_sequence: Accepted without effect.
        subset: Accepted without effect.
        split_config: Accepted without effect.
    """

    def __init__(
        self,
        path: Any,
        *,
        split_part: str | None = None,
        training: bool = False,
        worker_config: Any = None,
        shuffle_over_epochs: int | None = 1,
        parallel_shard_iters: int | None = None,
        max_samples_per_sequence: int | None = None,
        subset: Any = None,
        split_config: str | None = None,
        part_filter: PartFilter | None = None,
    ) -> None:
        if self.__sample_type__ is None:
            raise TypeError(f"{type(self).__name__} must define __sample_type__")
        self.path = _epath(path)
        self.paths = [self.path]
        self.split_part = split_part
        self.training = training
        self.worker_config = worker_config
        self.shuffle_over_epochs = shuffle_over_epochs
        self.parallel_shard_iters = parallel_shard_iters
        self.max_samples_per_sequence = max_samples_per_sequence
        self.subset = subset
        self.split_config = split_config
        self._parts: list[str] | None = None
        self.part_filter = self._part_function(part_filter)

    def _part_function(self, part_filter: PartFilter | None) -> Callable[[str], bool] | None:
        if isinstance(part_filter, (list, tuple, set, frozenset)):
            self._parts = sorted(part_filter)
            return frozenset(part_filter).__contains__
        if part_filter is not None and not callable(part_filter):
            raise TypeError(f"part_filter must be a list or a function, not {part_filter!r}")
        return part_filter


class DefaultGenericWebdatasetFactory(BaseWebdatasetFactory[_T_sample]):
    """Makes samples of the class `__sample_type__` from parts that are not decoded.

    Args:
        path: The folder of the dataset.
        subflavors: Labels of the samples.
        field_map: For each field, the part that it comes from, such as "jpg,png" or "json[text]".
        sample_loader: Instead of field_map, a function that returns the fields of a sample.
        part_filter: As in BaseWebdatasetFactory; sample_loader needs one.
        **kwargs: Arguments of BaseWebdatasetFactory.
    """

    _sample_loader: Callable[[dict[str, Any]], dict[str, Any]]

    def __init__(
        self,
        path: Any,
        *,
        subflavors: dict[str, Any] | None = None,
        field_map: Mapping[str, str] | None = None,
        sample_loader: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        part_filter: PartFilter | None = None,
        **kwargs: Any,
    ) -> None:
        if (field_map is None) == (sample_loader is None):
            raise ValueError(f"{type(self).__name__} needs either field_map or sample_loader")
        if field_map is not None:
            if part_filter is not None:
                raise ValueError("field_map determines the needed parts; remove part_filter")
            fields = {name: split_field_access(text) for name, text in field_map.items()}
            part_filter = sorted({steps[0] for field in fields.values() for steps in field})
            load: Callable[[dict[str, Any]], dict[str, Any]] = functools.partial(
                _mapped_fields, fields
            )
        else:
            assert sample_loader is not None
            if part_filter is None:
                raise ValueError("sample_loader needs a part_filter")
            if not callable(sample_loader):
                raise TypeError(f"sample_loader must be a function, not {sample_loader!r}")
            load = sample_loader
        super().__init__(path, part_filter=part_filter, **kwargs)
        if field_map is not None:
            self._check_fields(field_map)
        self.subflavors = dict(subflavors or {})
        self._load_fields = load
        self._sample_loader = self._all_fields

    def _check_fields(self, names: Iterable[str]) -> None:
        kind: Any = self.__sample_type__
        if dataclasses.is_dataclass(kind):
            known = [field.name for field in dataclasses.fields(kind)]
            unknown = [name for name in names if name not in known]
            if unknown:
                name = self.__sample_type__.__name__
                raise ValueError(
                    f"field_map has '{unknown[0]}', which is not a field of {name}; fields: "
                    f"{', '.join(name for name in known if name not in _OWN)}"
                )

    def _all_fields(self, sample: dict[str, Any]) -> dict[str, Any]:
        """The fields that field_map or sample_loader gives, and those of every sample."""
        return {
            "__key__": sample["__key__"],
            **self._load_fields(sample),
            "__restore_key__": sample.get("__restore_key__"),
            "__subflavors__": dict(self.subflavors or {}),
            "__sources__": sample.get("__sources__"),
        }

    def load_sample(self, sample: dict[str, Any]) -> _T_sample:
        kind = self.__sample_type__
        return kind(**_taken(kind, self._sample_loader(sample)))  # type: ignore[no-any-return]

    def config(self) -> dict[str, Any]:
        return {**super().config(), "subflavors": self.subflavors}


class DefaultDecoderWebdatasetFactory(DefaultGenericWebdatasetFactory[_T_sample]):
    """Makes samples of the class `__sample_type__` from decoded parts.

    Args:
        path: The folder of the dataset.
        decoder: Decodes the parts; None leaves them as bytes. Any function of a sample fits.
        auto_decode: As in Energon before 7.4: False means decoder=None.
        image_decode: The same for SampleDecoder(image_decode=...), and so the following.
        av_decode: For SampleDecoder(av_decode=...).
        video_decode_audio: For SampleDecoder(video_decode_audio=...).
        guess_content: For SampleDecoder(guess_content=...).
        ignore_decoder_errors: Accepted without effect.
        **kwargs: Arguments of DefaultGenericWebdatasetFactory.
    """

    _decoder: Callable[[dict[str, Any]], dict[str, Any]] | None

    def __init__(
        self,
        path: Any,
        *,
        decoder: Callable[[dict[str, Any]], dict[str, Any]] | None = DEFAULT_DECODER,
        auto_decode: bool = True,
        image_decode: str | None = None,
        av_decode: str | None = None,
        video_decode_audio: bool | None = None,
        guess_content: bool | None = None,
        ignore_decoder_errors: bool = False,
        **kwargs: Any,
    ) -> None:
        given = {
            "image_decode": image_decode,
            "av_decode": av_decode,
            "video_decode_audio": video_decode_audio,
            "guess_content": guess_content,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if given:
            decoder = SampleDecoder(**given)  # type: ignore[arg-type]
        self._decoder = decoder if auto_decode else None
        super().__init__(path, **kwargs)

    def load_sample(self, sample: dict[str, Any]) -> _T_sample:
        if self._decoder is not None:
            decoded = self._decoder(sample)
            sample = {name: plain_bytes(value) for name, value in decoded.items()}
        return super().load_sample(sample)

    def config(self) -> dict[str, Any]:
        decoder = self._decoder.config() if isinstance(self._decoder, SampleDecoder) else {}
        return {**super().config(), **decoder}


class StandardWebdatasetFactory(DefaultDecoderWebdatasetFactory[_T_sample]):
    """Makes samples of the class `sample_type`: the class of datasets that name no other.

    Args:
        path: The folder of the dataset.
        sample_type: A Sample, or another class that takes the fields as keyword arguments.
        **kwargs: Arguments of DefaultDecoderWebdatasetFactory.
    """

    def __init__(self, path: Any, *, sample_type: type[_T_sample], **kwargs: Any) -> None:
        self.__sample_type__ = sample_type
        super().__init__(path, **kwargs)


class CrudeWebdataset(DefaultDecoderWebdatasetFactory[CrudeSample]):
    """Makes crude samples, for cookers.

    Args:
        path: The folder of the dataset.
        subflavors: Labels of the samples.
        part_filter: As in BaseWebdatasetFactory.
        **kwargs: Arguments of DefaultDecoderWebdatasetFactory.
    """

    __sample_type__ = CrudeSample

    def __init__(
        self,
        path: Any,
        *,
        subflavors: dict[str, Any] | None = None,
        part_filter: PartFilter | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.pop("sample_loader", None) is not None:
            raise ValueError("a CrudeWebdataset has no sample_loader")
        super().__init__(
            path,
            subflavors=subflavors,
            sample_loader=_unchanged,
            part_filter=_every_part if part_filter is None else part_filter,
            **kwargs,
        )


class JoinedWebdatasetFactory(BaseCoreDatasetFactory[_T_sample]):
    """A join of datasets. Only a base class for type checks: joins are native."""

    def as_file_store(self) -> Any:
        raise NotImplementedError("a join has no file store: open those of its datasets")


class CrudeJsonlDatasetFactory(BaseCoreDatasetFactory[CrudeSample], JsonlPreparator):
    """A JSONL file: prepares it, and opens it as a file store. Also a base class for type checks;
    samples are read natively.

    Args:
        path: The file.
        training: Accepted without effect, like the following.
        worker_config: Accepted without effect.
        shuffle_over_epochs: Accepted without effect.
        parallel_shard_iters: Accepted without effect.
        max_samples_per_sequence: Accepted without effect.
        subset: Accepted without effect.
        part_filter: Accepted without effect.
    """

    __sample_type__ = CrudeSample

    def __init__(
        self,
        path: Any,
        *,
        training: bool = False,
        worker_config: Any = None,
        shuffle_over_epochs: int | None = 1,
        parallel_shard_iters: int | None = None,
        max_samples_per_sequence: int | None = None,
        subset: Any = None,
        part_filter: Callable[[str], bool] | None = None,
    ) -> None:
        self.path = _epath(path)
        self.paths = [self.path]
        self.training = training
        self.worker_config = worker_config
        self.shuffle_over_epochs = shuffle_over_epochs
        self.parallel_shard_iters = parallel_shard_iters
        self.max_samples_per_sequence = max_samples_per_sequence
        self.subset = subset
        self.part_filter = part_filter

    def as_file_store(self) -> JsonlFileStore:
        return JsonlFileStore(os.fspath(self.path))


class DefaultCrudeJsonlDatasetFactory(CrudeJsonlDatasetFactory):
    """As CrudeJsonlDatasetFactory.

    Args:
        path: The file.
        subflavors: Labels of the samples.
        **kwargs: Arguments of CrudeJsonlDatasetFactory. A decoder is accepted without effect.
    """

    def __init__(
        self, path: Any, *, subflavors: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        kwargs.pop("decoder", None)
        super().__init__(path, **kwargs)
        self.subflavors = subflavors

    def config(self) -> dict[str, Any]:
        return {**super().config(), "subflavors": self.subflavors}


def _epath(path: Any) -> Any:
    return EPath(path) if isinstance(path, (str, pathlib.PurePath)) else path


def plain_bytes(value: Any) -> Any:
    """A part as bytes, as functions written for Energon expect it."""
    return bytes(value) if isinstance(value, _core.Buffer) else value


def _mapped_fields(
    fields: Mapping[str, list[list[str]]], sample: dict[str, Any]
) -> dict[str, Any]:
    return {name: field_access(sample, field) for name, field in fields.items()}


def _unchanged(sample: dict[str, Any]) -> dict[str, Any]:
    return sample


def _every_part(part: str) -> bool:
    return True


@functools.lru_cache(maxsize=256)
def _declared(kind: Any) -> frozenset[str] | None:
    """The fields of a dataclass that lacks those of every sample, else None."""
    if not dataclasses.is_dataclass(kind):
        return None
    names = frozenset(field.name for field in dataclasses.fields(kind))
    return None if names.issuperset(_OWN) else names


def _taken(kind: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Without the fields of every sample that a dataclass does not declare."""
    declared = _declared(kind)
    if declared is None:
        return fields
    return {name: value for name, value in fields.items() if name in declared or name not in _OWN}
