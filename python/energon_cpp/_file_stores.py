"""Access by name to the files of a prepared dataset, a folder or a JSONL file."""

from __future__ import annotations

import abc
import os
from typing import Any, Generic, TypeVar

from . import _core
from ._shard_paths import path_text
from .decoder import FileStoreDecoder
from .media import MediaMetadataBase, deserialize_media_metadata
from .source_info import SourceInfo, add_source_info

T = TypeVar("T", covariant=True)


class FileStore(abc.ABC, Generic[T]):
    """Base class of file stores."""

    @abc.abstractmethod
    def __getitem__(self, key: str) -> tuple[T, SourceInfo]:
        """Returns the file and its source.

        Raises:
            NotFoundError: The file does not exist. This is also a KeyError.
        """

    def get(self, key: str, sample: Any = None) -> T:
        """Returns the file and adds its source to `sample`."""
        data, source = self[key]
        add_source_info(sample, source)
        return data

    @abc.abstractmethod
    def get_path(self) -> str:
        """Returns the path of the store's folder or file."""

    def get_media_metadata(self, key: str) -> MediaMetadataBase:
        """Returns the metadata that `energon prepare-media` stored, without reading the file.

        Raises:
            KeyError: The file does not exist, or is not a media file.
            NotImplementedError: The store has no media metadata.
        """
        raise NotImplementedError(f"a {type(self).__name__} has no media metadata")


class _NativeFileStore(FileStore[Any]):
    """Base class of the native stores. Thread-safe. Each process opens its store at first
    access."""

    _kind = ""

    def __init__(self, path: str | os.PathLike[str], cache_dir: str | None = None) -> None:
        self._native = _core.NativeStore(self._kind, os.path.abspath(path_text(path)), cache_dir)

    def __getitem__(self, key: str) -> tuple[Any, SourceInfo]:
        return self._native.get(key)

    def get_path(self) -> str:
        return self._native.path

    def get_media_metadata(self, key: str) -> MediaMetadataBase:
        return make_media(self._native.media(key), key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_path()!r})"


class WebdatasetFileStore(_NativeFileStore):
    """Parts of a prepared dataset by "key.part", each a Buffer."""

    _kind = "webdataset"


class JsonlFileStore(_NativeFileStore):
    """Lines of a JSONL file by their index: "3" or "3.json"."""

    _kind = "jsonl"


class SystemFileStore(_NativeFileStore):
    """Files by their path relative to `base_dir`, or by absolute path if it is None."""

    _kind = "folder"

    def __init__(self, base_dir: str | os.PathLike[str] | None = None) -> None:
        super().__init__("/" if base_dir is None else base_dir)
        self.base_dir = base_dir

    def __getitem__(self, key: str) -> tuple[Any, SourceInfo]:
        return super().__getitem__(self._name(key))

    def get_media_metadata(self, key: str) -> MediaMetadataBase:
        return super().get_media_metadata(self._name(key))

    def _name(self, key: str) -> str:
        return key.lstrip("/") if self.base_dir is None else key


class DecodeFileStore(FileStore[Any]):
    """The files of another store, decoded according to their names."""

    def __init__(self, inner: FileStore[Any], *, decoder: FileStoreDecoder) -> None:
        self._inner = inner
        self.decoder = decoder

    def __getitem__(self, fname: str) -> tuple[Any, SourceInfo]:
        data, source = self._inner[fname]
        return self.decoder.decode(fname, data), source

    def get_path(self) -> str:
        return self._inner.get_path()

    def get_media_metadata(self, key: str) -> MediaMetadataBase:
        return self._inner.get_media_metadata(key)

    def __repr__(self) -> str:
        return f"DecodeFileStore({self._inner!r}, decoder={self.decoder!r})"


class PrimaryFileStore(FileStore[T]):
    """The files of another store. A name that begins with a dot is a part of the sample
    `current_key`."""

    def __init__(self, inner: FileStore[T], current_key: str) -> None:
        self._inner = inner
        self._current_key = current_key

    def __getitem__(self, key: str) -> tuple[T, SourceInfo]:
        return self._inner[self._name(key)]

    def get_path(self) -> str:
        return self._inner.get_path()

    def get_media_metadata(self, key: str) -> MediaMetadataBase:
        return self._inner.get_media_metadata(self._name(key))

    def _name(self, key: str) -> str:
        return self._current_key + key if key.startswith(".") else key


def make_media(row: tuple[str, str] | None, key: str) -> MediaMetadataBase:
    if row is None:
        raise KeyError(f"'{key}' is not an image, sound or video, or could not be read")
    return deserialize_media_metadata(*row)


def open_store(kind: str, path: str) -> FileStore[Any]:
    """Opens the store of an auxiliary dataset of a metadataset."""
    if kind == "folder":
        return SystemFileStore(path)
    return JsonlFileStore(path) if kind == "jsonl" else WebdatasetFileStore(path)
