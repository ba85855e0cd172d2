"""Batches as JSON that can be compared: names, types and bytes of all fields."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import re
from typing import Any

import numpy
import torch

OWN = ("__key__", "__restore_key__", "__subflavors__", "__sources__")


def digest(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()[:12]


def canonical(value: Any) -> Any:
    """Plain JSON for `value`. Buffers of energon_cpp become bytes, arrays and tensors their type, shape
    and digest."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes) or type(value).__name__ == "Buffer":
        data = bytes(value)
        return ["bytes", len(data), digest(data)]
    if isinstance(value, (torch.Tensor, numpy.ndarray, numpy.generic)):
        kind = "tensor" if isinstance(value, torch.Tensor) else "array"
        array = numpy.asarray(value)
        data = numpy.ascontiguousarray(array).tobytes()
        return [kind, str(array.dtype), list(array.shape), digest(data)]
    if isinstance(value, dict):
        return {str(name): canonical(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return ["tuple", *(canonical(part) for part in value)]
    if isinstance(value, list):
        return [canonical(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: canonical(part) for name, part in fields_of(value).items()}
    raise TypeError(f"a field of a batch is a {type(value).__name__}")


def fields_of(batch: Any) -> dict[str, Any]:
    """The fields of a batch of either package, without its four own fields."""
    if isinstance(batch, dict):
        names = list(batch)
    elif hasattr(batch, "_fields"):
        names = list(batch._fields)
    elif dataclasses.is_dataclass(batch) and not hasattr(batch, "keys"):
        names = [field.name for field in dataclasses.fields(batch)]
    else:
        names = list(batch.keys())
    get = batch.__getitem__ if isinstance(batch, dict) else lambda name: getattr(batch, name)
    return {name: get(name) for name in sorted(names) if name not in OWN}


def own(batch: Any, name: str) -> Any:
    return batch.get(name) if isinstance(batch, dict) else getattr(batch, name, None)


def flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)) or type(value).__name__ == "Sources":
        return [one for part in value for one in flat(part)]
    return [] if value is None else [value]


def indexes_of(restore_key: Any) -> list[int]:
    """The numbers of the samples in their datasets, in the order of the key. The rest of the key differs
    between the packages (docs/formats/restore_key.md)."""
    if isinstance(restore_key, (tuple, list)):
        inner = [part for part in restore_key if isinstance(part, (tuple, list))]
        found = [index for part in inner for index in indexes_of(part)]
        for name, index in zip(restore_key, restore_key[1:]):
            if name == "Webdataset":
                found.append(index)
        return found
    return [int(i) for i in re.findall(r"Webdataset\(\d+,(\d+)\)", str(restore_key))]


def batch_record(batch: Any, is_packed: bool) -> dict[str, Any]:
    """The values of a batch to compare. is_packed: whether its samples are packs."""
    fields = canonical(fields_of(batch))
    record = {
        # Without optional fields that no sample has (docs/energon-compat.md, TaskEncoder.batch).
        "fields": {name: value for name, value in fields.items() if set_in(value)},
        "restore key": indexes_of(own(batch, "__restore_key__")),
    }
    if not is_packed:
        # A pack has the keys and sources of all of its samples (docs/pipelines.md,
        # pack_selected_samples); Energon's are what the function returned.
        record |= {
            "keys": flat(own(batch, "__key__")),
            "subflavors": subflavors_of(batch),
            "sources": sources_of(batch),
        }
    return record


def set_in(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(one is not None for one in values) or not values


def subflavors_of(batch: Any) -> list[Any]:
    """The list without empty entries, which Energon's from_samples leaves out
    (docs/energon-compat.md)."""
    found = own(batch, "__subflavors__")
    found = found if isinstance(found, list) else [found]
    return [canonical(one) for one in found if one]


def sources_of(batch: Any) -> list[str]:
    """Datasets and shards without consecutive duplicates (Energon lists the first dataset of a join
    twice). Leaves out `index` and shards of folders of files, which have other names
    (docs/energon-compat.md, SourceInfo)."""
    found: list[str] = []
    for one in flat(own(batch, "__sources__")):
        dataset = pathlib.PurePath(str(one.dataset_path)).name
        name = dataset if dataset == "files" else f"{dataset}/{one.shard_name}"
        if not found or found[-1] != name:
            found.append(name)
    return found
