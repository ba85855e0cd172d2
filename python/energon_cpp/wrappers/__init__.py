"""Datasets around datasets: LimitDataset, RepeatDataset. Also functions over batches, under the
name of Energon's package. Other wrappers are native stages; to change their behavior, override
functions of a TaskEncoder."""

from __future__ import annotations

import functools
import operator
from typing import Any

from .. import _core
from .._explained_options import checks_options
from .._recipe import Wrapper
from ..batching import concat_pad, generic_concat, homogeneous_concat_mix
from ..datasets import Dataset, T_co
from ..worker_config import WorkerConfig

__all__ = [
    "LimitDataset",
    "RepeatDataset",
    "concat_pad",
    "generic_concat",
    "homogeneous_concat_mix",
]


_LARGEST = 2**63 - 1  # counted in 64 bits
_MOST_REPEATS = 1e15


class _WrapperDataset(Dataset[T_co]):
    """The batches of `dataset` with a native stage around them."""

    def __init__(
        self, dataset: Dataset[T_co], wrapper: Wrapper, worker_config: WorkerConfig | None
    ) -> None:
        name = type(self).__name__
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"{name}() needs a dataset of get_train_dataset(), get_val_dataset() or "
                f"get_val_datasets(), not a {type(dataset).__name__}"
            )
        if worker_config is not None and worker_config != dataset.worker_config:
            raise ValueError(
                f"worker_config must equal that of the dataset, {dataset.worker_config}, not "
                f"{worker_config}: {name}() does not need it"
            )
        self.dataset = dataset
        super().__init__(dataset._recipe.changed(wrapper=wrapper), wrapper(dataset._pipeline))


class LimitDataset(_WrapperDataset[T_co]):
    """The first batches of a dataset, the same in each epoch.

    Args:
        dataset: From get_val_dataset(), get_val_datasets() or get_train_dataset(), or a wrapper.
        length: Batches of this rank in an epoch.
        reset_after_epoch: Accepted without effect: each epoch starts the dataset over, as in
            Energon.
        worker_config: For scripts of Energon; must equal the worker_config of the dataset.
    """

    @checks_options
    def __init__(
        self,
        dataset: Dataset[T_co],
        length: int,
        *,
        reset_after_epoch: bool = False,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        length = _checked_length(length)
        super().__init__(dataset, functools.partial(_core.limited, length=length), worker_config)
        self.length = length
        self.reset_after_epoch = reset_after_epoch

    def __repr__(self) -> str:
        return f"LimitDataset({self.dataset!r}, length={self.length})"


class RepeatDataset(_WrapperDataset[T_co]):
    """The epochs of a dataset one after the other, as one epoch.

    Args:
        dataset: From get_val_dataset(), get_val_datasets() or get_train_dataset(), or a wrapper.
        repeats: Epochs of the dataset in an epoch; None means without end. With a fraction, such as
            2.7, the third one stops after 0.7 of its batches, and the next epoch continues there,
            as in Energon.
        restart: False leaves all epochs after the first one empty.
        worker_config: For scripts of Energon; must equal the worker_config of the dataset.
    """

    @checks_options
    def __init__(
        self,
        dataset: Dataset[T_co],
        *,
        repeats: float | None = None,
        restart: bool = True,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        repetitions = None if repeats is None else _repetitions(repeats)
        wrapper = functools.partial(_core.repeated, repetitions=repetitions, restarts=restart)
        super().__init__(dataset, wrapper, worker_config)
        self.repeats = repeats
        self.restart = restart

    def __repr__(self) -> str:
        return f"RepeatDataset({self.dataset!r}, repeats={self.repeats})"


def _checked_length(value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"length must be a whole number, not {value!r}") from None
    if number < 0:
        raise ValueError(f"length must be at least 0, not {number}")
    if number > _LARGEST:
        raise ValueError(f"length must be at most {_LARGEST}, not {number}")
    return number


def _repetitions(repeats: Any) -> float:
    if isinstance(repeats, (bool, str)) or not hasattr(repeats, "__float__"):
        raise TypeError(f"repeats must be a number or None, not {repeats!r}")
    if not repeats >= 0:
        raise ValueError(f"repeats must be at least 0, or None for no end, not {repeats}")
    if repeats > _MOST_REPEATS:
        raise ValueError(f"repeats must be at most 1e15, or None for no end, not {repeats}")
    return float(repeats)
