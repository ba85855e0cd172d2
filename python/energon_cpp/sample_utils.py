"""Samples as text, for people: format_sample_detailed, preview."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ._sample import field_names

_MOST_VALUES = 10
_MOST_BYTES = 100


def format_sample_detailed(sample: Any, indent: str = "") -> str:
    """Returns the sample as YAML: fields by name, and of tensors, arrays and bytes a summary. Needs
    PyYAML.

    Args:
        sample: A sample or batch of any class.
        indent: Begins each line.
    """
    import yaml  # type: ignore[import-untyped]

    shown = _shown_fields(sample) if _has_fields(sample) else _shown(sample)
    text = yaml.safe_dump(shown, sort_keys=False, width=math.inf, allow_unicode=True)
    lines = text.removesuffix("\n...\n").rstrip("\n").split("\n")
    return "\n".join(indent + line if line else line for line in lines)


def _has_fields(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _shown_fields(value: Any) -> dict[str, Any]:
    return {name: _shown(getattr(value, name)) for name in field_names(value)}


def _shown(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _shown(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "shape"):
        return [_shown(one) for one in value]
    if isinstance(value, (bytes, bytearray)):
        more = f"... {len(value)} bytes" if len(value) > _MOST_BYTES else ""
        return repr(bytes(value[:_MOST_BYTES])) + more
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _summary(value)
    if _has_fields(value):
        return {type(value).__name__: _shown_fields(value)}
    return repr(value)


def _summary(value: Any) -> str:
    """Shape, range and first values of a tensor or array."""
    is_array = type(value).__module__.partition(".")[0] == "numpy"
    name = f"np.{type(value).__name__}" if is_array else type(value).__name__
    about = [f"shape={value.shape}", f"dtype={value.dtype}"]
    if hasattr(value, "device") and not is_array:
        about.append(f"device={value.device}")
    flat = value.reshape(-1)
    is_real = value.dtype.kind in "biuf" if is_array else "complex" not in str(value.dtype)
    if len(flat) > 0 and is_real:
        limits = [flat.min(), flat.max()]
        about += [f"{which}={one.item()}" for which, one in zip(("min", "max"), limits)]
    first = flat[:_MOST_VALUES]
    values = repr(list(first) if is_array else first.tolist())
    more = ", ...]" if len(flat) > _MOST_VALUES else "]"
    return f"{name}({', '.join(about)}, values={values[:-1]}{more})"


def preview(path: str, split_parts: Sequence[str], dataset_config: str | None = None) -> None:
    """Prints decoded samples of the parts of a dataset, with the classes of their fields, and asks
    after each of them whether to go on."""
    from .datasets import get_val_dataset
    from .loader import get_loader
    from .worker_config import WorkerConfig

    for part in split_parts:
        dataset = get_val_dataset(
            path,
            split_part=part,
            worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
            batch_size=None,
            dataset_config=dataset_config,
        )
        with get_loader(dataset) as loader:
            for sample in loader:
                for name in sample if isinstance(sample, Mapping) else field_names(sample):
                    value = sample[name]
                    text = _summary(value) if hasattr(value, "dtype") else repr(value)
                    print(f"{name} ({type(value)}): {text}")
                if not _goes_on():
                    return


def _goes_on() -> bool:
    try:
        return input("Show the next sample? [Y/n] ").strip().lower() not in ("n", "no")
    except EOFError:
        return False
