"""Map-style data over precomputed offsets and os.pread, for the torch loaders."""

from __future__ import annotations

import functools
import multiprocessing
import os
from typing import Any

import numpy as np
import torch

import python_data
from loaders.peer import Job, Joined

SMALL = 16384  # bytes


class TarSamples(torch.utils.data.Dataset[Any]):
    """All samples of the tars. A batch is read at once (__getitems__), one pread for each sample, as
    its parts are neighbors. Each process opens the tars itself.

    "bytes": lists of bytes. "tensor": one tensor with the bytes of all parts, in a worker in shared
    memory, so that it is not copied again.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.paths = [str(path) for path in python_data.tars_of(job.folder)]
        index = job.index()
        self.shards = index["shard"].tolist()
        self.offsets = index["offset"].tolist()
        self.sizes = index["size"].tolist()
        self.files: dict[int, int] = {}
        if job.work == "decoded":
            from torchvision.io import ImageReadMode, decode_jpeg

            self.decode = functools.partial(decode_jpeg, mode=ImageReadMode.RGB)

    def __len__(self) -> int:
        return len(self.shards)

    def file(self, shard: int) -> int:
        if shard not in self.files:
            self.files[shard] = os.open(self.paths[shard], os.O_RDONLY)
        return self.files[shard]

    def read(self, number: int) -> list[bytes]:
        offsets, sizes = self.offsets[number], self.sizes[number]
        first = offsets[0]
        data = os.pread(self.file(self.shards[number]), offsets[-1] + sizes[-1] - first, first)
        if len(offsets) == 1:
            return [data]
        return [data[o - first : o - first + s] for o, s in zip(offsets, sizes)]

    def __getitems__(self, numbers: list[int]) -> Any:
        if self.job.work == "decoded":
            return self.pictures(numbers)
        if self.job.variant == "tensor":
            return self.joined(numbers)
        return [list(column) for column in zip(*map(self.read, numbers))]

    def joined(self, numbers: list[int]) -> Any:
        sizes = [size for number in numbers for size in self.sizes[number]]
        if max(sizes) <= SMALL:
            return joined([part for number in numbers for part in self.read(number)])
        data = empty(sum(sizes))
        view, place = memoryview(data.numpy()), 0
        for number in numbers:
            file = self.file(self.shards[number])
            for offset, size in zip(self.offsets[number], self.sizes[number]):
                os.preadv(file, [view[place : place + size]], offset)
                place += size
        return data, sizes

    def pictures(self, numbers: list[int]) -> Any:
        shape = (len(numbers), 3, python_data.HEIGHT, python_data.WIDTH)
        batch = empty(int(np.prod(shape))).view(shape)
        for place, number in enumerate(numbers):
            jpeg = bytearray(self.read(number)[0])
            encoded = torch.frombuffer(jpeg, dtype=torch.uint8)
            batch[place] = self.decode(encoded)
        return batch


def empty(size: int) -> torch.Tensor:
    """uint8, in a worker in shared memory."""
    if multiprocessing.parent_process() is None:
        return torch.empty(size, dtype=torch.uint8)
    storage = torch.UntypedStorage._new_shared(size)
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,))


def joined(parts: list[bytes]) -> Any:
    """(One tensor with the bytes of all parts, in a worker in shared memory; their sizes)."""
    sizes = [len(part) for part in parts]
    data = empty(sum(sizes))
    view, place = memoryview(data.numpy()), 0
    if max(sizes) <= SMALL:  # one more copy costs less than a call for each part
        view[:] = b"".join(parts)
        return data, sizes
    for part, size in zip(parts, sizes):
        view[place : place + size] = part
        place += size
    return data, sizes


class InOrder(torch.utils.data.Sampler[int]):
    """All samples in the order of the tars, again and again: the fastest order to read."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Any:
        while True:
            yield from range(self.count)


class OffsetPeer(Joined):
    """The batches of loaders over TarSamples."""

    def columns(self, batch: Any) -> list[Any]:
        return [np.asarray(batch)] if self.job.work == "decoded" else super().columns(batch)

    def count(self, batch: Any) -> int:
        return len(batch) if self.job.work == "decoded" else super().count(batch)
