"""Delivers batches of one of the packages: foreign_side.py PACKAGE DATA RESULTS RECIPE..., with
PEER_PACKAGE set to the one that the classes are over.

RESULTS is JSON: for each recipe the first batches, and those after a save in the middle."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import pickle
import sys
from typing import Any

from peer_values import batch_record

# Energon collects loaders slowly while it runs.
used: list[Any] = []


def loader_over(energon: Any, encoder: Any, path: pathlib.Path, workers: int) -> Any:
    given: dict[str, Any] = {}
    if energon.__name__ == "energon_cpp":
        given["allow_imports"] = ["foreign_classes", path.parent]
    config = energon.WorkerConfig(
        rank=0,
        world_size=1,
        num_workers=workers,
        global_error_handler=energon.reraise_exception,
    )
    dataset = energon.get_train_dataset(
        path,
        worker_config=config,
        batch_size=4,
        # Energon cannot restore a buffer of joined samples.
        shuffle_buffer_size=None if path.name == "join.yaml" else 7,
        max_samples_per_sequence=5,
        task_encoder=encoder,
        **given,
    )
    loader = energon.get_savable_loader(dataset)
    used.append(loader)
    return loader


def take(loop: Any, count: int, is_join: bool) -> list[Any]:
    """Subflavors are fields, because a batch of dicts has them in another form in each package. The
    sources of a join are all here; in Energon they are those that the joiner returned."""
    records = [batch_record(next(loop), False) for _ in range(count)]
    for record in records:
        del record["subflavors"]
        if is_join:
            del record["sources"]
    return records


def main() -> None:
    data, results = map(pathlib.Path, sys.argv[2:4])
    energon = importlib.import_module(sys.argv[1])
    encoder_over = importlib.import_module("foreign_classes").encoder_over
    names = sys.argv[4:]
    found: dict[str, Any] = {}
    for name in names:
        for workers in (0, 2):
            loader = loader_over(energon, encoder_over(energon), data / name, workers)
            loop = iter(loader)
            is_join = name == "join.yaml"
            batches = take(loop, 5, is_join)
            state = pickle.loads(pickle.dumps(loader.save_state_rank()))
            batches += take(loop, 8, is_join)
            second = loader_over(energon, encoder_over(energon), data / name, workers)
            second.restore_state_rank(state)
            restored = take(iter(second), 8, is_join)
            found[f"{name}, {workers} workers"] = [batches, restored]
    results.write_text(json.dumps(found))
    os._exit(0)  # loaders that are collected now wait for their workers


main()
