"""Functions that make a batch of samples, for the function `batch` of a TaskEncoder.

An encoder that does not override `batch` uses the library's generic_batch, which does the same
natively, without the interpreter. RaggedBatch and the functions of ImageBuckets are native, too,
where an encoder has them as its functions:

    class Encoder(energon.DefaultTaskEncoder):
        decoder = energon.SampleDecoder(image_decode=None, tokenizer=...)
        buckets = energon.ImageBuckets([(512, 512), (640, 384), (384, 640)])
        encode_sample = buckets.fit("jpg")
        batch_group_criterion = buckets.group_by("jpg")
        batch = energon.RaggedBatch(["tokens"])
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import operator
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Sequence, TypeVar, Union

from . import _core
from ._explained_options import checks_fields
from ._sample import CrudeSample, Item, field_names
from ._tensors import tensor_library

if TYPE_CHECKING:
    from .transforms import Transform

T = TypeVar("T")


def batch_list(batch: Sequence[Any]) -> list[Any]:
    """Returns the values as a list."""
    return list(batch)


def batch_stack(batch: Sequence[Any]) -> Any:
    """Stacks arrays or tensors of equal shape: values of shape (...) become (N, ...)."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(batch[0], torch.Tensor):
        return torch.stack(list(batch))
    import numpy

    return numpy.stack([numpy.asarray(value) for value in batch])


def batch_pad_stack(batch: Sequence[Any]) -> Any:
    """Stacks arrays or tensors with the same number of dimensions. Smaller ones are padded with 0
    at the end of each dimension."""
    first = batch[0]
    if all(value.shape == first.shape for value in batch):
        return batch_stack(batch)
    sizes = [max(value.shape[i] for value in batch) for i in range(len(first.shape))]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(first, torch.Tensor):
        result: Any = first.new_zeros((len(batch), *sizes))
    else:
        import numpy

        batch = [numpy.asarray(value) for value in batch]
        result = numpy.zeros((len(batch), *sizes), batch[0].dtype)
    for i, value in enumerate(batch):
        result[(i, *(slice(size) for size in value.shape))] = value
    return result


def batch_field(values: Sequence[Any]) -> Any:
    """Pads and stacks arrays and tensors. Returns other values as a list."""
    first = values[0]
    if hasattr(first, "shape") and hasattr(first, "dtype"):
        return batch_pad_stack(values) if len(first.shape) > 0 else batch_stack(values)
    return list(values)


def generic_batch(batch: Sequence[Any]) -> Any:
    """Makes a batch of samples. Arrays and tensors are padded and stacked, dicts and dataclasses
    are batched field by field, everything else becomes a list. A class with `from_samples` makes
    its own batches.

    Raises:
        TypeError: The samples have different classes.
    """
    kinds = {type(one): one for one in batch}
    if len(kinds) > 1 and any(_has_fields(one) for one in kinds.values()):
        names = " and ".join(sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds))
        raise TypeError(
            f"a batch needs samples of one class, not of {names}; return one class from your "
            "function, or make the batch yourself"
        )
    return _batched(batch)


def _has_fields(value: Any) -> bool:
    return isinstance(value, (dict, Item)) or hasattr(type(value), "__dataclass_fields__")


def _batched(batch: Sequence[Any]) -> Any:
    first = batch[0]
    if hasattr(first, "shape") and hasattr(first, "dtype"):
        return batch_field(batch)
    if any(type(one) is not type(first) for one in batch):
        return list(batch)
    if isinstance(first, dict):
        fields = {name: _batched([sample[name] for sample in batch]) for name in first}
        return CrudeSample(fields) if isinstance(first, CrudeSample) else fields
    if hasattr(type(first), "from_samples"):
        return type(first).from_samples(batch)
    if (dataclasses.is_dataclass(first) and not isinstance(first, type)) or isinstance(first, Item):
        result = type(first).__new__(type(first))
        for name in field_names(first):
            values = [getattr(sample, name) for sample in batch]
            own = name.startswith("__") and name.endswith("__")
            object.__setattr__(result, name, values if own else _batched(values))
        return result
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(_batched(list(values)) for values in zip(*batch)))
    return list(batch)


