"""Delivers batches of one of the packages: foreign_side.py DATA RESULTS, with PEER_PACKAGE set, and
PEER_CLASSES if the classes are over the other one.

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
        shuffle_buffer_size=7,
        max_samples_per_sequence=5,
        task_encoder=encoder(),
        **given,
    )
    loader = energon.get_savable_loader(dataset)
    used.append(loader)
    return loader


def take(loop: Any, count: int) -> list[Any]:
    return [batch_record(next(loop), False) for _ in range(count)]


def main() -> None:
    data, results = map(pathlib.Path, sys.argv[1:])
    energon = importlib.import_module(os.environ["PEER_PACKAGE"])
    if "PEER_CLASSES" in os.environ:
        os.environ["PEER_PACKAGE"] = os.environ["PEER_CLASSES"]
        import foreign_classes  # noqa: F401

        os.environ["PEER_PACKAGE"] = energon.__name__
        encoder = energon.DefaultTaskEncoder
    else:
        encoder = importlib.import_module("foreign_classes").Encoder
    names = os.environ["PEER_RECIPES"].split()
    found: dict[str, Any] = {}
    for name in names:
        for workers in (0, 2):
            loader = loader_over(energon, encoder, data / name, workers)
            loop = iter(loader)
            batches = take(loop, 5)
            state = pickle.loads(pickle.dumps(loader.save_state_rank()))
            batches += take(loop, 8)
            second = loader_over(energon, encoder, data / name, workers)
            second.restore_state_rank(state)
            restored = take(iter(second), 8)
            found[f"{name}, {workers} workers"] = [batches, restored]
    results.write_text(json.dumps(found))
    os._exit(0)  # loaders that are collected now wait for their workers


main()
