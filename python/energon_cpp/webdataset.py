"""Tars as in the package webdataset: a chain of methods, and a loop over it.

    dataset = (
        energon.WebDataset("shards-{000..099}.tar")
        .shuffle(1000)
        .decode("torchrgb")
        .to_tuple("jpg", "json")
        .batched(32)
    )
    with dataset.loader(num_workers=4) as loader:
        for images, infos in loader:
            ...

Nothing has to be prepared: the first run indexes the tars, later ones find the indexes in the cache
folder.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator

from ._shard_paths import Urls, shards_path
from ._webdataset_stages import (
    Chain,
    Function,
    Map,
    MapDict,
    MapTuple,
    Rename,
    Select,
    ToTuple,
    collate,
)
from .datasets import Dataset, get_train_dataset, get_val_dataset
from .decoder import SampleDecoder
from .loader import get_savable_loader
from .loaders import SavableDataLoader
from .task_encoder import TaskEncoder
from .worker_config import WorkerConfig, default_worker_config

Collation = Callable[[list[Any]], Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Chain:
    """What the methods of a WebDataset have said."""

    path: str
    num_workers: int | None = None
    worker_config: WorkerConfig | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    shuffles_shards: bool | None = None
    resamples: bool = False
    shuffle_buffer: int = 0
    decoder: SampleDecoder | None = None
    sample_stages: tuple[Function, ...] = ()
    batch_size: int | None = None
    drops_last: bool = False
    collation: Collation | None = None
    batch_stages: tuple[Function, ...] = ()
    repeats: bool = False
    epoch: int | None = None
    length: int | None = None


class _Encoder(TaskEncoder[Any, Any, Any, Any]):
    """The stages of a chain. Without functions of Python there is none that is not native."""

    def __init__(self, chain: _Chain) -> None:
        self.decoder = chain.decoder
        stages: dict[str, Any] = {}
        if chain.sample_stages:
            stages["encode_sample"] = Chain(chain.sample_stages)
        if chain.collation is not None:
            stages["batch"] = chain.collation
        if chain.batch_stages:
            stages["encode_batch"] = Chain(chain.batch_stages)
        vars(self).update(stages)


class WebDataset:
    """Samples of tars, and what is done with them. Immutable: each method returns a new one.

    The core runs the stages in a fixed order: shards, shuffle, decode, functions of samples,
    batches, functions of batches. A call that contradicts it is a ValueError. Each rank and worker
    reads its own share, each sample once in an epoch. The order follows from the seed, the number
    of ranks and of workers.

    urls: a tar, a brace pattern such as "shards/{000..099}.tar", a folder, several of these joined
    by "::" or as a list. num_workers: forked processes; 0, the default: this process.
    worker_config: rank, seed and logical shards; None: the rank of torch.distributed or torchrun.
    shardshuffle: whether shards come in random order; None: if there is a shuffle(). resampled:
    samples are drawn with replacement, without end. on_error: "skip" leaves out samples that fail.
    cache_dir: folder for the indexes of tars; None: the standard cache folder.
    """

    def __init__(
        self,
        urls: Urls,
        *,
        num_workers: int | None = None,
        worker_config: WorkerConfig | None = None,
        shardshuffle: bool | None = None,
        resampled: bool = False,
        on_error: str = "raise",
        cache_dir: str | None = None,
    ) -> None:
        self._chain = _Chain(
            path=shards_path(urls),
            num_workers=num_workers,
            worker_config=worker_config,
            options={"on_error": on_error, "cache_dir": cache_dir},
            shuffles_shards=shardshuffle,
            resamples=resampled,
        )
        self._own_loader: SavableDataLoader | None = None

    def shuffle(self, size: int) -> WebDataset:
        """Shards in random order, and samples through a buffer of `size`; 0: as they were."""
        self._check("shuffle", self._chain.batch_size is None, "before batched()")
        return self._with(shuffle_buffer=size)

    def decode(self, image: str | None = None) -> WebDataset:
        """Parts by their names: json, txt, cls, npy and others; images with a mode such as
        "torchrgb", "torchrgb8" (torch tensors) or "rgb8" (NumPy arrays), else they stay bytes."""
        fits = not self._chain.sample_stages and self._chain.batch_size is None
        self._check("decode", fits, "before functions of samples; use map() for parts of your own")
        return self._with(decoder=SampleDecoder(image_decode=image))

    def to_tuple(self, *names: str) -> WebDataset:
        """A tuple of the parts. "jpg;png" is the first of them that the sample has; none is a
        KeyError."""
        wanted = tuple(names[0].split()) if len(names) == 1 else names
        return self._with_sample_stage("to_tuple", ToTuple(wanted))

    def rename(self, keep: bool = True, **new_names: str) -> WebDataset:
        """`rename(image="jpg;png")`: parts under new names. keep: whether the others stay."""
        return self._with_sample_stage("rename", Rename(new_names, keep))

    def map(self, function: Function) -> WebDataset:
        """`function` of each sample, behind batched() of each batch; None leaves it out."""
        return self._with_stage(Map(function))

    def map_dict(self, **functions: Function) -> WebDataset:
        """A function for each named part: `map_dict(json=len)`."""
        return self._with_stage(MapDict(functions))

    def map_tuple(self, *functions: Function) -> WebDataset:
        """A function for each of the first entries of a tuple."""
        return self._with_stage(MapTuple(functions))

    def select(self, predicate: Callable[[Any], Any]) -> WebDataset:
        """Leaves out what `predicate` is not true for."""
        return self._with_stage(Select(predicate))

    def batched(
        self, size: int, collation_fn: Collation | None = collate, partial: bool = True
    ) -> WebDataset:
        """Batches of `size`. collation_fn: makes a batch of a list of samples; None: the list. The
        standard one makes of tuples a tuple of columns; of samples without functions, a Batch,
        natively. partial: whether the last batch of an epoch may be smaller."""
        self._check("batched", self._chain.batch_size is None, "once")
        self._check("batched", self._chain.epoch is None, "before with_epoch()")
        is_native = collation_fn is collate and not self._chain.sample_stages
        collation = None if is_native else collation_fn or list
        return self._with(batch_size=size, collation=collation, drops_last=not partial)

    def repeat(self) -> WebDataset:
        """Begins the data again at its end: an epoch has no end, unless with_epoch() says it."""
        return self._with(repeats=True)

    def with_epoch(self, count: int) -> WebDataset:
        """An epoch is `count` batches of this rank, or samples without batched(). The data begins
        again at its end, and the next epoch goes on where this one ended."""
        return self._with(epoch=count, repeats=True)

    def with_length(self, count: int) -> WebDataset:
        """What len() says. Without it, len() is the exact number of batches of this rank."""
        return self._with(length=count)

    def dataset(self, num_workers: int | None = None) -> Dataset:
        """For get_savable_loader() and get_loader()."""
        chain = self._chain
        mode = chain.decoder.image_decode if chain.decoder else None
        options: dict[str, Any] = {
            **chain.options,
            "worker_config": self._worker_config(num_workers),
            "batch_size": chain.batch_size,
            "batch_drop_last": chain.drops_last,
            "task_encoder": _Encoder(chain),
            "tensors": "torch" if mode and mode.startswith("torch") else "numpy",
        }
        shuffles = chain.shuffles_shards
        shuffles = chain.shuffle_buffer > 0 if shuffles is None else shuffles
        if not (shuffles or chain.shuffle_buffer or chain.repeats or chain.resamples):
            return get_val_dataset(chain.path, **options)
        return get_train_dataset(
            chain.path,
            shuffle_buffer_size=chain.shuffle_buffer,
            shuffle_over_epochs_multiplier=-1 if chain.resamples else 1 if shuffles else None,
            parallel_shard_iters=None if shuffles or chain.resamples else 1,
            repeat=chain.repeats or chain.resamples,
            virtual_epoch_length=chain.epoch or 0,
            **options,
        )

    def loader(self, num_workers: int | None = None, **options: Any) -> SavableDataLoader:
        """A loader with a position of its own; the options are those of get_savable_loader()."""
        return get_savable_loader(self.dataset(num_workers), **options)

    def __iter__(self) -> Iterator[Any]:
        """Over a loader that this object keeps: a loop is an epoch, and goes on after a break."""
        return iter(self._loader())

    def __len__(self) -> int:
        """Batches of this rank in an epoch, or samples. TypeError if it has no end."""
        return len(self._loader()) if self._chain.length is None else self._chain.length

    def state_dict(self) -> dict[str, Any]:
        """The position of the loops over this object, as a dict of plain types."""
        return self._loader().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from there."""
        self._loader().load_state_dict(state_dict)

    def close(self) -> None:
        """Ends the workers of the loops over this object. The next loop begins anew."""
        if self._own_loader is not None:
            self._own_loader.close()
            self._own_loader = None

    def __enter__(self) -> WebDataset:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        default = _Chain(path="")
        said = [
            f"{name}={value!r}"
            for name, value in vars(self._chain).items()
            if name != "options" and value != getattr(default, name)
        ]
        return f"WebDataset({', '.join(said)})"

    def _loader(self) -> SavableDataLoader:
        if self._own_loader is None:
            self._own_loader = self.loader()
        return self._own_loader

    def _worker_config(self, num_workers: int | None) -> WorkerConfig:
        config = self._chain.worker_config or default_worker_config(0)
        said = self._chain.num_workers if num_workers is None else num_workers
        return config if said is None else dataclasses.replace(config, num_workers=said)

    def _with(self, **changes: Any) -> WebDataset:
        made = WebDataset.__new__(WebDataset)
        made._chain = dataclasses.replace(self._chain, **changes)
        made._own_loader = None
        return made

    def _with_stage(self, stage: Function) -> WebDataset:
        if self._chain.batch_size is None:
            return self._with(sample_stages=(*self._chain.sample_stages, stage))
        return self._with(batch_stages=(*self._chain.batch_stages, stage))

    def _with_sample_stage(self, method: str, stage: Function) -> WebDataset:
        self._check(method, self._chain.batch_size is None, "before batched()")
        return self._with_stage(stage)

    def _check(self, method: str, fits: bool, place: str) -> None:
        if not fits:
            raise ValueError(f"{method}() must be called {place}: {self!r}")
