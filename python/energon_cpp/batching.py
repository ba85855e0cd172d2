"""Functions that make a batch of samples, for `batch` of your TaskEncoder.

An encoder without a `batch` of its own uses the library's generic_batch, which does the same
natively and without the interpreter.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Sequence

from ._sample import CrudeSample, Item, field_names


def batch_list(values: Sequence[Any]) -> list[Any]:
    return list(values)


def batch_stack(values: Sequence[Any]) -> Any:
    """One array or tensor of arrays or tensors of equal shape."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values[0], torch.Tensor):
        return torch.stack(list(values))
    import numpy

    return numpy.stack([numpy.asarray(value) for value in values])


def batch_pad_stack(values: Sequence[Any]) -> Any:
    """The same, of any shapes with as many dimensions: padded with 0 at their ends."""
    first = values[0]
    if all(value.shape == first.shape for value in values):
        return batch_stack(values)
    sizes = [max(value.shape[i] for value in values) for i in range(len(first.shape))]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(first, torch.Tensor):
        result: Any = first.new_zeros((len(values), *sizes))
    else:
        import numpy

        values = [numpy.asarray(value) for value in values]
        result = numpy.zeros((len(values), *sizes), values[0].dtype)
    for i, value in enumerate(values):
        result[(i, *(slice(size) for size in value.shape))] = value
    return result


def generic_batch(samples: Sequence[Any]) -> Any:
    """Arrays and tensors are padded and stacked; dicts and dataclasses are batched field by field;
    everything else is listed."""
    first = samples[0]
    if hasattr(first, "shape") and hasattr(first, "dtype") and len(first.shape) > 0:
        return batch_pad_stack(samples)
    if hasattr(first, "shape") and hasattr(first, "dtype"):
        return batch_stack(samples)
    if isinstance(first, dict):
        made = {name: generic_batch([sample[name] for sample in samples]) for name in first}
        return CrudeSample(made) if isinstance(first, CrudeSample) else made
    if (dataclasses.is_dataclass(first) and not isinstance(first, type)) or isinstance(first, Item):
        result = type(first).__new__(type(first))
        for name in field_names(first):
            values = [getattr(sample, name) for sample in samples]
            own = name.startswith("__") and name.endswith("__")
            object.__setattr__(result, name, values if own else generic_batch(values))
        return result
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(generic_batch(list(values)) for values in zip(*samples)))
    return list(samples)
