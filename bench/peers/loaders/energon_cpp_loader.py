"""energon_cpp, this project. Only options that every script sets.

Bytes stay as they are (decoder None): small parts come as bytes, large ones as views of shared memory.
Pictures are decoded natively ("torchrgb8"), in batches of one tensor of torch.
"""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import torch  # as in a training script; before the loader, so that tensors are torch's

import energon_cpp as energon
from loaders.peer import Job, Peer, channels_last


class Bytes(energon.DefaultTaskEncoder):
    decoder = None


class Identity(Bytes):
    def encode_sample(self, sample: Any) -> Any:
        return sample


class Arrays(Bytes):
    def encode_sample(self, sample: Any) -> Any:
        return {name: np.frombuffer(sample[name], np.uint8) for name in ("txt", "json")}


class Pictures(energon.DefaultTaskEncoder):
    decoder = energon.SampleDecoder(image_decode="torchrgb8")


class Tensors(energon.DefaultTaskEncoder):
    pass


ENCODERS = {"identity": Identity, "arrays": Arrays, "decoded": Pictures, "tensors": Tensors}


class Loader(Peer):
    WORKS = {work: ("",) for work in ("text", "image", "blob", "decoded", "identity", "arrays")}
    MODULES = ("energon_cpp",)
    READS = Peer.READS + "; a second one per worker for batches of 4 MiB or more"
    RESUMES = True

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.names = ["jpg"] if job.work == "decoded" else list(job.spec.parts)
        config = energon.WorkerConfig(rank=0, world_size=1, num_workers=job.workers)
        dataset = energon.get_train_dataset(
            job.folder,
            worker_config=config,
            batch_size=job.batch_size,
            shuffle_buffer_size=None,
            task_encoder=ENCODERS.get(job.work, Bytes)(),
        )
        self.loader = energon.get_savable_loader(dataset)

    def batches(self) -> Iterator[Any]:
        while True:
            yield from self.loader

    def columns(self, batch: Any) -> list[Any]:
        columns = [batch[name] for name in self.names]
        return [c.numpy() if isinstance(c, torch.Tensor) else c for c in columns]

    def count(self, batch: Any) -> int:
        return len(batch[self.names[0]])

    def samples(self, batch: Any) -> list[list[Any]]:
        if self.job.work == "decoded":
            return channels_last(batch["jpg"].numpy())
        return super().samples(batch)

    def save(self) -> Any:
        return self.loader.save_state_rank()

    def restore(self, state: Any) -> None:
        self.loader.restore_state_rank(state)

    def close(self) -> None:
        self.loader.close()
