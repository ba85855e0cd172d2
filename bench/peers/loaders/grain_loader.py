"""grain over ArrayRecord files without compression, made from the tars: a MapDataset in order, read by
threads, batches as lists of bytes, made in worker processes where there are some."""

from __future__ import annotations

import pathlib
import struct
from typing import Any, Iterator

import grain
from array_record.python import array_record_module

import python_data
from loaders.peer import Job, Peer


def packed(parts: list[bytes]) -> bytes:
    return struct.pack(f"<{len(parts)}I", *map(len, parts)) + b"".join(parts)


class Unpack:
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


class Loader(Peer):
    WORKS = {"text": ("",), "image": ("",), "blob": ("",)}
    MODULES = ("grain", "array_record")
    FORMAT = "arrayrecord"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        path = python_data.converted(job.folder, self.FORMAT, self.convert)
        source = grain.sources.ArrayRecordDataSource(
            [str(file) for file in sorted(pathlib.Path(path).glob("*.array_record"))]
        )
        options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=2 * job.batch_size)
        data: Any = grain.MapDataset.source(source).repeat().to_iter_dataset(options)
        data = data.batch(job.batch_size, batch_fn=Unpack(len(job.spec.parts)))
        if job.workers:
            data = data.mp_prefetch(grain.MultiprocessingOptions(num_workers=job.workers))
        self.data = data

    def convert(self, path: pathlib.Path) -> None:
        file = str(path / "all.array_record")
        writer = array_record_module.ArrayRecordWriter(file, "group_size:1,uncompressed")
        for contents in python_data.samples_in_order(self.job.spec, self.job.folder):
            writer.write(packed(contents))
        writer.close()

    def batches(self) -> Iterator[Any]:
        return iter(self.data)

    def columns(self, batch: Any) -> list[Any]:
        return list(batch)

    def count(self, batch: Any) -> int:
        return len(batch[0])
