"""Megatron-Energon over the same prepared folders. Logging off, no watchdog, no garbage collection
between batches (its default: one every ten), prefetch_factor 4 (its default: 2).

Bytes: a cooker that returns its input, and no decoder. "bytes": batches are lists of bytes, which
pickle carries to the trainer. "tensor": batch() joins them into one tensor of torch, which shared
memory carries. Pictures: its own decoder, "torchrgb8", stacked in batch().
Tokens: a call of the tokenizer for each text; batch() joins the arrays into one tensor.
"checkpoints": state is kept every second instead of every minute.
"""

from __future__ import annotations

import itertools
import logging
import warnings
from typing import Any, Iterator

import numpy as np
import torch

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
from megatron.energon import (  # noqa: E402
    Cooker,
    DefaultTaskEncoder,
    SampleDecoder,
    WorkerConfig,
    basic_sample_keys,
    get_savable_loader,
    get_train_dataset,
    stateless,
)

from loaders import offsets  # noqa: E402
from loaders.peer import BYTES, Job, Peer, channels_last, split, token_rows  # noqa: E402

PARTS = ("txt", "jpg", "json", "bin")


@stateless
def cook(sample: Any) -> Any:
    return {**basic_sample_keys(sample), **{n: sample[n] for n in PARTS if n in sample}}


class Bytes(DefaultTaskEncoder):
    cookers = [Cooker(cook)]
    decoder = None

    def batch(self, samples: Any) -> Any:
        return {n: [sample[n] for sample in samples] for n in PARTS if n in samples[0]}


class Identity(Bytes):
    @stateless
    def encode_sample(self, sample: Any) -> Any:
        return sample


class Arrays(Bytes):
    @stateless
    def encode_sample(self, sample: Any) -> Any:
        arrays = {name: np.frombuffer(sample[name], np.uint8) for name in ("txt", "json")}
        return {**basic_sample_keys(sample), **arrays}

    def batch(self, samples: Any) -> Any:
        return {n: np.stack([sample[n] for sample in samples]) for n in ("txt", "json")}


class OneTensor(Bytes):
    def batch(self, samples: Any) -> Any:
        names = [n for n in PARTS if n in samples[0]]
        data, sizes = offsets.joined([sample[n] for sample in samples for n in names])
        return {"data": data, "sizes": sizes, "parts": len(names)}


class Pictures(DefaultTaskEncoder):
    cookers = [Cooker(cook)]
    decoder = SampleDecoder(image_decode="torchrgb8")

    def batch(self, samples: Any) -> Any:
        return {"jpg": torch.stack([sample["jpg"] for sample in samples])}


class Tokens(DefaultTaskEncoder):
    cookers = [Cooker(cook)]

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.tokenizer = job.tokenizer()

    @stateless
    def encode_sample(self, sample: Any) -> Any:
        ids = np.array(self.tokenizer.encode(sample["txt"]).ids, np.int32)
        return {**basic_sample_keys(sample), "tokens": ids}

    def batch(self, samples: Any) -> Any:
        rows = [sample["tokens"] for sample in samples]
        offsets_of = np.cumsum([0, *map(len, rows)])
        return {"values": torch.from_numpy(np.concatenate(rows)), "offsets": torch.from_numpy(offsets_of)}


ENCODERS = {"identity": Identity, "arrays": Arrays, "decoded": Pictures}


class Loader(Peer):
    WORKS = {
        "text": BYTES,
        "image": BYTES,
        "blob": BYTES,
        "decoded": ("",),
        "identity": ("",),
        "arrays": ("",),
        "tokens": ("encode_sample",),
    }
    MODULES = ("megatron.energon",)
    RESUMES = True

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.names = ["jpg"] if job.work == "decoded" else list(job.spec.parts)
        encoder = OneTensor if job.variant == "tensor" else ENCODERS.get(job.work, Bytes)
        dataset = get_train_dataset(
            str(job.folder),
            worker_config=WorkerConfig(rank=0, world_size=1, num_workers=job.workers),
            batch_size=job.batch_size,
            shuffle_buffer_size=None,
            max_samples_per_sequence=None,
            task_encoder=Tokens(job) if job.work == "tokens" else encoder(),
        )
        more: dict[str, Any] = {"checkpoint_every_sec": 1} if job.variant == "checkpoints" else {}
        self.loader = get_savable_loader(
            dataset,
            watchdog_timeout_seconds=None,
            gc_collect_every_n_steps=0,
            prefetch_factor=4,
            **more,
        )

    def batches(self) -> Iterator[Any]:
        while True:
            yield from self.loader

    def columns(self, batch: Any) -> list[Any]:
        if "data" in batch:
            return [batch["data"].numpy()]
        if "values" in batch:
            return [batch["values"].numpy()]
        columns = [batch[name] for name in self.names]
        return [c.numpy() if isinstance(c, torch.Tensor) else c for c in columns]

    def count(self, batch: Any) -> int:
        if "data" in batch:
            return len(batch["sizes"]) // batch["parts"]
        if "values" in batch:
            return len(batch["offsets"]) - 1
        return len(batch[self.names[0]])

    def samples(self, batch: Any) -> list[list[Any]]:
        if self.job.work == "decoded":
            return channels_last(batch["jpg"].numpy())
        if "values" in batch:
            return token_rows(batch["values"].numpy(), batch["offsets"])
        if "data" not in batch:
            return super().samples(batch)
        parts = iter(split(batch["data"].numpy(), batch["sizes"]))
        count = batch["parts"]
        return [list(itertools.islice(parts, count)) for _ in range(self.count(batch))]

    def save(self) -> Any:
        return self.loader.save_state_rank()

    def restore(self, state: Any) -> None:
        self.loader.restore_state_rank(state)
