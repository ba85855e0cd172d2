"""grain over ArrayRecord files without compression, one made from each tar: a MapDataset in order whose
batches are made at map level, so that a batch is read by one call; worker processes if there are any.

"tensor": arrays of NumPy, which grain's workers put into shared memory.
"""

from __future__ import annotations

import pathlib
import struct
from typing import Any, Iterator

import grain
import numpy as np
from array_record.python import array_record_module

import python_data
from loaders.peer import BYTES, Job, Joined

# Two threads were the fastest of 0, 1, 2 and 16, its default. Its default of 500 elements ahead is
# kept for records; elements here are batches.
THREADS = 2
RECORDS_AHEAD = 500


def packed(parts: list[bytes]) -> bytes:
    return struct.pack(f"<{len(parts)}I", *map(len, parts)) + b"".join(parts)


class Unpack:
    """For records: a list of bytes for each part."""

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def __call__(self, samples: Any) -> Any:
        return [list(column) for column in zip(*map(self.one, samples))]

    def one(self, record: bytes) -> list[bytes]:
        parts, place = [], 4 * self.parts
        for size in struct.unpack_from(f"<{self.parts}I", record):
            parts.append(record[place : place + size])
            place += size
        return parts


class Join(Unpack):
    """For records: (all bytes, sizes)."""

    def __call__(self, samples: Any) -> Any:
        parts = [part for sample in samples for part in self.one(sample)]
        return np.frombuffer(b"".join(parts), np.uint8), np.array([len(part) for part in parts])


class Loader(Joined):
    WORKS = {"text": BYTES, "image": BYTES, "blob": BYTES}
    MODULES = ("grain", "array_record")
    READS = "two threads per worker, or in the trainer without workers"
    FORMAT = "arrayrecord"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        path = python_data.converted(job.folder, self.FORMAT, self.convert)
        source = grain.sources.ArrayRecordDataSource(
            [str(file) for file in sorted(pathlib.Path(path).glob("*.array_record"))]
        )
        make = (Join if self.is_joined() else Unpack)(len(job.spec.parts))
        data: Any = grain.MapDataset.source(source).batch(job.batch_size, batch_fn=make).repeat()
        ahead = max(2, RECORDS_AHEAD // job.batch_size)
        options = grain.ReadOptions(num_threads=THREADS, prefetch_buffer_size=ahead)
        data = data.to_iter_dataset(options)
        if job.workers:
            processes = grain.MultiprocessingOptions(job.workers, per_worker_buffer_size=4)
            data = data.mp_prefetch(processes)
        self.data = data
        self.iterator: Any = None

    def convert(self, path: pathlib.Path) -> None:
        for tar in python_data.tars_of(self.job.folder):
            file = str(path / f"{tar.stem}.array_record")
            writer = array_record_module.ArrayRecordWriter(file, "group_size:1,uncompressed")
            for _, contents in python_data.samples_of_tar(tar, len(self.job.spec.parts)):
                writer.write(packed(contents))
            writer.close()

    def batches(self) -> Iterator[Any]:
        self.iterator = iter(self.data)
        return self.iterator  # type: ignore[no-any-return]

    def close(self) -> None:
        self.iterator.close()
