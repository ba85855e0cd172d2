"""Files that are read on demand: Lazy, and the cache pools that create Lazy objects."""

from __future__ import annotations

import abc
import collections
import os
import pathlib
import pickle
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar

from . import _core
from ._explained_options import checks_options
from ._file_stores import DecodeFileStore, FileStore
from ._shard_paths import path_text
from .source_info import SourceInfo, add_source_info

if TYPE_CHECKING:
    import concurrent.futures

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
    """A file that a cache reads in the background.

    Attributes:
        entry: The place of the file in the cache, which all references to the file share.
    """

    def __init__(self, ds: Any, fname: str, pool: FileStoreCachePool, entry: CacheEntry) -> None:
        super().__init__(ds, fname, pool)
        self.entry = entry
        self._data: Any = None
        self._source: SourceInfo | None = None
        self._process = os.getpid()

    def get(self, sample: Any = None) -> Any:
        """Returns the file, decoded by its store, and adds its source to `sample`."""
        if self._source is None:
            self._data, self._source = self.pool._taken(self.entry)
        add_source_info(sample, self._source)
        return self._data

    def __del__(self) -> None:
        if getattr(self, "_source", self) is None and self._process == os.getpid():
            self.pool._release(self.entry)


class NativeFileLazy(FileCacheLazy):
    """A file that the native cache of the worker reads."""

    def __init__(self, ds: Any, fname: str, pool: Any, native: _core.NativeLazy) -> None:
        Lazy.__init__(self, ds, fname, pool)
        self._native = native

    def get(self, sample: Any = None) -> Any:
        """Returns the file, decoded by its store. Does not add the source to `sample`."""
        return self.ds._decoded_lazy(self._native, self.fname)

    def __del__(self) -> None:
        pass  # the native cache counts the references


class CacheFileLazy(Lazy[T]):
    """Data in a file of the cache, which is removed at the first get() or with this object.

    Attributes:
        cache_path: The file, or None after the first get().
    """

    def __init__(self, name: str, pool: FileStoreCachePool, cache_path: pathlib.Path) -> None:
        super().__init__(None, name, pool)
        self.cache_path: pathlib.Path | None = cache_path
        self._process = os.getpid()

    def get(self, sample: Any = None) -> T:
        if self.cache_path is not None:
            self._data: T = pickle.loads(self.cache_path.read_bytes())
            self.cache_path.unlink()
            self.cache_path = None
        return self._data

    def __del__(self) -> None:
        if getattr(self, "cache_path", None) is not None and self._process == os.getpid():
            self.cache_path.unlink(missing_ok=True)  # type: ignore[union-attr]

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


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


class CacheEntry:
    """A file in a cache.

    Attributes:
        refcount: Number of references that have not been used.
        send_to_cache_future: Done when the file is in the cache: True, or False for a file that is
            larger than the cache.
        data_size: Bytes in the cache.
    """

    def __init__(self, ds: FileStore[Any], fname: str) -> None:
        import concurrent.futures  # takes long

        self.ds = ds
        self.fname = fname
        self.refcount = 0
        self.send_to_cache_future: concurrent.futures.Future[bool] = concurrent.futures.Future()
        self.data_size = 0
        self.source: SourceInfo | None = None
        self.is_pickled = False
        self.path: pathlib.Path | None = None  # set while the file is in the cache
        self.is_deferred = False  # a thread that waits for space goes on with other files


