"""webdataset: shards split by workers, no decoding of bytes, batches made in the workers, WebLoader
without a second batching. Pictures: decode("torchrgb8"), which is Pillow's."""

from __future__ import annotations

import warnings
from typing import Any, Iterator

import torch
import webdataset

import python_data
from loaders import offsets
from loaders.peer import BYTES, Job, Joined, channels_last

warnings.filterwarnings("ignore")


def listed(samples: Any) -> Any:
    return [list(column) for column in zip(*samples)]


def joined(samples: Any) -> Any:
    return offsets.joined([part for sample in samples for part in sample])


def stacked(samples: Any) -> Any:
    return torch.stack([sample[0] for sample in samples])


COLLATE = {"bytes": listed, "tensor": joined, "": stacked}


class Loader(Joined):
    WORKS = {"text": BYTES, "image": BYTES, "blob": BYTES, "decoded": ("",)}
    MODULES = ("webdataset",)

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        paths = [str(path) for path in python_data.tars_of(job.folder)]
        data = webdataset.WebDataset(
            paths, shardshuffle=False, empty_check=False, workersplitter=webdataset.split_by_worker
        ).repeat()
        is_decoded = job.work == "decoded"
        data = data.decode("torchrgb8") if is_decoded else data
        data = data.to_tuple(*(["jpg"] if is_decoded else job.spec.parts))
        data = data.batched(job.batch_size, collation_fn=COLLATE[job.variant])
        more = {"prefetch_factor": 4} if job.workers else {}
        self.loader: Any = webdataset.WebLoader(
            data, batch_size=None, num_workers=job.workers, **more
        )
        self.iterator: Any = None

    def batches(self) -> Iterator[Any]:
        self.iterator = iter(self.loader)
        return self.iterator  # type: ignore[no-any-return]

    def columns(self, batch: Any) -> list[Any]:
        return [batch.numpy()] if self.job.work == "decoded" else super().columns(batch)

    def count(self, batch: Any) -> int:
        return len(batch) if self.job.work == "decoded" else super().count(batch)

    def samples(self, batch: Any) -> list[list[Any]]:
        if self.job.work == "decoded":
            return channels_last(batch.numpy())
        return super().samples(batch)

    def close(self) -> None:
        self.iterator = None
