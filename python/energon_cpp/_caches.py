"""Files that are read later: Lazy, and the cache pools that make them."""

from __future__ import annotations

import abc
import os
from typing import Any, Callable, Generic, TypeVar

from . import _core
from ._file_stores import FileStore
from ._shard_paths import path_text

T = TypeVar("T")


class Lazy(abc.ABC, Generic[T]):
    """A reference to the file `fname` of the store `ds`. Lives in the process that made it: call
    get() in encode_sample or postencode_sample."""

    def __init__(self, ds: Any, fname: str, pool: Any) -> None:
        self.ds = ds
        self.fname = fname
        self.pool = pool

    @abc.abstractmethod
    def get(self, sample: Any = None) -> T:
        """The file."""

    def __hash__(self) -> int:
        return hash((id(self.ds), self.fname))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lazy) and self.ds is other.ds and self.fname == other.fname

    def __reduce__(self) -> Any:
        raise TypeError(
            f"the lazy file '{self.fname}' cannot leave the worker that made it: call get() in "
            "encode_sample or postencode_sample"
        )


class DirectLazy(Lazy[Any]):
    """Reads the store at the first get(), whose `sample` gets the source."""

    def get(self, sample: Any = None) -> Any:
        if not hasattr(self, "_data"):
            self._data = self.ds.get(self.fname, sample)
        return self._data


class FileCacheLazy(Lazy[Any]):
    """A file that the cache of the worker reads in the background."""

    def __init__(self, ds: Any, fname: str, pool: Any, native: _core.NativeLazy) -> None:
        super().__init__(ds, fname, pool)
        self._native = native

    def get(self, sample: Any = None) -> Any:
        """Decoded as the store does. Not listed in the sources of `sample`."""
        return self.ds._decoded_lazy(self._native, self.fname)


class MockLazy(Lazy[T]):
    """What get_fn(fname) returns."""

    def __init__(self, fname: str, get_fn: Callable[[str], T]) -> None:
        super().__init__(None, fname, None)
        self.get_fn = get_fn

    def get(self, sample: Any = None) -> T:
        return self.get_fn(self.fname)

    def __hash__(self) -> int:
        return hash((self.fname, self.get_fn))

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, MockLazy) and self.fname == other.fname
        return same and self.get_fn == other.get_fn  # type: ignore[attr-defined]


class CachePool(abc.ABC):
    """Base of cache pools."""

    @abc.abstractmethod
    def get(self, ds: FileStore[Any], fname: str, sample: Any = None) -> Any:
        """The file, now."""

    @abc.abstractmethod
    def get_lazy(self, ds: FileStore[Any], fname: str) -> Lazy[Any]:
        """A reference to the file."""

    def to_cache(self, data: T, name: str) -> Lazy[T]:
        """A reference to `data`, which stays in memory."""
        return MockLazy(name, lambda _: data)

    def close(self) -> None:
        """Nothing: a pool ends with its worker."""


class NoCachePool(CachePool):
    """Caches nothing: references read their store at the first get()."""

    def get(self, ds: FileStore[Any], fname: str, sample: Any = None) -> Any:
        return ds.get(fname, sample)

    def get_lazy(self, ds: FileStore[Any], fname: str) -> Lazy[Any]:
        return DirectLazy(ds, fname, self)


class FileStoreCachePool(CachePool):
    """Options of the cache on a local disk that each worker has: give it to the loader.

    parent_cache_dir: the folder for it; None: the system's temporary folder. num_workers: threads
    that read. method: only "raw", files as they are stored; they are decoded by get().
    """

    def __init__(
        self,
        *,
        parent_cache_dir: str | os.PathLike[str] | None = None,
        num_workers: int = 8,
        max_cache_size_gbytes: float = 1024,
        max_cache_count: int = 10_000_000,
        method: str = "raw",
    ) -> None:
        if method != "raw":
            raise NotImplementedError(f"method={method!r}: files are cached as stored, use 'raw'")
        self.parent_cache_dir = parent_cache_dir
        self.num_workers = num_workers
        self.max_cache_size_gbytes = max_cache_size_gbytes
        self.max_cache_count = max_cache_count

    def get(self, ds: FileStore[Any], fname: str, sample: Any = None) -> Any:
        return ds.get(fname, sample)

    def get_lazy(self, ds: FileStore[Any], fname: str) -> Lazy[Any]:
        """Of a store that a cook function got: a file that is read in the background. Of another
        store: a reference that reads it at the first get()."""
        native = getattr(ds, "_native_lazy", None)
        return DirectLazy(ds, fname, self) if native is None else native(fname, self)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "cache_threads": self.num_workers,
            "cache_max_bytes": int(self.max_cache_size_gbytes * 2**30),
            "cache_max_files": self.max_cache_count,
        }
        if self.parent_cache_dir is not None:
            options["cache_folder"] = path_text(self.parent_cache_dir)
        return options


# What cook functions and TaskEncoder.cache get: the pool of this worker.
worker_pool = FileStoreCachePool()
