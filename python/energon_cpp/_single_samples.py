"""Rebuilds one sample of a batch from the restore key of the batch."""

from __future__ import annotations

import contextlib
from typing import Any, Container

from . import _core, _random
from ._core import RestoreKey
from ._stages import flow_of
from .datasets import Dataset


def restore_one(
    dataset: Dataset, loader_options: dict[str, Any], key: RestoreKey, index: int
) -> Any:
    """Returns sample `index` of the batch, as the batch function receives it."""
    recipe = dataset._recipe
    if recipe.options.get("batch_size") is None and "batch" not in (
        *recipe.stages,
        *recipe.natives,
    ):
        raise ValueError("the loader delivers single samples: call restore_sample() without index")
    seen: list[Any] = []

    def keep(samples: list[Any]) -> Any:
        seen[:] = samples
        return {}

    # The key contains indices of generator outputs, so generators must stay generators.
    stages = dict(recipe.stages)
    stages["batch"] = _stage(keep, recipe.stages.get("batch", {}), False)
    if "encode_batch" in stages:
        stages["encode_batch"] = _stage(lambda batch: {}, stages["encode_batch"], True)
    changed = recipe.changed(stages=_handed_on(stages, recipe.natives))  # holds the functions
    pipeline = changed.open()
    with _random.preserved() if dataset.calls_python else contextlib.nullcontext():
        _core.BasicLoader(pipeline, loader_options).restore_sample(key)
    if not -len(seen) <= index < len(seen):
        raise IndexError(f"the batch has {len(seen)} samples, so sample {index} does not exist")
    return seen[index]


def _stage(function: Any, replaced: dict[str, Any], takes_batches: bool) -> dict[str, Any]:
    """A stage that calls `function` instead of the function of `replaced`."""

    def repeat(item: Any) -> Any:
        while True:
            yield function(item)

    is_generator = replaced.get("is_generator", False)
    return {
        "call": repeat if is_generator else function,
        "is_generator": is_generator,
        "hands_on": False,
        "is_last": True,
        "takes_batches": takes_batches,
        "draws": False,
        "failure_tolerance": None,
    }


def _handed_on(stages: dict[str, Any], natives: Container[str]) -> dict[str, Any]:
    """Makes the function before the batch pass its object to a Python function."""
    for name in flow_of(stages, natives, False)[-1:]:
        if name is None:
            continue
        specs = stages[name]
        handed = {"hands_on": True, "is_last": False}
        stages[name] = (
            [one | handed for one in specs] if isinstance(specs, list) else specs | handed
        )
    return stages
