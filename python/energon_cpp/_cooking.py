"""Calls cookers with the file stores of the sample's dataset."""

from __future__ import annotations

import inspect
from typing import Any, Callable

from . import _core
from ._caches import NativeFileLazy, worker_pool
from ._file_stores import FileStore, make_media
from .cooking import Cooker
from .decoder import SampleDecoder
from .media import MediaMetadataBase
from .source_info import SourceInfo


class CookStore(FileStore[Any]):
    """The files of an auxiliary dataset, or of the sample's own dataset (name=None), during one
    call of a cook function. Decodes files if the encoder has a decoder, and adds each file that it
    reads to the sample's sources."""

    def __init__(
        self, files: _core.CookFiles, name: str | None, decoder: SampleDecoder | None
    ) -> None:
        self._files = files
        self._name = name
        self._decoder = decoder
        self._part_decoder = None if decoder is None else decoder._native()

    def __getitem__(self, key: str) -> tuple[Any, SourceInfo]:
        data, source = self._files.get(self._name, key, self._part_decoder)
        return self._finished(key, data), source

    def get(self, key: str, sample: Any = None) -> Any:
        return self[key][0]

    def get_path(self) -> str:
        return self._files.path(self._name)

    def get_media_metadata(self, key: str) -> MediaMetadataBase:
        return make_media(self._files.media(self._name, key), key)

    def _finished(self, key: str, data: Any) -> Any:
        return data if self._decoder is None else self._decoder._av(key, data)

    def _native_lazy(self, fname: str, pool: Any) -> NativeFileLazy:
        return NativeFileLazy(self, fname, pool, self._files.lazy(self._name, fname))

    def _decoded_lazy(self, native: _core.NativeLazy, fname: str) -> Any:
        return self._finished(fname, native.get(fname, self._part_decoder))


class CookFunction:
    """Calls `cook`, or cook_crude_sample() of the encoder, with the stores that its parameters
    name."""

    def __init__(
        self, cooker: Cooker, decoder: SampleDecoder | None, cook_crude_sample: Any
    ) -> None:
        self._cooker = cooker
        self._decoder = decoder
        self._cook_crude_sample = cook_crude_sample
        self._wanted = None if cook_crude_sample is not None else _keywords_of(cooker.cook)

    def takes_files(self) -> bool:
        return self._wanted is None or bool(self._wanted)

    def __call__(self, sample: Any, files: _core.CookFiles | None = None) -> Any:
        stores = {} if files is None else self._stores(files)
        if self._cook_crude_sample is not None:
            return self._cook_crude_sample(sample, cooker=self._cooker, aux=stores)
        return self._cooker.cook(sample, **stores)

    def _stores(self, files: _core.CookFiles) -> dict[str, Any]:
        decoder = self._decoder
        wanted = self._wanted
        names = [name for name in files.aux_names if wanted is None or name in wanted]
        stores: dict[str, Any] = {name: CookStore(files, name, decoder) for name in names}
        if self._cooker.need_primary and "primary" not in stores:
            stores["primary"] = CookStore(files, None, decoder)
        if self._cooker.need_cache:
            stores["cache"] = worker_pool
        return stores


def _keywords_of(function: Callable[..., Any]) -> set[str] | None:
    """The names of the parameters after the sample; None means any name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):  # a function of an extension module
        return set()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}
