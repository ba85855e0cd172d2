"""energon_cpp, this project. Only options that every script sets.

Bytes stay as they are (decoder None): small parts come as bytes, large ones as views of shared memory.
Pictures are decoded natively ("torchrgb8"), in batches of one tensor of torch. Tokens: with a call of the
tokenizer for each text ("encode_sample"), or for 64 ("encode_samples"), in ragged batches.
"""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import torch  # as in a training script; before the loader, so that tensors are torch's

import energon_cpp as energon
from loaders.peer import Job, Peer, channels_last, token_rows


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


class Tokens(energon.DefaultTaskEncoder):
    batch = energon.RaggedBatch(["tokens"])

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.tokenizer = job.tokenizer()


class OneByOne(Tokens):
    def encode_sample(self, sample: Any) -> Any:
        return {"tokens": np.array(self.tokenizer.encode(sample["txt"]).ids, np.int32)}


class Together(Tokens):
    def encode_samples(self, samples: Any) -> Any:
        encoded = self.tokenizer.encode_batch([sample["txt"] for sample in samples])
        return [{"tokens": np.array(one.ids, np.int32)} for one in encoded]


TOKENS = {"encode_sample": OneByOne, "encode_samples": Together}
ENCODERS = {"identity": Identity, "arrays": Arrays, "decoded": Pictures, "tensors": Tensors}


class Loader(Peer):
    WORKS = {work: ("",) for work in ("text", "image", "blob", "decoded", "identity", "arrays")}
    WORKS |= {"tokens": tuple(TOKENS)}
    MODULES = ("energon_cpp",)
    READS = Peer.READS + "; a second one per worker for batches of 4 MiB or more"
    RESUMES = True

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.names = ["jpg"] if job.work == "decoded" else list(job.spec.parts)
        encoder = ENCODERS.get(job.work, Bytes)
        config = energon.WorkerConfig(rank=0, world_size=1, num_workers=job.workers)
        dataset = energon.get_train_dataset(
            job.folder,
            worker_config=config,
            batch_size=job.batch_size,
            shuffle_buffer_size=None,
            task_encoder=TOKENS[job.variant](job) if job.work == "tokens" else encoder(),
        )
        self.loader = energon.get_savable_loader(dataset)

    def batches(self) -> Iterator[Any]:
        while True:
            yield from self.loader

    def columns(self, batch: Any) -> list[Any]:
        if self.job.work == "tokens":
            return [batch["tokens"]["values"].numpy()]
        columns = [batch[name] for name in self.names]
        return [c.numpy() if isinstance(c, torch.Tensor) else c for c in columns]

    def count(self, batch: Any) -> int:
        if self.job.work == "tokens":
            return len(batch["tokens"]["offsets"]) - 1
        return len(batch[self.names[0]])

    def samples(self, batch: Any) -> list[list[Any]]:
        if self.job.work == "tokens":
            return token_rows(batch["tokens"]["values"].numpy(), batch["tokens"]["offsets"])
        if self.job.work == "decoded":
            return channels_last(batch["jpg"].numpy())
        return super().samples(batch)

    def save(self) -> Any:
        return self.loader.save_state_rank()

    def restore(self, state: Any) -> None:
        self.loader.restore_state_rank(state)

    def close(self) -> None:
        self.loader.close()
