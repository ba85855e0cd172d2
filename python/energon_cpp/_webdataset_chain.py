"""The settings that the methods of a WebDataset collect, and the dataset made from them."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

from ._webdataset_stages import Chain, Function, needed_parts
from .datasets import Dataset, get_train_dataset, get_val_dataset
from .decoder import SampleDecoder
from .task_encoder import TaskEncoder
from .worker_config import WorkerConfig

Collation = Callable[[list[Any]], Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WebDatasetChain:
    """The settings. Each method of WebDataset changes one or two of them."""

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
    slice_count: int | None = None
    length: int | None = None


class _Encoder(TaskEncoder[Any, Any, Any, Any]):
    """The stages of a chain. Without Python functions, all stages are native."""

    _as_energon = False

    def __init__(self, chain: WebDatasetChain) -> None:
        self.decoder = _decoder_of(chain)
        stages: dict[str, Any] = {}
        if chain.sample_stages:
            stages["encode_sample"] = Chain(chain.sample_stages)
        if chain.collation is not None:
            stages["batch"] = chain.collation
        if chain.batch_stages:
            stages["encode_batch"] = Chain(chain.batch_stages)
        vars(self).update(stages)


def _decoder_of(chain: WebDatasetChain) -> SampleDecoder | None:
    """The decoder of the chain, limited to the parts that a stage uses."""
    needed = needed_parts(chain.sample_stages)
    if chain.decoder is None or needed is None:
        return chain.decoder
    chosen = chain.decoder.parts
    parts = sorted(needed if chosen is None else needed & set(chosen))
    return dataclasses.replace(chain.decoder, parts=tuple(parts))


def dataset_of(chain: WebDatasetChain, worker_config: WorkerConfig) -> Dataset:
    """Makes the dataset. Raises ValueError for a slice of data without a fixed order."""
    mode = chain.decoder.image_decode if chain.decoder else None
    options: dict[str, Any] = {
        **chain.options,
        "worker_config": worker_config,
        "batch_size": chain.batch_size,
        "batch_drop_last": chain.drops_last,
        "task_encoder": _Encoder(chain),
        "tensors": "torch" if mode and mode.startswith("torch") else "numpy",
    }
    shuffles = chain.shuffles_shards
    shuffles = chain.shuffle_buffer > 0 if shuffles is None else shuffles
    if not (shuffles or chain.shuffle_buffer or chain.repeats or chain.resamples):
        return get_val_dataset(chain.path, limit=chain.slice_count, **options)
    if chain.slice_count is not None:
        raise ValueError(
            f"slice({chain.slice_count}) needs data in a fixed order, without shuffle(), "
            f"repeat(), with_epoch() or resampled=True: with_epoch({chain.slice_count}) makes "
            "epochs of this length, each of which continues where the previous one ended"
        )
    return get_train_dataset(
        chain.path,
        shuffle_buffer_size=chain.shuffle_buffer,
        shuffle_over_epochs_multiplier=-1 if chain.resamples else 1 if shuffles else None,
        parallel_shard_iters=None if shuffles or chain.resamples else 1,
        repeat=chain.repeats or chain.resamples,
        virtual_epoch_length=chain.epoch or 0,
        **options,
    )
