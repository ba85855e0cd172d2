"""Compares the files that the two programs wrote when they prepared the same data.

These must be equal byte for byte: indices of shards and of JSONL files, indices of joins (but not their
names, which depend on the random index.uuid), and split.yaml. These must have equal values:
dataset.yaml (YAML has more than one form), and .info.json without `energon_version`, which names the
program. In index.sqlite, tables, columns, indexes and all rows must be equal; pages differ, and the JSON
of media metadata is compared by value. index.uuid has 36 characters of a UUID, random in both. Files
that only energon_cpp writes (docs/formats/energon_files.md) do not count as a difference.
"""

from __future__ import annotations

import json
import pathlib
import re
import sqlite3
from typing import Any

import yaml

UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OURS_ONLY = {"shard_record.bin"}


def names_in(folder: pathlib.Path) -> set[str]:
    """The files that a prepare wrote, relative to `folder`. Files of joins lack their digest."""
    paths = [*folder.glob("**/.nv-meta/*"), *folder.glob("**/*.idx"), *folder.glob("**/*.bin")]
    names = {str(path.relative_to(folder)) for path in paths if path.name not in OURS_ONLY}
    return {name if "/join_index_" not in name else f"{name.split('/')[0]}/join" for name in names}


def path_of(folder: pathlib.Path, name: str) -> pathlib.Path:
    if name.endswith("/join"):
        return next((folder / name).parent.glob("join_index_*.bin"))
    return folder / name


def shape_of_tables(database: sqlite3.Connection) -> Any:
    """The columns of each table and index."""
    names = database.execute("SELECT type, name FROM sqlite_master ORDER BY name").fetchall()
    shape: dict[str, Any] = {}
    for kind, name in names:
        if not name.startswith("sqlite_sequence"):
            pragma = "table_info" if kind == "table" else "index_info"
            shape[name] = database.execute(f"PRAGMA {pragma}('{name}')").fetchall()
    return shape


def rows_of(database: sqlite3.Connection) -> Any:
    rows = {}
    for table, columns in (
        ("samples", "*"),
        ("sample_parts", "*"),
        ("media_metadata", "*"),
        ("media_filters", "strategy, patterns"),  # not the time of creation
    ):
        found = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        all_rows = database.execute(f"SELECT {columns} FROM {table}").fetchall() if found else []
        rows[table] = sorted(all_rows, key=str)
    rows["media_metadata"] = [
        (key, kind, json.loads(text)) for key, kind, text in rows["media_metadata"]
    ]
    return rows


def content_of(path: pathlib.Path, name: str) -> Any:
    """The content of the file that must be equal."""
    last = name.rsplit("/", 1)[-1]
    if last == ".info.json":
        info = json.loads(path.read_text())
        return [sorted(info), list(info["shard_counts"].items())]
    if last == "dataset.yaml":
        return yaml.safe_load(path.read_text())
    if last == "index.uuid":
        text = path.read_text()
        return "a UUID" if UUID.fullmatch(text) else text
    if last == "index.sqlite":
        database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        try:
            return {"tables": shape_of_tables(database), "rows": rows_of(database)}
        finally:
            database.close()
    return path.read_bytes()


def first_difference(ours: Any, theirs: Any, place: str = "") -> str:
    """The places where two values differ, and their difference."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and set(ours) == set(theirs):
        for name in ours:
            if ours[name] != theirs[name]:
                return first_difference(ours[name], theirs[name], f"{place} {name}")
    if isinstance(ours, list) and isinstance(theirs, list):
        for i, (one, other) in enumerate(zip(ours, theirs)):
            if one != other:
                return first_difference(one, other, f"{place} [{i}]")
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) != len(theirs):
        return f"{place}: {len(ours)} entries, Energon has {len(theirs)}"
    return f"{place}: {str(ours)[:600]}, Energon has {str(theirs)[:600]}"


def compare_folders(ours: pathlib.Path, theirs: pathlib.Path) -> tuple[int, list[str]]:
    """The number of files that were compared, and the differences."""
    names, other = names_in(ours), names_in(theirs)
    problems = [f"{name}: only energon_cpp wrote it" for name in sorted(names - other)]
    problems += [f"{name}: only Energon wrote it" for name in sorted(other - names)]
    for name in sorted(names & other):
        one, two = (content_of(path_of(folder, name), name) for folder in (ours, theirs))
        if one != two:
            problems.append(f"{name}{first_difference(one, two)}")
    return len(names & other), problems