def concat_pad(batch: Sequence[Any]) -> Any:
    """Concatenates arrays or tensors along the first dimension. The other dimensions are padded
    with 0 at the end."""
    first = batch[0]
    sizes = [max(one.shape[i] for one in batch) for i in range(1, len(first.shape))]
    total = sum(one.shape[0] for one in batch)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(first, torch.Tensor):
        result: Any = first.new_zeros((total, *sizes))
    else:
        import numpy

        batch = [numpy.asarray(one) for one in batch]
        result = numpy.zeros((total, *sizes), batch[0].dtype)
    begin = 0
    for one in batch:
        end = begin + one.shape[0]
        result[(slice(begin, end), *(slice(size) for size in one.shape[1:]))] = one
        begin = end
    return result


def generic_concat(batch: Sequence[Any]) -> Any:
    """Joins batches into one: arrays and tensors by concat_pad(), dicts and dataclasses field by
    field. Everything else becomes a list."""
    first = batch[0]
    if hasattr(first, "shape") and hasattr(first, "dtype"):
        return concat_pad(batch)
    if isinstance(first, dict):
        return {name: generic_concat([one[name] for one in batch]) for name in first}
    if (dataclasses.is_dataclass(first) and not isinstance(first, type)) or isinstance(first, Item):
        names = field_names(first)
        fields = {name: generic_concat([getattr(one, name) for one in batch]) for name in names}
        return type(first)(**fields)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(generic_concat(list(values)) for values in zip(*batch)))
    return list(batch)


def homogeneous_concat_mix(samples: Sequence[Any]) -> Any:
    """Calls generic_concat() for batches of one type. Raises TypeError for several types."""
    kinds = {type(one) for one in samples}
    if len(kinds) != 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"the batches must be of one type, not of {names}")
    return generic_concat(samples)


# --- Functions of the library ---


class NativeFunction:
    """A function of the library. As the function `stage` of an encoder, it runs without the
    interpreter. It can also be called; it then draws random numbers from Python's `random`."""

    stage: ClassVar[str]

    def _options(self) -> dict[str, Any]:
        """The options of open_pipeline() for the function."""
        raise NotImplementedError


@checks_fields
@dataclasses.dataclass(frozen=True)
class RaggedBatch(NativeFunction):
    """Makes a batch without padding: a ragged field is {"values": (rows, ...), "offsets": int64
    (samples + 1)}, and the rows of sample i are values[offsets[i]:offsets[i + 1]]. Lists of tensors
    of one shape are ragged by item. Other fields are as in the standard batch, but numbers become
    tensors. torch.nested.nested_tensor_from_jagged(**batch["tokens"]) shares the memory.

    Args:
        fields: The names of the ragged fields, "a.b" for field b of the dict a. None means all
            fields with tensors, except scalars, or with lists of tensors.
    """

    fields: Sequence[str] | None = None

    stage: ClassVar[str] = "batch"

    def __post_init__(self) -> None:
        if isinstance(self.fields, str):
            raise TypeError(f"fields must be a list of names, not {self.fields!r}")
        if self.fields is not None:
            object.__setattr__(self, "fields", tuple(self.fields))

    def __call__(self, samples: Sequence[Any]) -> Any:
        return _core.ragged_batch(list(samples), list(self.fields or ()), tensor_library())

    def _options(self) -> dict[str, Any]:
        return {"ragged_fields": list(self.fields or ())}


