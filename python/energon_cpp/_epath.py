"""EPath, the path class of Energon, for files on this machine or a mounted file system.

`dss://NAME@VERSION/file` is the file NAME/VERSION/file below the folder that the environment
variable NVDATASET_CACHE_DIR names.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
from typing import IO, Any, Iterator, Literal, Union, overload

from ._errors import UnsupportedError

#: The profile of local paths: `msc://__filesystem__/data` is `/data`.
DEFAULT_PROFILE_NAME = "__filesystem__"

_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")

_DATASET = re.compile("dss://([^/@]+)@([^/@]+)(?:/(.*))?", re.DOTALL)

AnyPath = Union[str, "os.PathLike[str]"]

#: The folder of datasets with addresses dss://; None means that there is none.
NVDATASET_CACHE_DIR: EPath | None = None


@functools.total_ordering
class EPath:
    """An absolute path without `.` and `..`. A relative path starts at the current folder. Equal to
    a pathlib.Path with the same parts.

    Attributes:
        internal_path: The path on this machine.

    Raises:
        UnsupportedError: The path is the address of a server, such as msc:// or s3://.
        ValueError: The path leads above the root, or an address dss:// has no version.
    """

    __slots__ = ("internal_path", "_dataset")

    internal_path: pathlib.PurePosixPath
    _dataset: tuple[str, pathlib.PurePosixPath] | None  # of dss://: the address, and its folder

    def __init__(self, initial_path: AnyPath) -> None:
        self._dataset = None
        if isinstance(initial_path, EPath):
            self.internal_path, self._dataset = initial_path.internal_path, initial_path._dataset
            return
        path = os.fspath(initial_path)
        if not isinstance(initial_path, os.PathLike):
            if path.startswith("dss://"):
                self._dataset, path = _dataset_of(path)
            else:
                path = _local_part(path)
        self.internal_path = _resolved(os.path.join(os.getcwd(), path))
        if self._dataset and not self.internal_path.is_relative_to(self._dataset[1]):
            raise ValueError(f"the path '{initial_path}' leads above its dataset")

    def _at(self, path: AnyPath) -> EPath:
        """Another path on this machine, which stays an address dss:// below the same dataset."""
        other = EPath(path)
        if self._dataset and other.internal_path.is_relative_to(self._dataset[1]):
            other._dataset = self._dataset
        return other

    # --- The path itself ---

    @property
    def profile(self) -> str:
        return DEFAULT_PROFILE_NAME

    @property
    def name(self) -> str:
        return self.internal_path.name

    @property
    def display_name(self) -> str:
        return self.name

    @property
    def parent(self) -> EPath:
        return self._at(self.internal_path.parent)

    @property
    def url(self) -> str:
        if self._dataset is None:
            return str(self.internal_path)
        address, folder = self._dataset
        inner = str(self.internal_path.relative_to(folder))
        return address if inner == "." else f"{address}/{inner}"

    def is_local(self) -> bool:
        """True: other paths are not supported."""
        return True

    def local_path(self) -> pathlib.Path:
        return pathlib.Path(self.internal_path)

    def with_suffix(self, suffix: str) -> EPath:
        return self._at(self.internal_path.with_suffix(suffix))

    def relative_to(self, other: AnyPath) -> str:
        """Returns the path below `other`. Raises ValueError unless it is below."""
        return str(self.internal_path.relative_to(EPath(other).internal_path))

    def __truediv__(self, other: AnyPath) -> EPath:
        text = os.fspath(other)
        is_whole = isinstance(other, str) and _ADDRESS.match(text)
        if is_whole:
            return EPath(text)
        return self._at(pathlib.PurePosixPath(os.path.join(self.internal_path, text)))

    def __fspath__(self) -> str:
        return str(self.internal_path)

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"EPath({self.url!r})"

    def __reduce__(self) -> tuple[type[EPath], tuple[str]]:
        return EPath, (self.url,)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, pathlib.PurePath):
            return self.internal_path == pathlib.PurePosixPath(other)
        return isinstance(other, EPath) and self.internal_path == other.internal_path

    def __lt__(self, other: EPath) -> bool:
        if not isinstance(other, EPath):
            return NotImplemented
        return self.internal_path < other.internal_path

    def __hash__(self) -> int:
        return hash(self.internal_path)

    # --- The file or folder ---

    def is_file(self) -> bool:
        return os.path.isfile(self)

    def is_dir(self) -> bool:
        return os.path.isdir(self)

    def size(self) -> int:
        """Size in bytes."""
        return os.path.getsize(self)

    def stat(self) -> os.stat_result:
        return os.stat(self)

    @overload
    def open(
        self,
        mode: Literal["r", "w"] = "r",
        block_size: int | None = None,
        prefetch_file: bool = False,
    ) -> IO[str]: ...

    @overload
    def open(
        self,
        mode: Literal["rb", "wb"],
        block_size: int | None = None,
        prefetch_file: bool = False,
    ) -> IO[bytes]: ...

    def open(
        self, mode: str = "r", block_size: int | None = None, prefetch_file: bool = False
    ) -> IO[Any]:
        """Opens the file. Creates missing folders to write it.

        Args:
            mode: "r", "rb", "w" or "wb". Text is UTF-8.
            block_size: Accepted without effect.
            prefetch_file: Accepted without effect.
        """
        if "w" in mode:
            self.parent.mkdir()
        return open(self, mode, encoding=None if "b" in mode else "utf-8")

    def read_text(self) -> str:
        with self.open() as file:
            return file.read()

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            return file.read()

    def write_text(self, text: str) -> None:
        with self.open("w") as file:
            file.write(text)

    def write_bytes(self, data: bytes) -> None:
        with self.open("wb") as file:
            file.write(data)

    def copy(self, target: AnyPath) -> None:
        """Copies the file, or the files of the folder."""
        import shutil  # takes long

        target = EPath(target)
        if self.is_file():
            target.parent.mkdir()
            shutil.copyfile(self, target)
        else:
            shutil.copytree(self, target, copy_function=shutil.copyfile, dirs_exist_ok=True)

    def move(self, target: AnyPath) -> None:
        """Moves the file or folder. Replaces an existing file."""
        import shutil

        EPath(target).parent.mkdir()
        shutil.move(self, EPath(target).url)

    def unlink(self) -> None:
        """Removes the file."""
        os.unlink(self)

    def mkdir(self, exist_ok: bool = True, parents: bool = False) -> None:
        """Creates the folder and, whether or not `parents` is set, those above it."""
        os.makedirs(self, exist_ok=exist_ok)

    def walk(self) -> Iterator[EPath]:
        """Returns the files in the folder and below it. Follows links to folders."""
        for folder, _, files in os.walk(self, followlinks=True):
            for name in files:
                yield self._at(os.path.join(folder, name))

    def glob(self, pattern: str) -> Iterator[EPath]:
        """Returns the files and folders below this path that match, such as "**/*.tar". A wildcard
        does not match a leading dot."""
        import glob

        place = glob.escape(os.fspath(self))
        for found in glob.iglob(os.path.join(place, pattern), recursive=True):
            yield self._at(found)


