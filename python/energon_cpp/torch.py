"""Loaders in frameworks: the states of all ranks in one checkpoint, and the classes of
torch.utils.data.

    import energon_cpp.torch

    loader = energon.get_savable_loader(dataset)
    trainer.fit(module, energon_cpp.torch.AllRanks(loader))                   # Lightning
    accelerator.register_for_checkpointing(energon_cpp.torch.AllRanks(loader))
    dcp.save({"model": model, "loader": energon_cpp.torch.AllRanks(loader)}, checkpoint_id=path)
    energon_cpp.torch.set_train_loader(trainer, loader)                       # Hugging Face

The package does not import this module, because it imports torch. Your own training loop does not
need it: iterate over the loader itself.
"""

from __future__ import annotations

import importlib
import os
import pathlib
from typing import Any, Iterator, Mapping

import torch
import torch.utils.data

from ._core import LoaderState
from ._errors import StateMismatchError
from ._global_state import all_states
from .loaders import SavableDataLoader, check_is_savable
from .states import STATES, as_loader_state, as_state_dict, rescale_states
from .worker_config import WorkerConfig


class AllRanks:
    """A loader whose state_dict() has the states of all ranks, for frameworks that write the state
    of one rank only: Lightning, Accelerate, torch.distributed.checkpoint. Otherwise, it is the
    loader.

    Iterate over this object or over the loader: both have the same position.
    """

    def __init__(self, loader: SavableDataLoader) -> None:
        check_is_savable("AllRanks", loader)
        self.loader = loader

    def __enter__(self) -> AllRanks:
        return self

    def __exit__(self, *error: object) -> None:
        self.loader.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.loader!r})"

    def state_dict(self) -> dict[str, Any]:
        """Returns the states of all ranks, on each rank: one entry with a list of the bytes of state
        files, by rank. All ranks of the data-parallel group must call this.

        Raises:
            ValueError: The loader and torch.distributed have another rank or number of ranks.
        """
        return {STATES: [bytes(state) for state in all_states(self.loader)]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continues from the state of this rank. If another number of ranks saved the states, they
        are converted by rescale_states(). Each rank calls this by itself, with the same states, at
        any time. Ends the workers first.

        Raises:
            StateMismatchError: The states belong to another job. The message lists the differences.
            InvalidArgumentError: They cannot continue on this number of ranks or workers.
            ValueError: They are not the states of all ranks.
        """
        config = self.loader.worker_config
        states = state_dict.get(STATES) if isinstance(state_dict, Mapping) else None
        if not isinstance(states, (list, tuple)):
            found = list(state_dict) if isinstance(state_dict, Mapping) else state_dict
            raise ValueError(
                f"not the states of all ranks: expected a dict with a list '{STATES}', which "
                f"AllRanks saves, found {found!r}"
            )
        if len(states) == config.world_size:
            state = as_loader_state(states[config.rank])
        else:
            state = rescale_states(states, config)
            _check_logical_shards(as_loader_state(states[0]), state, config)
        self.loader.load_state_dict(as_state_dict(state))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not initialized, such as while it is copied
            raise AttributeError(name)
        return getattr(self.loader, name)


def _check_logical_shards(saved: LoaderState, rescaled: LoaderState, config: WorkerConfig) -> None:
    """Explains what the loader would report as differences of the configuration."""
    saved_shards = saved.describe()["config"].get("logical_shards")
    needed = rescaled.describe()["config"].get("logical_shards")
    if needed == config.logical_shards:
        return
    found = "unset" if config.logical_shards is None else str(config.logical_shards)
    if saved_shards is None:
        raise StateMismatchError(
            "the states belong to a job without logical_shards, which continues on another number of "
            f"ranks only if ranks times workers are {needed}, found world_size {config.world_size} "
            f"and num_workers {config.num_workers}; set logical_shards from the first start on"
        )
    raise StateMismatchError(
        f"the states belong to a job with logical_shards={needed}: set it in the WorkerConfig, found "
        f"it {found}"
    )


class _TrainLoader(AllRanks):
    def set_epoch(self, epoch: int) -> None:
        """The trainer computes its epoch from the steps, which is another one on other ranks."""


def set_train_loader(trainer: Any, loader: SavableDataLoader) -> None:
    """Trains a transformers.Trainer, or one derived from it, on the batches of `loader`. Call it
    before train().

    Each checkpoint gets a file loader.pt with the states of all ranks. When train() resumes from
    it, the loader continues at its place, also on another number of ranks (AllRanks). The trainer
    skips no batches (ignore_data_skip).
    """
    check_is_savable("set_train_loader", loader)
    transformers: Any = importlib.import_module("transformers")
    if not isinstance(trainer, transformers.Trainer):
        raise TypeError(f"trainer must be a transformers.Trainer, not {trainer!r}")
    files: Any = importlib.import_module("transformers.trainer_utils")
    ranks = _TrainLoader(loader)
    train = trainer.train

    saved_step = -1

    def save(_callback: Any, args: Any, state: Any, _control: Any, **_more: Any) -> None:
        nonlocal saved_step
        if saved_step == state.global_step:
            return
        saved_step = state.global_step
        states = ranks.state_dict()  # on all ranks
        if args.should_save:
            folder = pathlib.Path(args.output_dir, f"{files.PREFIX_CHECKPOINT_DIR}-{saved_step}")
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(states, folder / "loader.tmp")
            os.replace(folder / "loader.tmp", folder / "loader.pt")

    def save_first(callback: Any, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Before the trainer saves, because that removes older checkpoints."""
        if control.should_save:
            save(callback, args, state, control)

    def train_and_restore(resume_from_checkpoint: Any = None, *arguments: Any, **more: Any) -> Any:
        nonlocal saved_step
        saved_step = -1
        folder = resume_from_checkpoint
        if folder is True:
            folder = files.get_last_checkpoint(trainer.args.output_dir)
        if folder:
            file = pathlib.Path(folder, "loader.pt")
            if not file.exists():
                raise FileNotFoundError(
                    f"the checkpoint has no {file}: it was saved without set_train_loader(), or "
                    "its save was interrupted; resume from another one"
                )
            ranks.load_state_dict(torch.load(file, weights_only=True))
            if loader.batches_left == 0:
                next(iter(loader), None)  # the end of an epoch, where the trainer expects batches
        return train(resume_from_checkpoint, *arguments, **more)

    trainer.args.ignore_data_skip = True
    trainer.get_train_dataloader = lambda: ranks
    trainer.train = train_and_restore
    events: dict[str, Any] = {"on_step_end": save_first, "on_epoch_end": save_first, "on_save": save}
    trainer.add_callback(type("SaveLoader", (transformers.TrainerCallback,), events)())


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
