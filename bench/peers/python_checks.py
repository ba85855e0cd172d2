"""Compares a loader's samples with the tars before measuring."""

from __future__ import annotations

from typing import Any

import numpy as np

import python_data
from loaders.peer import Job, Peer

# Decoders of the same picture differ in rounding and in the conversion of colors to RGB (SPDL by 4): the
# means of blocks by less than this, those of other pictures by much more.
TOLERANCE = 6.0
CHECKED_BYTES = 64 << 20


class WrongData(Exception):
    """The delivered data differ from the expected data."""


def check(peer: Peer, samples: int) -> int:
    """Takes at least `samples` samples, at most half of an epoch, so that none may occur twice, and
    not more than CHECKED_BYTES. Returns their number. Raises WrongData."""
    job = peer.job
    known = all(job.spec.size_bytes)
    enough = -(-CHECKED_BYTES // sum(job.spec.size_bytes)) if known else samples
    wanted = max(1, min(samples, enough, job.samples // 2))
    known = Known(job)
    taken = 0
    for batch in peer.batches():
        of_batch = peer.samples(batch)
        if len(of_batch) != peer.count(batch):
            raise WrongData(f"a batch of {peer.count(batch)} samples has {len(of_batch)}")
        if len(of_batch) > job.batch_size:
            raise WrongData(f"a batch has {len(of_batch)} samples, expected {job.batch_size}")
        for parts in of_batch[: wanted - taken]:
            known.take(parts)
        taken += len(of_batch)
        if taken >= wanted:
            return wanted
    raise WrongData(f"the data ended after {taken} samples, expected at least {wanted}")


class Known:
    """The samples of the tars, each of which may be taken once."""

    def __init__(self, job: Job) -> None:
        self.job = job
        index = job.index()
        self.signatures = index.get("signature")
        self.numbers = {int(digest): i for i, digest in enumerate(index["digest"])}
        self.taken: set[int] = set()

    def take(self, parts: list[Any]) -> None:
        number = self.number_of(parts)
        if number in self.taken:
            raise WrongData(f"sample {number} was delivered twice within half of an epoch")
        self.taken.add(number)

    def number_of(self, parts: list[Any]) -> int:
        if self.job.work == "decoded":
            return self.picture(parts[0])
        number = self.numbers.get(python_data.digest_of(parts))
        if number is None:
            sizes = ", ".join(str(len(memoryview(part).cast("B"))) for part in parts)
            raise WrongData(f"parts of {sizes} bytes are those of no sample of {self.job.folder}")
        return number

    def picture(self, pixels: Any) -> int:
        shape = (python_data.HEIGHT, python_data.WIDTH, 3)
        if pixels.shape != shape or pixels.dtype != np.uint8:
            raise WrongData(f"a picture is {pixels.dtype} {pixels.shape}, expected uint8 {shape}")
        apart = np.abs(self.signatures - python_data.signature_of(pixels)).max(1)
        number = int(apart.argmin())
        if apart[number] > TOLERANCE:
            raise WrongData(f"a picture is that of no sample: means differ by {apart[number]:.1f}")
        return number
