"""The options of torch's DataLoader: some mean the same here, the others belong to the dataset, the
worker configuration or the task encoder."""

from __future__ import annotations

import math

from ._explained_options import explains_options

_ELSEWHERE = {
    "batch_size": "pass it to the dataset: get_train_dataset(..., batch_size=...)",
    "shuffle": "get_train_dataset() shuffles and get_val_dataset() does not; for a shuffle buffer, "
    "use get_train_dataset(..., shuffle_buffer_size=...)",
    "sampler": "the dataset defines the order: get_train_dataset() and metadatasets",
    "batch_sampler": "the dataset defines the order: get_train_dataset() and metadatasets; to "
    "batch by group, override batch_group_criterion of a TaskEncoder",
    "num_workers": "pass it to the dataset: worker_config=WorkerConfig(..., num_workers=...)",
    "collate_fn": "override batch of a TaskEncoder: get_train_dataset(..., task_encoder=...)",
    "drop_last": "pass it to the dataset: get_train_dataset(..., batch_drop_last=...)",
    "worker_init_fn": "workers are forks and inherit everything that exists when the loader is "
    "made, and random numbers are seeded for each sample; initialize in the __init__ of a "
    "TaskEncoder, or at the first call of its function",
    "multiprocessing_context": "workers are always forked",
    "generator": "the seed determines the order: WorkerConfig(..., seed_offset=...)",
    "pin_memory_device": "pin_memory=True uses the current device",
    "snapshot_every_n_steps": "use checkpoint_every_batches; states are exact with any value",
}


explains_torch_options = explains_options(_ELSEWHERE)


def check_in_order(in_order: bool) -> None:
    if not in_order:
        raise ValueError(
            "in_order=False is not possible: the order of batches is part of the state, so it "
            "cannot depend on which worker is faster; omit the option"
        )


def wait_limit(timeout: float | None) -> float | None:
    """The limit in seconds; None means no limit, which is 0 in torch."""
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout must be in seconds, 0 or None for no limit, not {timeout!r}")
    return None if not timeout or timeout == math.inf else timeout