@checks_fields
@dataclasses.dataclass(frozen=True)
class ImageBuckets:
    """Sizes of images, so that each batch has images of one size. An image goes to the bucket whose
    ratio of width to height is nearest, by the factor between them; among equal ratios, to the
    largest bucket that the image covers. It is resized to cover the bucket and cropped.

    Args:
        sizes: (height, width) of each bucket, or one number for both.
        crop: "center" or "random", which draws from the random numbers of the sample.
        image_decode: The mode of the images, as in SampleDecoder.
        transform: Transforms that keep the size, such as RandomHorizontalFlip, ColorJitter and
            Normalize, from energon_cpp.transforms. ExifTranspose comes first.
        interpolation: As in transforms.Resize.
        antialias: As in transforms.Resize.
    """

    sizes: Sequence[Union[int, Sequence[int]]]
    crop: str = dataclasses.field(default="center", kw_only=True)
    image_decode: str = dataclasses.field(default="torchrgb", kw_only=True)
    transform: Transform | Sequence[Transform] = dataclasses.field(default=(), kw_only=True)
    interpolation: Any = dataclasses.field(default="bilinear", kw_only=True)
    antialias: bool = dataclasses.field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        from .transforms import list_of

        sizes = (one if isinstance(one, (list, tuple)) else (one, one) for one in self.sizes)
        object.__setattr__(self, "sizes", tuple((operator.index(h), operator.index(w)) for h, w in sizes))
        object.__setattr__(self, "transform", list_of(self.transform))
        if self.crop not in ("center", "random"):
            raise ValueError(f"crop must be 'center' or 'random', not {self.crop!r}")
        self._native()  # raises for wrong values

    def fit(self, field: str) -> FitImages:
        """For encode_sample: replaces the encoded image in `field`, or a list of them, by tensors
        in its bucket. A list belongs to the bucket of its first image, and keeps strings. Needs
        images that are not decoded: SampleDecoder(image_decode=None)."""
        return FitImages(self, field)

    def group_by(self, field: str) -> GroupByBucket:
        """For batch_group_criterion, after fit() or before images are decoded: the group of a
        sample is its bucket."""
        return GroupByBucket(self, field)

    def decode(self, image: Any) -> Any:
        """Decodes an image, or a list of them, into its bucket."""
        return self._native().fitted("image", image, tensor_library())

    def _native(self) -> _core.NativeBuckets:
        return _buckets(self)


@functools.lru_cache(maxsize=16)
def _buckets(of: ImageBuckets) -> _core.NativeBuckets:
    from .transforms import Resize, list_of, native_options

    options = native_options(list_of(of.transform))
    resize = native_options([Resize(1, of.interpolation, antialias=of.antialias)])
    options |= {name: resize[name] for name in ("image_filter", "image_antialias")}
    sizes = [(width, height) for height, width in of.sizes]  # type: ignore[misc]
    return _core.NativeBuckets(sizes, of.crop == "random", of.image_decode, options)


@dataclasses.dataclass(frozen=True)
class _OfImages(NativeFunction):
    buckets: ImageBuckets
    field: str


class FitImages(_OfImages):
    """What ImageBuckets.fit() returns."""

    stage = "encode_sample"

    def __call__(self, sample: T) -> T:
        result: Any = copy.copy(sample)
        if isinstance(result, dict):
            result[self.field] = self.buckets.decode(result[self.field])
        else:
            image = self.buckets.decode(getattr(result, self.field))
            object.__setattr__(result, self.field, image)
        return result  # type: ignore[no-any-return]

    def _options(self) -> dict[str, Any]:
        return {"fit_images": (self.buckets._native(), self.field)}


class GroupByBucket(_OfImages):
    """What ImageBuckets.group_by() returns."""

    stage = "batch_group_criterion"

    def __call__(self, sample: Any) -> tuple[str, None]:
        of_dict = isinstance(sample, dict)
        image = sample[self.field] if of_dict else getattr(sample, self.field)
        return self.buckets._native().group(self.field, image), None

    def _options(self) -> dict[str, Any]:
        return {"group_images": (self.buckets._native(), self.field)}
