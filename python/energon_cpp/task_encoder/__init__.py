"""The functions of a training recipe: TaskEncoder, DefaultTaskEncoder, Cooker.

Override the functions that you need. A function that is not overridden adds no stage; decoding and
the standard batch run natively, without the interpreter. Functions run in the workers. They must
return the same result for the same sample. Augmentations may use the generators of random, numpy
and torch, which are seeded before each call from the seed and the sample.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Generic, Hashable, Sequence

from .._caches import FileStoreCachePool, worker_pool
from .._explained_options import checks_options
from .._sample import Batch, basic_sample_keys, field_names
from ..batching import batch_list, batch_pad_stack, batch_stack, generic_batch
from ..cooking import Cooker, cooker, get_failure_tolerance, get_stateless, stateless
from ..decoder import SampleDecoder
from ..worker_config import NOT_ACTIVE, WorkerConfig

if TYPE_CHECKING:  # at run time, energon_cpp adds them
    from ..datasets import get_train_dataset as get_train_dataset
    from ..datasets import get_val_dataset as get_val_dataset
    from ..datasets import get_val_datasets as get_val_datasets

__all__ = [
    "AugmentTaskEncoder",
    "Batch",
    "Cooker",
    "DefaultTaskEncoder",
    "TaskEncoder",
    "basic_sample_keys",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "cooker",
    "generic_batch",
    "get_failure_tolerance",
    "get_stateless",
    "stateless",
]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_sample = TypeVar("T_sample", default=Any)
    T_encoded_sample = TypeVar("T_encoded_sample", default=Any)
    T_raw_batch = TypeVar("T_raw_batch", default=Any)
    T_batch = TypeVar("T_batch", default=Any)
else:
    from typing import TypeVar

    T_sample = TypeVar("T_sample")
    T_encoded_sample = TypeVar("T_encoded_sample")
    T_raw_batch = TypeVar("T_raw_batch")
    T_batch = TypeVar("T_batch")


class TaskEncoder(Generic[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """Base class of encoders. Names and their meaning match Energon's."""

    decoder: SampleDecoder | None = SampleDecoder()
    cookers: Sequence[Cooker] = ()
    #: Failures in a row that end the stream, for functions without @stateless(failure_tolerance=).
    #: 0 means no limit, None the failure_tolerance of the dataset.
    __default_failure_tolerance__: int | None = None
    # Without a decoder, samples have their types, with fields of bytes. Batches list numbers.
    _as_energon = True

    def cook_crude_sample(self, sample: Any, cooker: Cooker, aux: dict[str, Any]) -> T_sample:
        """Calls a cooker. Override this to change how all cookers are called.

        Args:
            sample: The crude sample.
            cooker: The cooker that matches its dataset.
            aux: The file stores, and `primary` and `cache` if the cooker needs them.
        """
        return cooker.cook(sample, **aux)  # type: ignore[no-any-return]

    def encode_sample(self, sample: T_sample) -> T_encoded_sample:
        """Returns one sample, or a generator of any number of samples. Cannot be combined with
        preencode_sample and postencode_sample."""
        return sample  # type: ignore[return-value]

    def encode_samples(self, samples: list[T_sample]) -> list[T_encoded_sample]:
        """Encodes many samples in one call, for libraries that take lists, such as Hugging Face's
        tokenizers. The results are delivered one by one, as those of encode_sample.

        A result must depend on its sample only, so draw no random numbers: after a resume, and in
        restore_sample(), calls have other samples. If a call with several samples raises an
        exception, also SkipSample, the function is called with each of them alone. Cannot be
        combined with encode_sample, preencode_sample and postencode_sample.

        Args:
            samples: Up to samples_per_call samples, an option of get_train_dataset() and
                get_val_dataset(); fewer at the end of an epoch.

        Returns:
            A list or tuple with one result for each sample, in the same order. Another number is a
            ValueError, which on_error="skip" does not skip.
        """
        return samples  # type: ignore[return-value]

    def preencode_sample(self, sample: T_sample) -> Any:
        """Runs before packing. Computes what select_samples_to_pack needs, such as the length."""
        return sample

    def postencode_sample(self, sample: Any) -> T_encoded_sample:
        """Runs only on selected samples, for the expensive part of encoding."""
        return sample  # type: ignore[no-any-return]

    def sample_cost(self, sample: Any) -> float:
        """What the sample costs, such as its length: samples are sorted by it in pools of
        sort_pool_size. Runs after encode_sample and preencode_sample."""
        raise NotImplementedError("sorting needs sample_cost")

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        """Returns the samples of each pack, chosen from `samples`, the packing buffer."""
        raise NotImplementedError("packing needs select_samples_to_pack")

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        """Returns one pack of the samples, or a generator of any number of packs."""
        raise NotImplementedError("packing needs pack_selected_samples")

    def batch_group_criterion(self, sample: T_encoded_sample) -> tuple[Hashable, int | None]:
        """Returns (group, batch size or None). Samples are batched with others of their group. None
        means the batch size of the dataset."""
        return None, None

    def batch(self, samples: list[T_encoded_sample]) -> T_raw_batch:
        """Returns one batch of the samples, or a generator of any number of batches."""
        return generic_batch(samples)  # type: ignore[no-any-return]

    def encode_batch(self, batch: T_raw_batch) -> T_batch:
        """Returns one batch, or a generator of any number of batches."""
        return batch  # type: ignore[return-value]

    def build_train_datasets(
        self,
        *,
        datasets: Any,
        worker_config: WorkerConfig,
        batch_size: int | None,
        batch_drop_last: bool = False,
        packing_buffer_size: int | None = None,
        virtual_epoch_length: int = 0,
        shuffle_buffer_size: int | None = None,
        blend_mode: Any = None,
        repeat: bool = True,
    ) -> Any:
        """Returns the dataset of get_train_dataset(). Override this to put wrappers around what
        this method returns, or to compose `datasets` otherwise.

        Args:
            datasets: For each dataset of the metadataset, an object with `dataset` and `weight` or
                `repetitions`; `dataset.build()` opens its samples, which are decoded but not
                encoded. Pass the list on unchanged to this method, with other options if needed.
            worker_config: Ranks and workers.
            batch_size: As in get_train_dataset(), and so the following.
            batch_drop_last: The option of get_train_dataset().
            packing_buffer_size: The option of get_train_dataset().
            virtual_epoch_length: The option of get_train_dataset().
            shuffle_buffer_size: The option of get_train_dataset().
            blend_mode: How the metadataset mixes the datasets.
            repeat: The option of get_train_dataset().
        """
        return datasets.whole(
            batch_size=batch_size,
            remainder="drop" if batch_drop_last else "smaller-batch",
            packing_buffer_size=packing_buffer_size,
            virtual_epoch_length=virtual_epoch_length,
            shuffle_buffer_size=shuffle_buffer_size or 0,
            repeat=repeat,
        )

    def build_val_datasets(
        self,
        *,
        datasets: Any,
        worker_config: WorkerConfig,
        batch_size: int | None,
        batch_drop_last: bool = False,
        packing_buffer_size: int | None = None,
        limit: int | None = None,
    ) -> Any:
        """Returns the dataset of get_val_dataset(), as build_train_datasets()."""
        return datasets.whole(
            batch_size=batch_size,
            remainder="drop" if batch_drop_last else "smaller-batch",
            packing_buffer_size=packing_buffer_size,
            limit=limit,
        )

    @property
    def current_batch_index(self) -> int:
        """In a function, the number of the batch that is being made, counted from 0 over all epochs
        of this rank, and unique in it. The same in a restored batch."""
        return _active_config().active_worker_batch_index  # type: ignore[no-any-return]

    @property
    def current_sample_index(self) -> int:
        """In a function, the number of its call in this worker, counted from 0, times the number of
        workers, plus the index of the worker: unique in the rank. The same in a restored sample.
        Cookers of all datasets are counted together, and batch_group_criterion counts batches."""
        return _active_config().active_worker_sample_index  # type: ignore[no-any-return]

    @property
    def cache(self) -> FileStoreCachePool:
        """The cache on a local disk, which belongs to the worker that runs the function."""
        return worker_pool


