"""File stores and caches, as in Energon: FileStore and its subclasses, CachePool, Lazy."""

from ._caches import (
    CachePool,
    DirectLazy,
    FileCacheLazy,
    FileStoreCachePool,
    Lazy,
    MockLazy,
    NoCachePool,
)
from ._file_stores import (
    DecodeFileStore,
    FileStore,
    JsonlFileStore,
    PrimaryFileStore,
    SystemFileStore,
    WebdatasetFileStore,
)
from .decoder import FileStoreDecoder

__all__ = [
    "CachePool",
    "DecodeFileStore",
    "DirectLazy",
    "FileCacheLazy",
    "FileStore",
    "FileStoreCachePool",
    "FileStoreDecoder",
    "JsonlFileStore",
    "Lazy",
    "MockLazy",
    "NoCachePool",
    "PrimaryFileStore",
    "SystemFileStore",
    "WebdatasetFileStore",
]
