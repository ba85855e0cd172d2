"""Adapters for frameworks that require the classes of torch.utils.data.

    import energon_cpp.torch

    loader = energon.get_savable_loader(dataset)
    accelerator.prepare(energon_cpp.torch.data_loader(loader))

The package does not import this module, because it imports torch. Your own training loop does not
need it: iterate over the loader itself.
"""

from __future__ import annotations

from typing import Any, Iterator

import torch.utils.data

from .loaders import SavableDataLoader


class LoaderDataset(torch.utils.data.IterableDataset[Any]):
    """The batches of a loader as items of a dataset, with the position of the loader. Iteration
    continues where the loader is. Does not close the loader."""

    def __init__(self, loader: SavableDataLoader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError(
                "the loader has workers of its own: use DataLoader(dataset, batch_size=None, "
                "num_workers=0), and WorkerConfig(..., num_workers=...) for the loader"
            )
        return iter(self.loader)

    def __len__(self) -> int:
        """Batches of this rank in an epoch. Raises TypeError if the number is not known, because
        torch warns if an estimate is exceeded."""
        size = self.loader.size
        if size is None:
            raise TypeError("the number of batches of an epoch is not known")
        return size

    def set_epoch(self, epoch: int) -> None:
        """Like SavableDataLoader.set_epoch()."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.loader.load_state_dict(state_dict)

    def __getstate__(self) -> Any:
        raise TypeError("a loader cannot be pickled: use DataLoader(..., num_workers=0)")


def data_loader(loader: SavableDataLoader) -> torch.utils.data.DataLoader[Any]:
    """Returns a DataLoader that delivers the batches of `loader` unchanged."""
    return torch.utils.data.DataLoader(
        LoaderDataset(loader), batch_size=None, num_workers=0, collate_fn=_unchanged
    )


def _unchanged(batch: Any) -> Any:
    return batch
