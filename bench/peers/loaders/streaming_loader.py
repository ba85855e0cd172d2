"""mosaicml-streaming over local MDS shards, made from the tars: StreamingDataset without shuffling in a
DataLoader of torch, prefetch_factor 4."""

from __future__ import annotations

import pathlib
from typing import Any, Iterator

import streaming
import torch

import python_data
from loaders import offsets
from loaders.peer import BYTES, Job, Joined


class Listed:
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __call__(self, samples: list[Any]) -> Any:
        return [[sample[name] for sample in samples] for name in self.names]


class Flat(Listed):
    def __call__(self, samples: list[Any]) -> Any:
        return offsets.joined([sample[name] for sample in samples for name in self.names])


COLLATE = {"bytes": Listed, "tensor": Flat}


class Loader(Joined):
    WORKS = {"text": BYTES, "image": BYTES, "blob": BYTES}
    MODULES = ("streaming",)
    FORMAT = "mds"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        streaming.base.util.clean_stale_shared_memory()
        path = python_data.converted(job.folder, self.FORMAT, self.convert)
        data = streaming.StreamingDataset(local=path, shuffle=False, batch_size=job.batch_size)
        more = {"prefetch_factor": 4, "persistent_workers": True} if job.workers else {}
        self.loader: Any = torch.utils.data.DataLoader(
            data,
            batch_size=job.batch_size,
            num_workers=job.workers,
            collate_fn=COLLATE[job.variant](job.spec.parts),
            **more,
        )

    def convert(self, path: pathlib.Path) -> None:
        columns = {name: "bytes" for name in self.job.spec.parts}
        with streaming.MDSWriter(out=str(path), columns=columns, exist_ok=True) as writer:
            for contents in python_data.samples_in_order(self.job.spec, self.job.folder):
                writer.write(dict(zip(columns, contents)))

    def batches(self) -> Iterator[Any]:
        while True:
            yield from self.loader
