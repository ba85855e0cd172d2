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
