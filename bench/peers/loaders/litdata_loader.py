"""litdata over its own chunks of 64 MB, made from the tars: StreamingDataset and StreamingDataLoader
without shuffling, prefetch_factor 4."""

from __future__ import annotations

import pathlib
from typing import Any, Iterator

import litdata
from litdata.streaming.writer import BinaryWriter

import python_data
from loaders import offsets
from loaders.peer import BYTES, Job, Joined


def listed(samples: list[Any]) -> Any:
    return [[bytes(sample[name]) for sample in samples] for name in samples[0]]


def joined(samples: list[Any]) -> Any:
    return offsets.joined([bytes(part) for sample in samples for part in sample.values()])


COLLATE = {"bytes": listed, "tensor": joined}


class Loader(Joined):
    WORKS = {"text": BYTES, "image": BYTES, "blob": BYTES}
    MODULES = ("litdata",)
    FORMAT = "litdata"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        path = python_data.converted(job.folder, self.FORMAT, self.convert)
        data = litdata.StreamingDataset(path, shuffle=False, drop_last=False)
        more = {"prefetch_factor": 4, "persistent_workers": True} if job.workers else {}
        self.loader: Any = litdata.StreamingDataLoader(
            data,
            batch_size=job.batch_size,
            num_workers=job.workers,
            collate_fn=COLLATE[job.variant],
            **more,
        )

    def convert(self, path: pathlib.Path) -> None:
        # The classes that litdata.optimize() uses, without its processes.
        writer = BinaryWriter(str(path), chunk_bytes=64 << 20)
        samples = python_data.samples_in_order(self.job.spec, self.job.folder)
        for number, contents in enumerate(samples):
            writer.add_item(number, dict(zip(self.job.spec.parts, contents)))
        writer.done()
        writer.merge(1)

    def batches(self) -> Iterator[Any]:
        while True:
            yield from self.loader
