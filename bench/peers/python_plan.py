"""The runs of compare_python.py, and its targets."""

from __future__ import annotations

import dataclasses
from typing import Any

# In the order of the report. Loaders that cannot be installed are skipped.
LOADERS = {
    "energon_cpp": "energon_cpp",
    "megatron_energon": "megatron-energon",
    "webdataset": "webdataset",
    "torch": "torch DataLoader",
    "stateful": "StatefulDataLoader",
    "litdata": "litdata",
    "streaming": "mosaicml-streaming",
    "grain": "grain",
    "spdl": "SPDL",
    "dali": "DALI (CPU)",
}
OURS = "energon_cpp"
WORKS = {
    "text": "text of 0.8 KB",
    "image": "JPEGs of 110 KB, raw",
    "decoded": "JPEGs of 512 x 384, decoded",
    "blob": "blobs of 1 MiB",
    "identity": "text, encode_sample returns its input",
    "arrays": "text, encode_sample makes two arrays",
}
TOKENS = {"tokens": "text of 0.8 KB, tokenized"}  # variants are compared with one another
REPORTS = {
    "peers_python": ("How fast are loaders in a Python script?", list(WORKS)),
    "peers_tokens": ("How fast does a Python script tokenize text?", list(TOKENS)),
}
WORKERS = (0, 1, 2, 4)
BATCH_SIZES = (1, 16, 64)
ASKED_WORKERS, ASKED_BATCH = 2, 64


@dataclasses.dataclass(frozen=True)
class Ratio:
    """At least `least` times the samples/s of `loader` on `work`, or of one variant of it."""

    work: str
    loader: str
    least: float
    variant: str | None = None

    @property
    def name(self) -> str:
        variant = f", {self.variant}" if self.variant else ""
        return f"Python, {(WORKS | TOKENS)[self.work]}: ratio to {LOADERS[self.loader]}{variant}"


RATIOS = (
    Ratio("text", "megatron_energon", 50),
    Ratio("image", "megatron_energon", 8),
    Ratio("blob", "megatron_energon", 5),
    Ratio("decoded", "megatron_energon", 2),
    Ratio("identity", "megatron_energon", 10),
    Ratio("arrays", "megatron_energon", 5),
    Ratio("text", "torch", 2.5),
    Ratio("image", "torch", 3),
    Ratio("blob", "torch", 5),
    Ratio("tokens", "energon_cpp", 4, "encode_sample"),
    Ratio("tokens", "megatron_energon", 20),
)
FROM_DISK = "bytes came from a disk while they were timed"  # reason to discard a run
LOOP_SECONDS = 10e-6  # at most, of Python over C++ for a batch of tensors
RESUME_RATIO = 100.0  # at least, to megatron-energon at its defaults
RESUMING = ("energon_cpp", "megatron_energon", "stateful")


@dataclasses.dataclass(frozen=True)
class Setting:
    """The setting of a measurement, the same in every round."""

    loader: str
    work: str
    variant: str
    workers: int
    batch_size: int

    @property
    def who(self) -> str:
        return LOADERS[self.loader] + (f", {self.variant}" if self.variant else "")

    @property
    def name(self) -> str:
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        return f"{self.work}: {self.who}, {workers}, batch {self.batch_size}"

    @property
    def rival(self) -> tuple[str, str, str]:
        """Only the fastest settings of a rival are measured in rounds."""
        return self.loader, self.work, self.variant if self.work in TOKENS else ""

    @property
    def is_asked(self) -> bool:
        return (self.workers, self.batch_size) == (ASKED_WORKERS, ASKED_BATCH)


def settings_of(
    found: dict[str, Any], works: list[str], workers: list[int], batch_sizes: list[int]
) -> list[Setting]:
    """All settings of the available loaders, in the order of one round: works and batch sizes one after
    another, for each of them all loaders in turn, with all numbers of workers."""
    settings = []
    for work in works:
        for batch_size in batch_sizes:
            for loader, about in found.items():
                for count in workers:
                    if count != workers[0] and not about["many"]:
                        continue
                    variants = about["works"].get(work, ())
                    settings += [Setting(loader, work, v, count, batch_size) for v in variants]
    return settings


NEAR = 0.95  # of the highest rate of a first run: may be the fastest


def worth_measuring(rates: dict[Setting, float]) -> list[Setting]:
    """The settings that are, or may be, the fastest of a loader for a work, over all layouts and in the
    layout of the targets, judged by the rates of one short run each."""
    chosen = []
    for one, rate in rates.items():
        of_loader = [other for other in rates if other.rival == one.rival]
        asked = [other for other in of_loader if other.is_asked]
        groups = [of_loader, asked] if one.is_asked else [of_loader]
        if any(rate >= NEAR * max(rates[other] for other in group) for group in groups):
            chosen.append(one)
    return chosen


LOADERS_OF_TARGETS = [OURS, *dict.fromkeys(ratio.loader for ratio in RATIOS)]


def needed_for_targets(settings: list[Setting]) -> list[Setting]:
    asked = {(ratio.work, ratio.loader) for ratio in RATIOS}
    asked |= {(ratio.work, OURS) for ratio in RATIOS}
    return [one for one in settings if one.is_asked and (one.work, one.loader) in asked]
