"""The functions of a training recipe: TaskEncoder, DefaultTaskEncoder, Cooker.

Override what you need. A function that is not overridden is no stage and costs nothing; decoding
and the standard batch run natively, without the interpreter. Functions run in the workers. They
must give the same result for the same sample: the generators of random, numpy and torch are seeded
before each call from the seed and the sample, so augmentations may use them.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any, Callable, Generic, Hashable, Sequence, TypeVar

from ._sample import field_names
from .batching import generic_batch
from .decoder import SampleDecoder

T_sample = TypeVar("T_sample")
T_encoded_sample = TypeVar("T_encoded_sample")
T_raw_batch = TypeVar("T_raw_batch")
T_batch = TypeVar("T_batch")
F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Cooker:
    """Makes a sample of a crude one. has_subflavors: the cooker is for datasets whose subflavors
    have all of these entries; the first cooker that fits is used."""

    cook: Callable[[Any], Any]
    has_subflavors: dict[str, Any] | None = None


def stateless(
    function: F | None = None, *, restore_seeds: bool = False, failure_tolerance: int | None = None
) -> Any:
    """Marks a function that depends on its argument and random numbers only, as in Energon. All
    functions must be like that, and random numbers are seeded for each call, so the mark changes
    nothing."""

    def mark(marked: F) -> F:
        marked.__stateless__ = True  # type: ignore[attr-defined]
        return marked

    return mark if function is None else mark(function)


def cooker(function: F | None = None, **needs: bool) -> Any:
    """Marks a cook function, as in Energon."""
    unknown = [name for name, value in needs.items() if value]
    if unknown:
        raise NotImplementedError(f"cookers that need {', '.join(unknown)} are not supported yet")
    return stateless if function is None else stateless(function)


class TaskEncoder(Generic[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """Base of encoders. The names and their meaning are Energon's."""

    decoder: SampleDecoder | None = SampleDecoder()
    cookers: Sequence[Cooker] = ()

    def encode_sample(self, sample: T_sample) -> T_encoded_sample:
        """One sample, or a generator of any number. Excludes the two below."""
        return sample  # type: ignore[return-value]

    def preencode_sample(self, sample: T_sample) -> Any:
        """Runs before packing: what select_samples_to_pack needs, such as the length."""
        return sample

    def postencode_sample(self, sample: Any) -> T_encoded_sample:
        """Runs on selected samples only: the expensive part."""
        return sample  # type: ignore[no-any-return]

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        """For each pack its samples, of those in the packing buffer."""
        raise NotImplementedError("packing needs select_samples_to_pack")

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        """One pack of the samples, or a generator of any number."""
        raise NotImplementedError("packing needs pack_selected_samples")

    def batch_group_criterion(self, sample: T_encoded_sample) -> tuple[Hashable, int | None]:
        """(group, batch size or None): samples are batched with others of their group."""
        return None, None

    def batch(self, samples: list[T_encoded_sample]) -> T_raw_batch:
        """One batch of the samples, or a generator of any number."""
        return generic_batch(samples)  # type: ignore[no-any-return]

    def encode_batch(self, batch: T_raw_batch) -> T_batch:
        """One batch, or a generator of any number."""
        return batch  # type: ignore[return-value]


class DefaultTaskEncoder(TaskEncoder[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """Converts between types by the names of their fields.

    encoded_sample_type: what encode_sample makes of a sample. raw_batch_type: what batch makes.
    batch_type: what encode_batch makes. Each may be a dataclass, a named tuple or dict; None: no
    conversion, and no stage.
    """

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
        return _converted(super().batch(samples), self._raw_batch_type)  # type: ignore[no-any-return]

    def encode_batch(self, batch: T_raw_batch) -> T_batch:
        return _converted(batch, self._batch_type)  # type: ignore[no-any-return]


def _converted(value: Any, kind: type | None) -> Any:
    if kind is None or isinstance(value, kind):
        return value
    names = list(value) if isinstance(value, dict) else field_names(value)
    values = {name: value[name] if isinstance(value, dict) else getattr(value, name) for name in names}
    if issubclass(kind, dict):
        return kind(values)
    wanted = field_names_of_type(kind)
    return kind(**{name: values[name] for name in wanted if name in values})


def field_names_of_type(kind: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return tuple(kind._fields)  # type: ignore[attr-defined]


_DEFAULT_TYPES = {
    "encode_sample": "_encoded_sample_type",
    "batch": "_raw_batch_type",
    "encode_batch": "_batch_type",
}


def _is_overridden(encoder: TaskEncoder[Any, Any, Any, Any], name: str) -> bool:
    if name in vars(encoder):
        return True
    of_class = getattr(type(encoder), name)
    if of_class is getattr(DefaultTaskEncoder, name) and name in _DEFAULT_TYPES:
        return getattr(encoder, _DEFAULT_TYPES[name], None) is not None
    return of_class is not getattr(TaskEncoder, name)


def stages_of(
    encoder: TaskEncoder[Any, Any, Any, Any], *, packs: bool, batched: bool
) -> dict[str, Any]:
    """The functions of the encoder as open_pipeline() takes them."""
    names = ["encode_sample", "preencode_sample", "postencode_sample"]
    names += ["select_samples_to_pack", "pack_selected_samples"] if packs else []
    names += ["batch_group_criterion"]
    used = {name for name in names if _is_overridden(encoder, name)}
    batched = batched or "batch_group_criterion" in used
    if batched:
        used |= {name for name in ("batch", "encode_batch") if _is_overridden(encoder, name)}

    # Who takes the samples of whom, in order; None is a function of the library.
    flow: list[str | None] = ["cookers"] if encoder.cookers else []
    flow += [name for name in ("encode_sample", "preencode_sample") if name in used]
    flow += [name for name in ("postencode_sample", "pack_selected_samples") if name in used]
    if batched:
        flow += ["batch" if "batch" in used else None]
        flow += ["encode_batch"] if "encode_batch" in used else []

    def spec(name: str, function: Callable[..., Any]) -> dict[str, Any]:
        place = flow.index(name) if name in flow else None
        after = flow[place + 1 :] if place is not None else []
        return {
            "call": function,
            "is_generator": inspect.isgeneratorfunction(inspect.unwrap(function)),
            "hands_on": bool(after) and after[0] is not None,
            "is_last": not after,
            "takes_batches": name == "encode_batch",
        }

    stages: dict[str, Any] = {name: spec(name, getattr(encoder, name)) for name in used}
    if encoder.cookers:
        stages["cookers"] = [
            spec("cookers", one.cook) | {"has_subflavors": json.dumps(one.has_subflavors or {})}
            for one in encoder.cookers
        ]
    return stages
