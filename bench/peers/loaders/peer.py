"""The interface of loaders for compare_python.py: each has a file NAME_loader.py with a class Loader."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any, Iterator

import numpy as np

import python_data


@dataclasses.dataclass(frozen=True)
class Job:
    """A task for a loader. Works:

    "text", "image", "blob": the bytes of all parts. "decoded": uint8 pixels of the pictures.
    "identity": text, through a Python function that returns each sample as it is.
    "arrays": text, through one that makes two NumPy arrays of each sample.
    "tensors": two tensors per sample, stacked.
    "tokens": the tokens of text, int32, by Hugging Face's tokenizers in a Python function.
    """

    loader: str
    work: str
    variant: str
    workers: int
    batch_size: int
    data: str
    samples: int

    @property
    def spec(self) -> python_data.DataSet:
        kinds = {"decoded": "image", "identity": "text", "arrays": "text", "tokens": "words"}
        return python_data.data_set_of(kinds.get(self.work, self.work), self.samples)

    @property
    def folder(self) -> pathlib.Path:
        return self.spec.folder(pathlib.Path(self.data))

    def tokenizer(self) -> Any:
        """The tokenizer of "tokens". It may use threads, also in workers: a fork that has used them
        would otherwise do without."""
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        import tokenizers

        return tokenizers.Tokenizer.from_file(
            str(python_data.tokenizer_path(pathlib.Path(self.data)))
        )

    def index(self) -> dict[str, Any]:
        """Where each sample is stored (python_data.index_of)."""
        return python_data.index_of(pathlib.Path(self.data), self.spec)


class Peer:
    """A loader at its best settings, which the docstring of its file describes.

    WORKS: {work: variants}; several variants are measured if it is not clear which is best.
    "bytes": a batch has a list of bytes for each part. "tensor": one buffer with the bytes of all
    parts, which a worker shares with the trainer instead of pickling it; see Joined.
    READS: which threads read, for the report.
    """

    WORKS: dict[str, tuple[str, ...]] = {}
    READS = "one thread per worker, or the trainer's without workers"
    MODULES: tuple[str, ...] = ()  # modules that it needs; the version of the first is reported
    FORMAT = ""  # that it converts the data to (python_data.converted), or '' if it reads the tars
    RESUMES = False  # has save() and restore()
    MANY_WORKERS = True  # is not the same with every number of workers

    def __init__(self, job: Job) -> None:
        self.job = job

    @classmethod
    def data_folder(cls, job: Job) -> pathlib.Path:
        """The folder of the data that it reads."""
        return python_data.converted_folder(job.folder, cls.FORMAT) if cls.FORMAT else job.folder

    def batches(self) -> Iterator[Any]:
        """Endless batches."""
        raise NotImplementedError

    def columns(self, batch: Any) -> list[Any]:
        """The data of a batch without a copy: lists of buffers, or buffers, which touch() reads."""
        raise NotImplementedError

    def count(self, batch: Any) -> int:
        """Samples in the batch."""
        raise NotImplementedError

    def samples(self, batch: Any) -> list[list[Any]]:
        """The parts of each sample; for "decoded", a picture (height, width, 3). Used to check the
        contents, so it may be slow."""
        columns = self.columns(batch)
        return [list(parts) for parts in zip(*columns)]

    def save(self) -> Any:
        raise NotImplementedError

    def restore(self, state: Any) -> None:
        """Called before the first batch."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the workers."""


BYTES = ("bytes", "tensor")


class Joined(Peer):
    """The "tensor" variant of a loader whose batches are (buffer, sizes of all parts)."""

    def is_joined(self) -> bool:
        return self.job.variant == "tensor"

    def columns(self, batch: Any) -> list[Any]:
        return [np.asarray(batch[0])] if self.is_joined() else list(batch)

    def count(self, batch: Any) -> int:
        if self.is_joined():
            return len(batch[1]) // len(self.job.spec.parts)
        return len(batch[0])

    def samples(self, batch: Any) -> list[list[Any]]:
        if not self.is_joined():
            return super().samples(batch)
        parts = split(np.asarray(batch[0]), batch[1])
        count = len(self.job.spec.parts)
        return [parts[i : i + count] for i in range(0, len(parts), count)]


def split(buffer: Any, sizes: Any) -> list[bytes]:
    """Splits a buffer into consecutive parts."""
    data, parts, place = memoryview(buffer).cast("B"), [], 0
    for size in sizes:
        parts.append(bytes(data[place : place + int(size)]))
        place += int(size)
    return parts


def token_rows(values: Any, offsets: Any) -> list[list[Any]]:
    """The tokens of each sample of a ragged batch."""
    ends = [int(offset) for offset in offsets]
    return [[values[begin:end].tobytes()] for begin, end in zip(ends, ends[1:])]


def channels_last(pictures: Any) -> list[list[Any]]:
    """Pictures (n, 3, height, width), one by one as (height, width, 3)."""
    return [[picture.transpose(1, 2, 0)] for picture in pictures]