def _local_part(path: str) -> str:
    """The path without the scheme of a local file."""
    if not _ADDRESS.match(path):
        return path
    scheme, _, rest = path.partition("://")
    if scheme == "file":
        return rest
    profile, _, inner = rest.partition("/")
    if scheme == "msc" and profile in (DEFAULT_PROFILE_NAME, "default"):
        return f"/{inner}"
    raise UnsupportedError(
        f"'{path}' is an address; paths must be on this machine or a mounted file system: copy or "
        "mount the data, and pass its path"
    )


class _NoVersionError(ValueError, AssertionError):
    """Also an AssertionError, which Energon raises."""


def _dataset_of(address: str) -> tuple[tuple[str, pathlib.PurePosixPath], str]:
    """The dataset of an address dss:// with its folder, and the path on this machine."""
    match = _DATASET.fullmatch(address)
    if match is None:
        raise _NoVersionError(
            f"'{address}': DSS paths must include a dataset version separated by '@', as in "
            "dss://name@version"
        )
    name, version, inner = match.groups()
    root = NVDATASET_CACHE_DIR or os.environ.get("NVDATASET_CACHE_DIR")
    if not root:
        raise UnsupportedError(
            f"'{address}' needs the environment variable NVDATASET_CACHE_DIR, the folder that has "
            f"the dataset as {name}/{version}"
        )
    folder = _resolved(os.path.join(os.getcwd(), root, name, version))
    return (f"dss://{name}@{version}", folder), os.path.join(folder, inner or "")


def _resolved(path: str) -> pathlib.PurePosixPath:
    parts: list[str] = []
    for part in pathlib.PurePosixPath(path).parts[1:]:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            raise ValueError(f"the path '{path}' leads above the root")
    return pathlib.PurePosixPath("/", *parts)
