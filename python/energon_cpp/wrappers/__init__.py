"""Datasets around datasets, which users compose: MapDataset, BatchDataset, BlendDataset and others.
Also functions over batches, under the name of Energon's package.

A function becomes a stage of the native pipeline of the dataset. The order of stages is fixed:
shuffle buffer, functions of samples, packing, batches, functions of batches, EpochizeDataset,
LimitDataset and RepeatDataset. A wrapper that is out of this order raises ValueError.
BlendDataset, MixBatchDataset and ConcatDataset have a loader for each of their datasets.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Callable, Hashable, Sequence

from .. import _core
from .._composed import delivers_batches, with_function, with_stages
from .._errors import SkipSample
from .._explained_options import checks_options
from .._recipe import DatasetRecipe, Wrapper
from ..batching import concat_pad, generic_concat, homogeneous_concat_mix
from ..datasets import Dataset, T_co
from ..worker_config import WorkerConfig

__all__ = [
    "BaseWrapperDataset",
    "BatchDataset",
    "BlendDataset",
    "ConcatDataset",
    "EpochizeDataset",
    "FilterDataset",
    "GroupBatchDataset",
    "LimitDataset",
    "MapDataset",
    "MixBatchDataset",
    "PackingDataset",
    "RepeatDataset",
    "ShuffleBufferDataset",
    "concat_pad",
    "generic_concat",
    "homogeneous_concat_mix",
]


_LARGEST = 2**63 - 1  # counted in 64 bits
_MOST_REPEATS = 1e15


class BaseWrapperDataset(Dataset[T_co]):
    """Base class of the wrappers.

    Attributes:
        datasets: The datasets inside.
    """

    datasets: tuple[Dataset[Any], ...]

    @property
    def dataset(self) -> Dataset[Any]:
        """The dataset inside. Raises ValueError if there are several."""
        if len(self.datasets) != 1:
            raise ValueError(f"{type(self).__name__} has {len(self.datasets)} datasets")
        return self.datasets[0]

    def _take_in(self, datasets: Sequence[Any], worker_config: WorkerConfig | None) -> None:
        name = type(self).__name__
        if not datasets:
            raise ValueError(f"{name}() needs at least one dataset")
        for dataset in datasets:
            if not isinstance(dataset, Dataset):
                raise TypeError(
                    f"{name}() needs a dataset of get_train_dataset(), get_val_dataset() or "
                    f"get_val_datasets(), not a {type(dataset).__name__}"
                )
        expected = datasets[0].worker_config if worker_config is None else worker_config
        for dataset in datasets:
            if dataset.worker_config != expected:
                raise ValueError(
                    f"worker_config must equal that of the dataset, {dataset.worker_config}, not "
                    f"{expected}: {name}() does not need it"
                )
        self.datasets = tuple(datasets)


class _NativeWrapper(BaseWrapperDataset[T_co]):
    """The batches of `dataset` with a native stage around them."""

    def __init__(
        self, dataset: Dataset[T_co], wrapper: Wrapper, worker_config: WorkerConfig | None
    ) -> None:
        self._take_in([dataset], worker_config)
        _check_is_one(self, dataset)
        super().__init__(dataset._recipe.changed(wrapper=wrapper), wrapper(dataset._pipeline))


class _StageWrapper(BaseWrapperDataset[T_co]):
    """The pipeline of `dataset` with one more stage."""

    def __init__(
        self,
        dataset: Dataset[Any],
        worker_config: WorkerConfig | None,
        change: Callable[[DatasetRecipe], DatasetRecipe],
    ) -> None:
        self._take_in([dataset], worker_config)
        _check_is_one(self, dataset)
        super().__init__(change(dataset._recipe))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dataset!r})"


def _check_is_one(wrapper: Any, dataset: Dataset[Any]) -> None:
    if isinstance(dataset, _SeveralDatasets):
        raise ValueError(
            f"{type(wrapper).__name__}() cannot be put around a {type(dataset).__name__}: put it "
            "around each dataset inside"
        )


def _check_samples(name: str, recipe: DatasetRecipe) -> None:
    """Raises ValueError unless the recipe delivers samples that no later stage counts."""
    if delivers_batches(recipe):
        raise ValueError(f"{name}() needs a dataset of single samples: set batch_size=None")
    _check_is_uncounted(name, recipe)


def _check_is_uncounted(name: str, recipe: DatasetRecipe) -> None:
    counts = ("limit", "virtual_epoch_length")
    if recipe.wrappers or any(recipe.options.get(option) for option in counts):
        raise ValueError(
            f"{name}() must be inside EpochizeDataset(), LimitDataset() and RepeatDataset(), and "
            f"the dataset must have no {' or '.join(counts)}"
        )


class MapDataset(_StageWrapper[Any]):
    """Calls a function for each sample, or for each batch of a dataset of batches. It runs before
    LimitDataset() and RepeatDataset(), also if the dataset has them.

    Args:
        dataset: A dataset or wrapper.
        map_fn: Returns a sample, or is a generator of any number of samples. Raises SkipSample to
            leave a sample out.
        stateless_map_fn: Accepted without effect: functions must be stateless.
        map_fn_config: Accepted without effect.
        failure_tolerance: This many failures in a row end the stream; None means the number of the
            dataset.
        worker_config: For scripts of Energon; must equal the worker_config of the dataset.
    """

    @checks_options
    def __init__(
        self,
        dataset: Dataset[Any],
        map_fn: Callable[[Any], Any],
        *,
        stateless_map_fn: bool = False,
        map_fn_config: Any = None,
        failure_tolerance: int | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        _check_function("map_fn", map_fn)
        super().__init__(
            dataset, worker_config, lambda recipe: with_function(recipe, map_fn, failure_tolerance)
        )


class FilterDataset(_StageWrapper[Any]):
    """Keeps the samples, or batches, for which a function is true.

    Args:
        dataset: A dataset or wrapper.
        filter_fn: The function.
        filter_fn_config: Accepted without effect.
        worker_config: For scripts of Energon; must equal the worker_config of the dataset.
    """

    @checks_options
    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        filter_fn: Callable[[Any], bool],
        filter_fn_config: Any = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        _check_function("filter_fn", filter_fn)

        def keep(sample: Any) -> Any:
            if not filter_fn(sample):
                raise SkipSample
            return sample

        def change(recipe: DatasetRecipe) -> DatasetRecipe:
            _check_is_uncounted("FilterDataset", recipe)
            return with_function(recipe, keep)

        super().__init__(dataset, worker_config, change)


class BatchDataset(_StageWrapper[Any]):
    """Makes batches of samples.

    Args:
        dataset: A dataset of single samples.
        batch_size: Samples in a batch.
        batcher: Makes a batch of a list of samples.
        batcher_stateless: Accepted without effect: functions must be stateless.
        batcher_config: Accepted without effect.
        drop_last: Drop the samples at the end of an epoch that do not fill a batch.
        failure_tolerance: This many failures in a row end the stream; None means the number of the
            dataset.
        worker_config: For scripts of Energon; must equal the worker_config of the dataset.
    """

    @checks_options
    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int,
        batcher: Callable[[list[Any]], Any],
        *,
        batcher_stateless: bool = False,
        batcher_config: Any = None,
        drop_last: bool = False,
        failure_tolerance: int | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        _check_function("batcher", batcher)
        options = {"batch_size": _whole("batch_size", batch_size, 1), **_remainder(drop_last)}

        def change(recipe: DatasetRecipe) -> DatasetRecipe:
            _check_samples("BatchDataset", recipe)
            functions = {"batch": batcher, "encode_batch": None}
            return with_stages(recipe, functions, options, failure_tolerance)

        super().__init__(dataset, worker_config, change)


class GroupBatchDataset(_StageWrapper[Any]):
    """Makes batches of samples of the same group.

    Args:
        dataset: A dataset of single samples.
        fixed_batch_size: Samples in a batch of groups without their own size.
        sample_group_key: Returns the group of a sample and its batch size or None.
        batcher: Makes a batch of a list of samples.
        batcher_stateless: Accepted without effect: functions must be stateless.
        batcher_config: Accepted without effect.
        drop_last: Drop the samples at the end of an epoch that do not fill a batch.
        failure_tolerance: This many failures in a row end the stream; None means the number of the
            dataset.
        worker_config: For scripts of Energon; must equal the worker_config of the dataset.
    """

    @checks_options
    def __init__(
        self,
        dataset: Dataset[Any],
        fixed_batch_size: int | None,
        sample_group_key: Callable[[Any], tuple[Hashable, int | None]],
        batcher: Callable[[list[Any]], Any],
        *,
        batcher_stateless: bool = False,
        batcher_config: Any = None,
        drop_last: bool = False,
        failure_tolerance: int | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        _check_function("sample_group_key", sample_group_key)
        _check_function("batcher", batcher)
        options = {"batch_size": fixed_batch_size, **_remainder(drop_last)}

        def change(recipe: DatasetRecipe) -> DatasetRecipe:
            _check_samples("GroupBatchDataset", recipe)
            functions = {"batch": batcher, "encode_batch": None}
            functions["batch_group_criterion"] = sample_group_key
            return with_stages(recipe, functions, options, failure_tolerance)

        super().__init__(dataset, worker_config, change)


class PackingDataset(_StageWrapper[Any]):
    """Makes packs of samples.

    Args:
        dataset: A dataset of single samples.
        buffer_size: Number of samples from which packs are selected.
        pre_packer: Returns the samples of each pack, chosen from the buffer.
        final_packer: Makes a pack of a list of samples, or is a generator of packs.
        final_packer_stateless: Accepted without effect, like the other two: functions must be
            stateless.
        sample_encoder: Encodes the selected samples.
        sample_encoder_stateless: Accepted without effect.
        packer_config: Accepted without effect.
        pre_packer_failure_tolerance: This many failures in a row end the stream; None means the
            number of the dataset.
        final_packer_failure_tolerance: The same for final_packer.
        sample_encoder_failure_tolerance: The same for sample_encoder.
        worker_config: For scripts of Energon; must equal the worker_config of the dataset.
    """

    @checks_options
    def __init__(
        self,
        dataset: Dataset[Any],
        buffer_size: int,
        pre_packer: Callable[[list[Any]], list[list[Any]]],
        final_packer: Callable[[list[Any]], Any],
        *,
        final_packer_stateless: bool = False,
        sample_encoder: Callable[[Any], Any] | None = None,
        sample_encoder_stateless: bool = False,
        packer_config: Any = None,
        pre_packer_failure_tolerance: int | None = None,
        final_packer_failure_tolerance: int | None = None,
        sample_encoder_failure_tolerance: int | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        _check_function("pre_packer", pre_packer)
        _check_function("final_packer", final_packer)
        tolerances = {
            "select_samples_to_pack": pre_packer_failure_tolerance,
            "pack_selected_samples": final_packer_failure_tolerance,
            "postencode_sample": sample_encoder_failure_tolerance,
        }
        options = {"packing_buffer_size": _whole("buffer_size", buffer_size, 1)}

        def change(recipe: DatasetRecipe) -> DatasetRecipe:
            _check_samples("PackingDataset", recipe)
            if recipe.options["packing_buffer_size"] is not None:
                raise ValueError("PackingDataset() needs a dataset of samples, not of packs")
            functions: dict[str, Any] = {
                "select_samples_to_pack": pre_packer,
                "pack_selected_samples": final_packer,
            }
            if sample_encoder is not None:
                if "encode_samples" in recipe.stages or "postencode_sample" in recipe.stages:
                    raise ValueError("sample_encoder cannot follow encode_samples or "
                                     "postencode_sample of the task encoder")  # fmt: skip
                _check_function("sample_encoder", sample_encoder)
                functions["postencode_sample"] = sample_encoder
                if "encode_sample" in recipe.stages:
                    functions["preencode_sample"] = recipe.stages["encode_sample"]["call"]
                    functions["encode_sample"] = None
            return with_stages(recipe, functions, options, tolerances)

        super().__init__(dataset, worker_config, change)


class ShuffleBufferDataset(_StageWrapper[Any]):
    """Shuffles the samples of a dataset for training. The buffer holds their places, so that
    functions of samples run after it.

    Args:
        dataset: A dataset of single samples of get_train_dataset() or get_dataset_from_config().
        size: Number of samples in the buffer.
        worker_config: For scripts of Energon; must equal the worker_config of the dataset.
    """

    @checks_options
    def __init__(
        self, dataset: Dataset[Any], size: int, *, worker_config: WorkerConfig | None = None
    ) -> None:
        options = {"shuffle_buffer_size": _whole("size", size, 0)}

        def change(recipe: DatasetRecipe) -> DatasetRecipe:
            _check_samples("ShuffleBufferDataset", recipe)
            _check_trains("ShuffleBufferDataset", recipe)
            return recipe.changed(options=options)

        super().__init__(dataset, worker_config, change)


class EpochizeDataset(_StageWrapper[Any]):
    """Ends an epoch after a number of batches; the next one continues there.

    Args:
        dataset: A dataset for training.
        length: Batches of this rank in an epoch, or samples of a dataset of single samples.
        worker_config: For scripts of Energon; must equal the worker_config of the dataset.
    """

    @checks_options
    def __init__(
        self, dataset: Dataset[Any], length: int, worker_config: WorkerConfig | None = None
    ) -> None:
        options = {"virtual_epoch_length": _whole("length", length, 1)}

        def change(recipe: DatasetRecipe) -> DatasetRecipe:
            _check_is_uncounted("EpochizeDataset", recipe)
            _check_trains("EpochizeDataset", recipe)
            return recipe.changed(options=options)

        super().__init__(dataset, worker_config, change)
        self.length = length


def _check_trains(name: str, recipe: DatasetRecipe) -> None:
    if not recipe.training:
        raise ValueError(f"{name}() needs a dataset for training, of get_train_dataset()")


def _check_function(name: str, value: Any) -> None:
    if not callable(value):
        raise TypeError(f"{name} must be a function, not {value!r}")


def _remainder(drops: bool) -> dict[str, Any]:
    return {"remainder": "drop" if drops else "smaller-batch"}


class LimitDataset(_NativeWrapper[T_co]):
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
        length = _whole("length", length, 0)
        super().__init__(dataset, functools.partial(_core.limited, length=length), worker_config)
        self.length = length
        self.reset_after_epoch = reset_after_epoch

    def __repr__(self) -> str:
        return f"LimitDataset({self.dataset!r}, length={self.length})"


class RepeatDataset(_NativeWrapper[T_co]):
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


class _SeveralDatasets(BaseWrapperDataset):
    """Datasets whose batches alternate. The loader has a loader for each of them."""

    weights: tuple[float, ...] | None = None  # None: one after the other
    batch_size: int | None = None  # Batches that are mixed into one
    batch_mix_fn: Callable[[list[Any]], Any] | None = None

    def __init__(self, datasets: Sequence[Any], worker_config: WorkerConfig | None) -> None:
        self._take_in(datasets, worker_config)

    @property
    def path(self) -> str:
        return "::".join(dataset.path for dataset in self.datasets)

    @property
    def worker_config(self) -> WorkerConfig:
        return self.datasets[0].worker_config

    @property
    def calls_python(self) -> bool:
        return any(dataset.calls_python for dataset in self.datasets)

    def _lengths(self) -> tuple[int | None, int]:
        several = [dataset._lengths() for dataset in self.datasets]
        exact = [one for one, _ in several]
        known = None if None in exact else sum(one or 0 for one in exact)
        estimated = sum(one for _, one in several)
        if self.batch_size is None:
            return known, estimated
        return known and -(-known // self.batch_size), -(-estimated // self.batch_size)

    def _with(self, options: dict[str, Any]) -> Dataset:
        changed = type(self).__new__(type(self))
        vars(changed).update(vars(self))
        changed.datasets = tuple(dataset._with(options) for dataset in self.datasets)
        return changed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.datasets))})"


class BlendDataset(_SeveralDatasets):
    """Batches, or samples, of several datasets, drawn at random. A metadataset blends samples
    before they are batched, and needs one loader only.

    Args:
        *dataset_weights: Datasets with their weights.
        worker_config: For scripts of Energon; must equal the worker_config of the datasets.
    """

    @checks_options
    def __init__(
        self, *dataset_weights: tuple[Dataset, float], worker_config: WorkerConfig | None = None
    ) -> None:
        datasets, self.weights = _weighted(dataset_weights)
        super().__init__(datasets, worker_config)

    @property
    def dataset_weights(self) -> tuple[tuple[Dataset, float], ...]:
        return tuple(zip(self.datasets, self.weights or (), strict=True))


class MixBatchDataset(_SeveralDatasets):
    """Makes a batch of several batches, which are drawn from several datasets at random.

    Args:
        *dataset_weights: Datasets with their weights.
        batch_size: Number of batches that are mixed; fewer at the end of an epoch.
        batch_mix_fn: Makes a batch of a list of batches, in the trainer; None keeps the list.
        worker_config: For scripts of Energon; must equal the worker_config of the datasets.
    """

    @checks_options
    def __init__(
        self,
        *dataset_weights: tuple[Dataset, float],
        batch_size: int,
        batch_mix_fn: Callable[[list[Any]], Any] | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        datasets, self.weights = _weighted(dataset_weights)
        super().__init__(datasets, worker_config)
        self.batch_size = _whole("batch_size", batch_size, 1)
        self.batch_mix_fn = batch_mix_fn


class ConcatDataset(_SeveralDatasets):
    """Several datasets one after the other, as one epoch.

    Args:
        *datasets: The datasets, whose epochs must end.
        worker_config: For scripts of Energon; must equal the worker_config of the datasets.
    """

    @checks_options
    def __init__(self, *datasets: Dataset, worker_config: WorkerConfig | None = None) -> None:
        super().__init__(datasets, worker_config)


def _weighted(pairs: Sequence[Any]) -> tuple[list[Any], tuple[float, ...]]:
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"expected pairs of a dataset and its weight, found {pair!r}")
        if not 0 < pair[1] < float("inf"):
            raise ValueError(f"weights must be above 0, not {pair[1]}")
    return [dataset for dataset, _ in pairs], tuple(float(weight) for _, weight in pairs)


def _whole(name: str, value: Any, least: int) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, not {number}")
    if number > _LARGEST:
        raise ValueError(f"{name} must be at most {_LARGEST}, not {number}")
    return number


def _repetitions(repeats: Any) -> float:
    if isinstance(repeats, (bool, str)) or not hasattr(repeats, "__float__"):
        raise TypeError(f"repeats must be a number or None, not {repeats!r}")
    if not repeats >= 0:
        raise ValueError(f"repeats must be at least 0, or None for no end, not {repeats}")
    if repeats > _MOST_REPEATS:
        raise ValueError(f"repeats must be at most 1e15, or None for no end, not {repeats}")
    return float(repeats)
