"""DALI's CPU pipeline: fn.readers.webdataset with an index of each tar, threads of one process instead of
workers (at least one); decoding by fn.decoders.image."""

from __future__ import annotations

import pathlib
from typing import Any, Iterator

import numpy as np
from nvidia.dali import Pipeline, fn

import python_data
from loaders.peer import Job, Peer


class Loader(Peer):
    WORKS = {"text": ("",), "image": ("",), "blob": ("",), "decoded": ("",)}
    MODULES = ("nvidia.dali",)
    READS = "one thread of its pipeline, which maps the tars; as many threads as workers copy or decode"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        indexes = python_data.converted(job.folder, "dali", self.convert)
        is_decoded = job.work == "decoded"
        self.pipeline: Any = Pipeline(
            batch_size=job.batch_size, num_threads=max(1, job.workers), device_id=None
        )
        with self.pipeline:
            parts = fn.readers.webdataset(
                paths=[str(tar) for tar in python_data.tars_of(job.folder)],
                index_paths=[str(path) for path in sorted(pathlib.Path(indexes).glob("*.idx"))],
                ext=["jpg"] if is_decoded else list(job.spec.parts),
            )
            parts = parts if isinstance(parts, (list, tuple)) else [parts]
            parts = [fn.decoders.image(parts[0])] if is_decoded else parts
            self.pipeline.set_outputs(*parts)
        self.pipeline.build()

    def convert(self, path: pathlib.Path) -> None:
        """Files as DALI's wds2idx writes them."""
        index = self.job.index()
        for shard, tar in enumerate(python_data.tars_of(self.job.folder)):
            rows = np.flatnonzero(index["shard"] == shard)
            lines = [f"v1.1 {len(rows)}"]
            for row in rows:
                places = zip(self.job.spec.parts, index["offset"][row], index["size"][row])
                lines.append(" ".join(f"{name} {offset} {size}" for name, offset, size in places))
            (path / f"{tar.stem}.idx").write_text("\n".join(lines) + "\n")

    def batches(self) -> Iterator[Any]:
        while True:
            yield self.pipeline.run()

    def columns(self, batch: Any) -> list[Any]:
        return [column_of(part) for part in batch]

    def count(self, batch: Any) -> int:
        return len(batch[0])

    def samples(self, batch: Any) -> list[list[Any]]:
        columns = [[np.asarray(part.at(i)) for i in range(len(part))] for part in batch]
        return [list(parts) for parts in zip(*columns)]


def column_of(part: Any) -> Any:
    """One array where all have the same shape."""
    if part.is_dense_tensor():
        return np.asarray(part.as_tensor())
    return [part.at(i) for i in range(len(part))]
