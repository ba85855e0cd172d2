"""Functions that make a batch of samples, for the function `batch` of a TaskEncoder.

An encoder that does not override `batch` uses the library's generic_batch, which does the same
natively, without the interpreter.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Sequence

from ._sample import CrudeSample, Item, field_names


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