class FileStoreCachePool(CachePool):
    """A cache of files on a local disk. Passed to a loader, the options of the cache that each
    worker has.

    A pool that a program uses itself reads files of its stores in threads, in the order of
    get_lazy(), until the cache is full; a file leaves it when all references to it were used.

    Args:
        parent_cache_dir: Folder in which the cache is created; None means the system's temporary
            folder.
        num_workers: Threads that read files.
        max_cache_size_gbytes: Disk space of the cache in GiB.
        max_cache_count: Number of files in the cache.
        method: "raw" keeps files as stored, and get() decodes them; "pickle" keeps decoded objects,
            only in a pool that the program uses itself.
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
        if method not in ("raw", "pickle"):
            raise ValueError(f"method is {method!r}, expected 'raw' or 'pickle'")
        self.parent_cache_dir = parent_cache_dir
        self.num_workers = num_workers
        self.max_cache_size_gbytes = max_cache_size_gbytes
        self.max_cache_size = int(max_cache_size_gbytes * 2**30)
        self.max_cache_count = max_cache_count
        self.method = method
        self._begin()

    def _begin(self) -> None:
        """An empty cache of this process, without a folder or threads."""
        self._process = os.getpid()
        self._folder: pathlib.Path | None = None
        self._files = 0  # written so far, for their names
        self._entries: dict[tuple[int, str], CacheEntry] = {}
        self._queue: collections.deque[CacheEntry] = collections.deque()
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self.current_cache_count = 0
        self.current_cache_size = 0

    def _own(self) -> None:
        if self._process != os.getpid():  # a fork: files and threads belong to the parent
            self._begin()

    @property
    def cache_dir(self) -> pathlib.Path:
        """The folder of the cache in this process, which ends with the pool or close()."""
        import tempfile  # takes long

        self._own()
        with self._changed:
            if self._folder is None:
                parent = self.parent_cache_dir
                made = tempfile.mkdtemp(prefix="energon-cache-", dir=parent and path_text(parent))
                self._folder = pathlib.Path(made)
                weakref.finalize(self, _remove, self._folder, self._process)
            return self._folder

    def get(self, ds: FileStore[Any], fname: str, sample: Any = None) -> Any:
        return ds.get(fname, sample)

    def get_lazy(self, ds: FileStore[Any], fname: str) -> Lazy[Any]:
        """Returns a reference to the file, which is read in the background."""
        native = getattr(ds, "_native_lazy", None)
        if native is not None:
            return native(fname, self)  # type: ignore[no-any-return]
        self.cache_dir  # made here, in the thread of the caller
        with self._changed:
            self._start_threads()
            entry = self._entries.get((id(ds), fname))
            if entry is None:
                entry = self._entries[id(ds), fname] = CacheEntry(ds, fname)
                self._queue.append(entry)
                self._changed.notify_all()
            entry.refcount += 1
        return FileCacheLazy(ds, fname, self, entry)

    def to_cache(self, data: T, name: str) -> Lazy[T]:
        """Returns a reference to `data`, which is written to a file. It does not count towards the
        limits."""
        return CacheFileLazy(name, self, self._write(pickle.dumps(data)))

    def close(self) -> None:
        """Ends the threads and removes the files. The native cache of a worker ends with the
        worker."""
        self._own()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        if self._folder is not None:
            _remove(self._folder, self._process)
        self._begin()

    # --- What references call ---

    def _taken(self, entry: CacheEntry) -> tuple[Any, SourceInfo]:
        """Returns the file of a reference, and releases the reference. A file that is not in the
        cache is read from its store, and the thread reads it later for the other references."""
        with self._changed:
            path = entry.path
            if path is None and entry.refcount > 1:
                entry.is_deferred = True
                if entry in self._queue:
                    self._queue.remove(entry)
                    self._queue.append(entry)
                    entry.is_deferred = False
                self._changed.notify_all()
        if path is None:
            data, source = entry.ds[entry.fname]
        else:
            assert entry.source is not None
            data, source = self._decoded(entry, path.read_bytes()), entry.source
        self._release(entry)
        return data, source

    def _release(self, entry: CacheEntry) -> None:
        with self._changed:
            entry.refcount -= 1
            if entry.refcount > 0:
                return
            self._entries.pop((id(entry.ds), entry.fname), None)
            if entry in self._queue:
                self._queue.remove(entry)
            if entry.path is not None:
                entry.path.unlink(missing_ok=True)
                entry.path = None
                self.current_cache_count -= 1
                self.current_cache_size -= entry.data_size
            self._changed.notify_all()

    # --- Threads ---

    def _start_threads(self) -> None:
        if not self._threads:
            target = _ThreadTarget(self)
            self._threads = [
                threading.Thread(target=target, daemon=True, name="energon cache")
                for _ in range(max(1, self.num_workers))
            ]
            for thread in self._threads:
                thread.start()

    def _read_next(self) -> bool:
        """Caches the next file. Returns False after close()."""
        with self._changed:
            if not self._queue and not self._is_closed:
                self._changed.wait(_POLL_SECONDS)
            if self._is_closed:
                return False
            if not self._queue:
                return True
            entry = self._queue.popleft()
        try:
            data, source = self._to_store(entry)
        except Exception as error:  # raised again by get()
            entry.send_to_cache_future.set_exception(error)
            return True
        with self._changed:
            while not self._fits(entry, len(data)):
                self._changed.wait()
            if self._is_closed or entry.refcount == 0:
                return not self._is_closed
            if entry.is_deferred:
                entry.is_deferred = False
                self._queue.append(entry)
                return True
            if len(data) > self.max_cache_size:
                entry.send_to_cache_future.set_result(False)
                return True
            entry.data_size, entry.source = len(data), source
            entry.path = self._write(data)
            self.current_cache_count += 1
            self.current_cache_size += entry.data_size
        entry.send_to_cache_future.set_result(True)
        return True

    def _fits(self, entry: CacheEntry, size: int) -> bool:
        """Whether the thread that read the file can go on."""
        if self._is_closed or entry.is_deferred or entry.refcount == 0:
            return True
        if size > self.max_cache_size:
            return True
        has_space = self.current_cache_size + size <= self.max_cache_size
        return has_space and self.current_cache_count < self.max_cache_count

    # --- Files ---

    def _to_store(self, entry: CacheEntry) -> tuple[bytes, SourceInfo]:
        ds = entry.ds
        if self.method == "raw" and isinstance(ds, DecodeFileStore):
            ds = ds._inner
        data, source = ds[entry.fname]
        is_bytes = isinstance(data, (bytes, bytearray, _core.Buffer))
        entry.is_pickled = self.method == "pickle" or not is_bytes
        return pickle.dumps(data) if entry.is_pickled else bytes(data), source

    def _decoded(self, entry: CacheEntry, data: bytes) -> Any:
        value = pickle.loads(data) if entry.is_pickled else data
        if self.method == "raw" and isinstance(entry.ds, DecodeFileStore):
            return entry.ds.decoder.decode(entry.fname, value)
        return value

    def _write(self, data: bytes) -> pathlib.Path:
        folder = self.cache_dir
        with self._changed:
            self._files += 1
            path = folder / str(self._files)
        path.write_bytes(data)
        return path

    def _options(self) -> dict[str, Any]:
        if self.method != "raw":
            raise ValueError(f"method={self.method!r}: the workers of a loader cache files as "
                             "stored, use 'raw'")  # fmt: skip
        options: dict[str, Any] = {
            "cache_threads": self.num_workers,
            "cache_max_bytes": self.max_cache_size,
            "cache_max_files": self.max_cache_count,
        }
        if self.parent_cache_dir is not None:
            options["cache_folder"] = path_text(self.parent_cache_dir)
        return options


_POLL_SECONDS = 1.0  # after which the threads of a pool that nothing refers to end


class _ThreadTarget:
    """What a thread of a pool runs, without keeping the pool alive."""

    def __init__(self, pool: FileStoreCachePool) -> None:
        self._pool = weakref.ref(pool)

    def __call__(self) -> None:
        while True:
            pool = self._pool()
            if pool is None or not pool._read_next():
                return
            del pool


def _remove(folder: pathlib.Path, process: int) -> None:
    import shutil  # takes long

    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


class _WorkerPool(FileStoreCachePool):
    """The pool of a worker: the native cache reads the files of stores that were passed to a cook
    function, others are read at the first get(), and data stays in memory."""

    def get_lazy(self, ds: FileStore[Any], fname: str) -> Lazy[Any]:
        native = getattr(ds, "_native_lazy", None)
        return DirectLazy(ds, fname, self) if native is None else native(fname, self)

    def to_cache(self, data: T, name: str) -> Lazy[T]:
        return MockLazy(name, lambda _: data)

    def close(self) -> None:
        """Does nothing: the cache of a worker ends with the worker."""


# The pool of this worker, for cook functions and TaskEncoder.cache.
worker_pool = _WorkerPool()