def _active_config() -> Any:
    config = WorkerConfig.active_worker_config
    if config is None:
        raise RuntimeError(NOT_ACTIVE)
    return config


class DefaultTaskEncoder(TaskEncoder[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """Converts between types by the names of their fields.

    Each type may be a dataclass, a named tuple or dict. None means no conversion and no stage.

    Args:
        encoded_sample_type: Type of the results of encode_sample.
        raw_batch_type: Type of the results of batch.
        batch_type: Type of the results of encode_batch.
    """

    @checks_options
    def __init__(
        self,
        *,
        encoded_sample_type: type | None = None,
        raw_batch_type: type | None = None,
        batch_type: type | None = None,
    ) -> None:
        self._encoded_sample_type = encoded_sample_type
        self._raw_batch_type = raw_batch_type
        self._batch_type = batch_type

    def encode_sample(self, sample: T_sample) -> T_encoded_sample:
        return _converted(sample, self._encoded_sample_type)  # type: ignore[no-any-return]

    def batch(self, samples: list[T_encoded_sample]) -> T_raw_batch:
        kind: Any = self._raw_batch_type
        if kind is not None and hasattr(kind, "from_samples"):
            return kind.from_samples(samples)  # type: ignore[no-any-return]
        return _converted(super().batch(samples), kind)  # type: ignore[no-any-return]

    def encode_batch(self, batch: T_raw_batch) -> T_batch:
        return _converted(batch, self._batch_type)  # type: ignore[no-any-return]


class AugmentTaskEncoder(TaskEncoder[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """Calls the functions of another encoder. Override functions to add to it."""

    def __init__(
        self, task_encoder: TaskEncoder[T_sample, T_encoded_sample, T_raw_batch, T_batch]
    ) -> None:
        self._task_encoder = task_encoder
        self.decoder = task_encoder.decoder
        self.cookers = task_encoder.cookers

    def cook_crude_sample(self, sample: Any, cooker: Cooker, aux: dict[str, Any]) -> T_sample:
        return self._task_encoder.cook_crude_sample(sample, cooker, aux)

    def encode_sample(self, sample: T_sample) -> T_encoded_sample:
        return self._task_encoder.encode_sample(sample)

    def encode_samples(self, samples: list[T_sample]) -> list[T_encoded_sample]:
        return self._task_encoder.encode_samples(samples)

    def preencode_sample(self, sample: T_sample) -> Any:
        return self._task_encoder.preencode_sample(sample)

    def postencode_sample(self, sample: Any) -> T_encoded_sample:
        return self._task_encoder.postencode_sample(sample)

    def sample_cost(self, sample: Any) -> float:
        return self._task_encoder.sample_cost(sample)

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return self._task_encoder.select_samples_to_pack(samples)

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return self._task_encoder.pack_selected_samples(samples)

    def batch_group_criterion(self, sample: T_encoded_sample) -> tuple[Hashable, int | None]:
        return self._task_encoder.batch_group_criterion(sample)

    def batch(self, samples: list[T_encoded_sample]) -> T_raw_batch:
        return self._task_encoder.batch(samples)

    def encode_batch(self, batch: T_raw_batch) -> T_batch:
        return self._task_encoder.encode_batch(batch)

    def build_train_datasets(self, **arguments: Any) -> Any:
        return self._task_encoder.build_train_datasets(**arguments)

    def build_val_datasets(self, **arguments: Any) -> Any:
        return self._task_encoder.build_val_datasets(**arguments)


def _converted(value: Any, kind: type | None) -> Any:
    if kind is None or isinstance(value, kind):
        return value
    names = list(value) if isinstance(value, dict) else field_names(value)
    of_dict = isinstance(value, dict)
    values = {name: value[name] if of_dict else getattr(value, name) for name in names}
    if issubclass(kind, dict):
        return kind(values)
    fields = field_names_of_type(kind)
    return kind(**{name: values[name] for name in fields if name in values})


def field_names_of_type(kind: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return tuple(kind._fields)  # type: ignore[attr-defined]


_DEFAULT_TYPES = {
    "encode_sample": "_encoded_sample_type",
    "batch": "_raw_batch_type",
    "encode_batch": "_batch_type",
}


def overrides(encoder: TaskEncoder[Any, Any, Any, Any], name: str) -> bool:
    """Whether the encoder, or one inside it, has a method of its own with this name."""
    of_class = getattr(type(encoder), name)
    if isinstance(encoder, AugmentTaskEncoder) and of_class is getattr(AugmentTaskEncoder, name):
        return overrides(encoder._task_encoder, name)
    return name in vars(encoder) or of_class is not getattr(TaskEncoder, name)


def stage_function(encoder: TaskEncoder[Any, Any, Any, Any], name: str) -> Any:
    """The function `name` of the encoder if it is a stage, else None."""
    if name in vars(encoder):
        return getattr(encoder, name)
    of_class = getattr(type(encoder), name)
    if isinstance(encoder, AugmentTaskEncoder) and of_class is getattr(AugmentTaskEncoder, name):
        return stage_function(encoder._task_encoder, name)
    if of_class is getattr(DefaultTaskEncoder, name) and name in _DEFAULT_TYPES:
        is_stage = getattr(encoder, _DEFAULT_TYPES[name], None) is not None
    else:
        is_stage = of_class is not getattr(TaskEncoder, name)
    return getattr(encoder, name) if is_stage else None
