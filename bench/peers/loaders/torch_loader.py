"""torch's DataLoader over precomputed offsets and os.pread: the best that can be built by hand.

A batch is read by one call, samples in the order of the tars, no copy after the read of tensors;
prefetch_factor 4.
"""

from __future__ import annotations

from typing import Any, Iterator

import torch

from loaders import offsets
from loaders.peer import BYTES, Job, channels_last


def kept(batch: Any) -> Any:
    """Returns the batch, which is already complete."""
    return batch


def options(job: Job) -> dict[str, Any]:
    with_workers = {"prefetch_factor": 4, "persistent_workers": True} if job.workers else {}
    return {
        "batch_size": job.batch_size,
        "num_workers": job.workers,
        "collate_fn": kept,
        **with_workers,
    }


class Loader(offsets.OffsetPeer):
    WORKS = {"text": BYTES, "image": BYTES, "blob": BYTES, "decoded": ("torchvision",)}
    MODULES = ("torch", "torchvision")

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.data = offsets.TarSamples(job)
        sampler = offsets.InOrder(len(self.data))
        self.loader: Any = torch.utils.data.DataLoader(self.data, sampler=sampler, **options(job))
        self.iterator: Any = None

    def batches(self) -> Iterator[Any]:
        self.iterator = iter(self.loader)
        return self.iterator  # type: ignore[no-any-return]

    def samples(self, batch: Any) -> list[list[Any]]:
        if self.job.work == "decoded":
            return channels_last(batch.numpy())
        return super().samples(batch)

    def close(self) -> None:
        self.loader._iterator = None
        self.iterator = None
