"""Jobs of Energon whose states are imported, with the flags of our program for each."""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]

POINTS = [0, 1, 9, 23, 40]
COUNT = 90
BUFFER = {"shuffle_buffer_size": 7, "max_samples_per_sequence": 6}
NO_BUFFER = {"max_samples_per_sequence": 6}
VAL = {"mode": "val", "points": [0, 3, 9, 11, 20], "count": 40}
_VIRTUAL = {"virtual_epoch_length": 10}
# A worker keeps a state only at its first batches. Later states contain its progress since then.
RARELY = {"checkpoint_every_sec": 1000}

OPTION_FLAGS = {
    "batch_size": "--batch-size",
    "shuffle_buffer_size": "--shuffle-buffer-size",
    "max_samples_per_sequence": "--max-samples-per-sequence",
    "parallel_shard_iters": "--parallel-slices",
    "virtual_epoch_length": "--virtual-epoch-length",
}


def _job(name: str, path: str, workers: int, **more: Any) -> Spec:
    return {
        "name": name,
        "path": path,
        "num_workers": workers,
        "points": POINTS,
        "count": COUNT,
        **more,
    }


def _for_each_worker_count() -> list[Spec]:
    jobs = []
    for workers in range(4):
        few = {**BUFFER, "shuffle_buffer_size": 10}
        jobs += [
            _job(f"plain_{workers}", "a", workers),
            _job(f"val_{workers}", "a", workers, **VAL),
            _job(f"shuffled_{workers}", "a", workers, options=few, forms=workers == 2),
            _job(f"blend_{workers}", "blend.yaml", workers, options=BUFFER),
        ]
    return jobs


def _with_options() -> list[Spec]:
    virtual = {**BUFFER, **_VIRTUAL}
    parallel = {"shuffle_buffer_size": 5, "max_samples_per_sequence": 3, "parallel_shard_iters": 4}
    over = {"max_samples_per_sequence": 5, "shuffle_over_epochs_multiplier": 2}
    endless = {**over, "shuffle_over_epochs_multiplier": -1}
    ordered = {"shuffle_over_epochs_multiplier": None, "parallel_shard_iters": 1}
    once = {**BUFFER, "repeat": False}
    return [
        _job("epochized", "epochized.yaml", 2, options=BUFFER),
        # After the first pass, the packages differ: docs/pipelines.md.
        _job("fractional", "fractional.yaml", 2, options=BUFFER, points=[0, 1, 9, 14], count=24),
        _job("excluding", "excluding", 2, options=BUFFER),
        _job("excluding_val", "excluding", 1, **VAL),
        _job("concat", "concat.yaml", 2, **VAL),
        _job("two_ranks", "blend.yaml", 2, ranks=2, options=BUFFER),
        _job("two_ranks_without_workers", "a", 0, ranks=2, options=BUFFER),
        _job("seed_offset", "a", 2, seed_offset=5, options=BUFFER),
        _job("virtual", "blend.yaml", 2, options=virtual),
        _job("virtual_finite", "epochized.yaml", 2, options=virtual),
        _job("parallel", "a", 2, options=parallel),
        _job("over_two_epochs", "a", 1, options=over),
        _job("with_replacement", "a", 2, options=endless),
        _job("in_order", "a", 2, options=ordered),
        _job("once", "a", 2, options=once, points=[0, 3, 9, 13], count=40),
        _job("limit", "a", 2, **{**VAL, "options": {"limit": 6}, "points": [0, 1, 5, 6, 8]}),
        _job("rarely", "blend.yaml", 2, options=BUFFER, **RARELY),
        _job("rarely_finite", "epochized.yaml", 2, options=BUFFER, **RARELY),
        _job("rarely_val", "a", 2, **VAL, **RARELY),
    ]


def _that_go_on() -> list[Spec]:
    # Until a worker delivers a batch after a restore, Energon forgets the batches that it skipped
    # in the restore, so states that were saved earlier have a wrong position.
    again = {"from": 9, "points": [0, 14], "count": 40}
    even = {**again, "from": 10}
    smaller = {**again, "points": [], "options": {"batch_size": 2}}
    return [
        _job("restored_0", "blend.yaml", 0, options=BUFFER, then=again),
        _job("restored_2", "blend.yaml", 2, options=BUFFER, then=again, **RARELY),
        _job("smaller", "blend.yaml", 2, options=BUFFER, then=smaller),
        _job("more_ranks", "a", 2, ranks=2, points=[10], then={**even, "ranks": 4, "num_workers": 1}),
        _job("fewer_ranks", "a", 2, ranks=2, points=[10], then={**even, "ranks": 1, "num_workers": 4}),
    ]


def _with_functions() -> list[Spec]:
    packs = {**BUFFER, "packing_buffer_size": 12}
    groups = {**BUFFER, "batch_size": None}
    return [
        _job("skipping_0", "a", 0, encoder="skipping", options=BUFFER),
        _job("skipping_2", "blend.yaml", 2, encoder="skipping", options=BUFFER),
        _job("skipping_rarely", "blend.yaml", 2, encoder="skipping", options=BUFFER, **RARELY),
        _job("skipping_val_0", "a", 0, encoder="skipping", **VAL),
        _job("skipping_val_2", "a", 2, encoder="skipping", **VAL),
        _job("skipping_rarely_val", "a", 2, encoder="skipping", **VAL, **RARELY),
        _job("skipping_once", "a", 2, encoder="skipping", options={**BUFFER, "repeat": False}),
        _job("skipping_virtual", "a", 2, encoder="skipping", options={**BUFFER, **_VIRTUAL}),
        _job("skipping_cook", "a", 2, encoder="skipping_cook", options=NO_BUFFER, **RARELY),
        _job("packing_0", "a", 0, encoder="packing", options=packs),
        _job("packing_2", "blend.yaml", 2, encoder="packing", options=packs),
        _job("packing_virtual", "a", 2, encoder="packing", options={**packs, **_VIRTUAL}),
        _job("grouping_2", "blend.yaml", 2, encoder="grouping", options=groups),
        _job("doubling_2", "blend.yaml", 2, encoder="doubling", options=BUFFER),
        _job("single_2", "blend.yaml", 2, options={**BUFFER, "batch_size": None}),
        _job("single_0", "a", 0, options={**BUFFER, "batch_size": None}),
    ]


JOBS = _for_each_worker_count() + _with_options() + _that_go_on() + _with_functions()


def flags_of(spec: Spec) -> list[str] | None:
    """The flags of our program for the job, or None if flags cannot describe the job."""
    options = {"batch_size": 4, **spec.get("options", {})}
    if "encoder" in spec or options["batch_size"] is None or options.keys() & {"limit", "repeat"}:
        return None
    flags = ["--mode", spec.get("mode", "train"), "--seed-offset", str(spec.get("seed_offset", 0))]
    for name, flag in OPTION_FLAGS.items():
        if name in options:
            flags += [flag, str(options[name])]
    if "shuffle_over_epochs_multiplier" in options:
        epochs = options["shuffle_over_epochs_multiplier"]
        flags += ["--shuffle-over-epochs", "none" if epochs is None else str(epochs)]
    if spec.get("mode") == "val":
        flags += ["--split", "val" if spec["path"].endswith(".yaml") else "train"]
    return flags
