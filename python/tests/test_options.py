"""Keywords and docstrings of the public functions match the table of options."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
from typing import Any

import pytest

import energon_cpp as energon

PROGRAM = os.environ.get("ENERGON_PROGRAM", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="needs the program energon (ENERGON_PROGRAM)")

FUNCTIONS = {
    "train": energon.get_train_dataset,
    "val": energon.get_val_dataset,
    "loader": energon.get_savable_loader,
    "config": energon.WorkerConfig,
}

# Their values differ from C++, as in Energon or torch, so they have their own sentences.
OWN_SENTENCES = {
    "batch_drop_last",
    "exclude_files",
    "on_error",
    "parallel_shard_iters",
    "shuffle_over_epochs_multiplier",
    "timeout",
    "verify_checksums",
}


def table() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(subprocess.check_output([PROGRAM, "options", "--json"]))
    return [row for row in rows if row["keyword"]]


def documented(function: Any) -> dict[str, str]:
    """The entries of the docstring under Args."""
    _, _, text = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    entries = re.findall(r"^    (\w+): ((?:.|\n(?!    \w+: ))*)", text, re.MULTILINE)
    return {name: " ".join(entry.split()) for name, entry in entries}


def functions_of(row: dict[str, Any]) -> list[str]:
    if row["member"].startswith("LoaderOptions::worker_config."):
        return ["config"]
    if row["member"].startswith("LoaderOptions::"):
        return ["loader"]
    return [use for use in ("train", "val") if row[use]]


def test_each_keyword_is_a_parameter_of_functions_that_use_it() -> None:
    for row in table():
        for use, function in FUNCTIONS.items():
            expected = use in functions_of(row)
            parameters = inspect.signature(function).parameters
            assert (row["keyword"] in parameters) == expected, (use, row["keyword"])


def test_docstrings_have_the_sentences_of_the_table() -> None:
    for row in table():
        for use in functions_of(row):
            entry = documented(FUNCTIONS[use]).get(row["keyword"], "")
            text = row["description"] + "."
            assert entry == text or (entry and row["keyword"] in OWN_SENTENCES), (use, text)


@pytest.mark.parametrize("use", FUNCTIONS)
def test_docstrings_describe_only_parameters(use: str) -> None:
    parameters = inspect.signature(FUNCTIONS[use]).parameters
    assert set(documented(FUNCTIONS[use])) <= set(parameters)


def test_errors_name_the_keyword_and_its_values(texts: str) -> None:
    config = energon.WorkerConfig(rank=0, world_size=1, num_workers=0)
    expected = r"^batch_size= cannot be 'many'; expected a whole number of at least 1, or none$"
    with pytest.raises(TypeError, match=expected):
        energon.get_val_dataset(texts, worker_config=config, batch_size="many")  # type: ignore[arg-type]


# Values of Python that are the default of the table in other words.
SAME_DEFAULTS: dict[str, Any] = {
    "batch_drop_last": False,
    "exclude_files": None,
    "on_error": "raise",
    "parallel_shard_iters": None,
    "verify_checksums": True,
}
# As in Energon, and documented so.
OTHER_DEFAULTS = {("val", "split_part"): "val", ("config", "num_workers"): 4}


def default_in_table(row: dict[str, Any]) -> Any:
    text = row["default"]
    if text in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[text]
    if re.fullmatch(r"\d+s?", text):
        return float(text.removesuffix("s"))
    return text


def test_defaults_are_those_of_the_table() -> None:
    for row in table():
        for use in functions_of(row):
            name = row["keyword"]
            default = inspect.signature(FUNCTIONS[use]).parameters[name].default
            if default is inspect.Parameter.empty:
                continue
            if name in SAME_DEFAULTS:
                assert default == SAME_DEFAULTS[name], (use, name)
            elif (use, name) in OTHER_DEFAULTS:
                assert default == OTHER_DEFAULTS[use, name], (use, name)
            elif use != "loader" or default is not None:  # None: as the native loader decides
                assert default == default_in_table(row), (use, name)


class Encoder(energon.DefaultTaskEncoder):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [[sample] for sample in samples]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return samples[0]


class SortingEncoder(energon.DefaultTaskEncoder):
    def sample_cost(self, sample: Any) -> float:
        return 1


# Two values of each option. Those of "open" choose the data, and are part of its identity.
VALUES: dict[str, tuple[Any, Any]] = {
    "allow_uneven": (False, True),
    "arena_limit_bytes": (2 << 30, 1 << 30),
    "batch_drop_last": (False, True),
    "batch_size": (4, 3),
    "checkpoint_every_batches": (10, 3),
    "checkpoint_history": (100, 7),
    "checkpoint_history_bytes": (64 << 20, 1 << 20),
    "failure_tolerance": (100, 3),
    "limit": (4, 3),
    "logical_shards": (2, 4),
    "max_samples_per_sequence": (4, 3),
    "n_checkpoints": (4, 3),
    "num_workers": (0, 2),
    "on_error": ("raise", "skip"),
    "packing_buffer_size": (4, 3),
    "parallel_shard_iters": (3, 2),
    "prefetch_bytes": (4 << 20, 1 << 20),
    "prefetch_factor": (4, 3),
    "rank": (0, 1),
    "repeat": (True, False),
    "samples_per_call": (64, 3),
    "seed_offset": (0, 1),
    "shuffle_buffer_size": (0, 4),
    "shuffle_over_epochs_multiplier": (1, 2),
    "sort_pool_size": (4, 3),
    "timeout": (60, 5),
    "verify_checksums": (True, False),
    "virtual_epoch_length": (0, 5),
    "world_size": (2, 4),
}
WITHOUT_CONFIG = {"cache_dir", "debug_log_path", "exclude_files", "quarantine_file"}  # paths, which do not affect the order


def config_with(path: str, use: str, name: str, value: Any) -> dict[str, Any]:
    options: dict[str, dict[str, Any]] = {use: {} for use in FUNCTIONS}
    options[use][name] = value
    layout = {"rank": 0, "world_size": 2, "num_workers": 0, **options["config"]}
    encoder = {"packing_buffer_size": Encoder(), "sort_pool_size": SortingEncoder()}.get(name)
    data_use = use if use in ("train", "val") else "train"
    dataset = FUNCTIONS[data_use](
        path,
        worker_config=energon.WorkerConfig(**layout),
        task_encoder=encoder,
        **{"batch_size": 4, **options[data_use]},
    )
    with energon.get_savable_loader(dataset, **options["loader"]) as loader:
        return loader.config()


def test_the_config_tells_options_that_affect_the_order(texts: str) -> None:
    for row in table():
        name, use = row["keyword"], functions_of(row)[0]
        if name in WITHOUT_CONFIG or (row["stage"] == "open" and row["affects_order"]):
            continue
        first, second = (config_with(texts, use, name, value) for value in VALUES[name])
        assert (first != second) == row["affects_order"], name
