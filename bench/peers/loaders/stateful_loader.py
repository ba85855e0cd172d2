"""torchdata's StatefulDataLoader over the same data as torch_loader.py, with the same settings. Its
state is kept with every batch, which is its default."""

from __future__ import annotations

from typing import Any, Iterator

from torchdata.stateful_dataloader import StatefulDataLoader

from loaders import offsets, torch_loader
from loaders.peer import BYTES, Job, Peer


class Loader(torch_loader.Loader):
    WORKS = {"text": BYTES, "image": BYTES, "blob": BYTES}
    MODULES = ("torchdata",)
    RESUMES = True

    def __init__(self, job: Job) -> None:
        Peer.__init__(self, job)
        self.data = offsets.TarSamples(job)
        sampler = offsets.InOrder(len(self.data))
        self.loader = StatefulDataLoader(self.data, sampler=sampler, **torch_loader.options(job))
        self.iterator = None

    def batches(self) -> Iterator[Any]:
        return iter(self.loader)

    def save(self) -> Any:
        return self.loader.state_dict()

    def restore(self, state: Any) -> None:
        self.loader.load_state_dict(state)
