"""Files that are read on demand: Lazy, and the cache pools that create Lazy objects."""

from __future__ import annotations

import abc
import os
from typing import Any, Callable, Generic, TypeVar

from . import _core
from ._explained_options import checks_options
from ._file_stores import FileStore
from ._shard_paths import path_text

T = TypeVar("T")


class Lazy(abc.ABC, Generic[T]):
    """A reference to the file `fname` of the store `ds`. Valid only in the process that created it:
    call get() in encode_sample or postencode_sample."""

    def __init__(self, ds: Any, fname: str, pool: Any) -> None:
        self.ds = ds
        self.fname = fname
        self.pool = pool

    @abc.abstractmethod
    def get(self, sample: Any = None) -> T:
        """Returns the file."""

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
    """Reads the store at the first get() and adds the source to its `sample`."""

    def get(self, sample: Any = None) -> Any:
        if not hasattr(self, "_data"):
            self._data = self.ds.get(self.fname, sample)
        return self._data


class FileCacheLazy(Lazy[Any]):
    """A file that the worker's cache reads in the background."""

    def __init__(self, ds: Any, fname: str, pool: Any, native: _core.NativeLazy) -> None:
        super().__init__(ds, fname, pool)
        self._native = native

    def get(self, sample: Any = None) -> Any:
        """Returns the file, decoded by its store. Does not add the source to `sample`."""
        return self.ds._decoded_lazy(self._native, self.fname)


class MockLazy(Lazy[T]):
    """A reference whose get() returns `get_fn(fname)`."""

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
    """Base class of cache pools."""

    @abc.abstractmethod
    def get(self, ds: FileStore[Any], fname: str, sample: Any = None) -> Any:
        """Reads the file immediately."""

    @abc.abstractmethod
    def get_lazy(self, ds: FileStore[Any], fname: str) -> Lazy[Any]:
        """Returns a reference to the file."""

    def to_cache(self, data: T, name: str) -> Lazy[T]:
        """Returns a reference to `data`, which stays in memory."""
        return MockLazy(name, lambda _: data)

    def close(self) -> None:
        """Does nothing: a pool ends with its worker."""


class NoCachePool(CachePool):
    """A pool without a cache: references read their store at the first get()."""

    def get(self, ds: FileStore[Any], fname: str, sample: Any = None) -> Any:
        return ds.get(fname, sample)

    def get_lazy(self, ds: FileStore[Any], fname: str) -> Lazy[Any]:
        return DirectLazy(ds, fname, self)


class FileStoreCachePool(CachePool):
    """Options of the cache that each worker has on a local disk. Pass them to the loader.

    Args:
        parent_cache_dir: Folder in which the cache is created; None means the system's temporary
            folder.
        num_workers: Threads that read files.
        max_cache_size_gbytes: Disk space of the cache in GiB.
        max_cache_count: Number of files in the cache.
        method: Only "raw": files are cached as stored, and get() decodes them.
    """

    @checks_options
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
        """Returns a reference to the file. Files of a store that was passed to a cook function are
        read in the background, others at the first get()."""
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


# The pool of this worker, for cook functions and TaskEncoder.cache.
worker_pool = FileStoreCachePool()
