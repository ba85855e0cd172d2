#!/usr/bin/env python3
"""Compares energon_cpp with the real Megatron-Energon: prepared files and delivered batches.

    run.sh ENVIRONMENT PROGRAM [--configurations 100] [--seed 0] [--only N] [--keep FOLDER]

Each seed makes datasets, which each program prepares in its own tree. All files are compared. Then
each random configuration reads one of the trees with both packages and the same Python encoder. Order,
keys, restore keys, sources, subflavors and the bytes of all fields of the first batches of each rank
are compared, as are the ends of epochs, exceptions, and the batches after a save in the middle and a
restore. A configuration that differs is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import peer_data
from peer_recipes import draw_configuration
from prepared_files import compare_folders, first_difference

HERE = pathlib.Path(__file__).resolve().parent
OURS, THEIRS = "energon_cpp", "megatron.energon"
END = "end of the epoch"
TREES = ("by_energon_cpp", "by_energon")


class Failed(Exception):
    pass


# --- Preparing ---


def our_flags(flags: tuple[str, ...]) -> list[str]:
    """Translates flags of Energon's program to ours: a field map becomes a flag for each field."""
    made: list[str] = []
    for flag in flags:
        if made and made[-1] == "--field-map":
            del made[-1]
            for name, expression in json.loads(flag).items():
                made += ["--field-map", f"{name}={expression}"]
        else:
            made.append(flag)
    return made


def prepare_by_ours(program: str, commands: list[list[str]]) -> None:
    for command in commands:
        arguments = [program, "prepare", "--non-interactive", "--no-progress", *command]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failed(f"{' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")


def prepare_by_energon(folder: pathlib.Path, commands: list[list[str]]) -> None:
    flags = ["prepare", "--non-interactive", "--no-progress", "--num-workers", "2"]
    jobs = [{"prepare": [*flags, *command]} for command in commands]
    for result in run_side(THEIRS, jobs, folder):
        if "failed" in result:
            raise Failed(f"Energon's prepare: {result['failed']}\n{result.get('output', '')}")


def change_by_hand(tree: pathlib.Path) -> None:
    """Leaves out shards and samples, and labels samples, as users do after a prepare. `texts`, which is
    joined, loses only one sample, because the order of several decides the name of Energon's index."""
    excluded = {
        "texts": "- parts/data-1.tar/00012\n",
        "unicode": "- parts/data-2.tar\n- parts/data-1.tar/ключ/ü_00{7..9}\n",
    }
    for name, entries in excluded.items():
        split = tree / name / ".nv-meta" / "split.yaml"
        split.write_text(split.read_text().replace("exclude: []\n", "exclude:\n" + entries))
    labels = {
        "questions": "{label: from the dataset, drawn: 0}",
        "crude": "{kind: crude}",
        "crude_media": "{kind: media}",
    }
    for name, text in labels.items():
        with (tree / name / ".nv-meta" / "dataset.yaml").open("a") as file:
            file.write(f"subflavors: {text}\n")


def make_trees(folder: pathlib.Path, program: str, seed: int) -> int:
    """Prepares both trees. Returns the number of files that were compared."""
    ours, theirs = (folder / name for name in TREES)
    ours.mkdir()
    datasets = peer_data.write_all(ours, seed)
    shutil.copytree(ours, theirs)
    lines = ["lines.jsonl", "few_lines.jsonl"]
    prepare_by_ours(program, [[*our_flags(one.flags), str(ours / one.name)] for one in datasets])
    prepare_by_ours(program, [[str(ours / name)] for name in lines])
    commands = [[*one.flags, str(theirs / one.name)] for one in datasets]
    prepare_by_energon(folder, commands + [[str(theirs / name)] for name in lines])
    problems = compare_folders(ours, theirs)[1]
    for tree in (ours, theirs):
        change_by_hand(tree)
    joins = ["joined_train.yaml", "joined_val.yaml"]
    prepare_by_ours(program, [[str(ours / name)] for name in joins])
    prepare_by_energon(folder, [[str(theirs / name)] for name in joins])
    count, more = compare_folders(ours, theirs)
    if problems + more:
        raise Failed("files that the programs wrote differ:\n" + "\n".join(problems + more))
    return count


# --- Running ---


def start_side(module: str, jobs: list[Any], folder: pathlib.Path, part: int = 0) -> Any:
    paths = [folder / f"{module}.{part}.{name}" for name in ("jobs", "results", "log")]
    paths[0].write_text("".join(json.dumps(job) + "\n" for job in jobs))
    paths[1].write_text("")
    command = [sys.executable, "-B", str(HERE / "peer_side.py"), module, *map(str, paths[:2])]
    with paths[2].open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    return process, paths


def results_of(started: Any, count: int, seconds: float) -> list[Any]:
    process, paths = started
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    lines = [json.loads(line) for line in paths[1].read_text().splitlines()]
    if len(lines) != count:
        log = paths[2].read_text()[-2000:]
        raise Failed(f"{paths[1].stem} has done {len(lines)} of {count} jobs in {seconds} s\n{log}")
    return lines


def run_side(module: str, jobs: list[Any], folder: pathlib.Path) -> list[Any]:
    return results_of(start_side(module, jobs, folder), len(jobs), 300)


def run_both(jobs: list[Any], folder: pathlib.Path) -> tuple[list[Any], list[Any]]:
    """The results of all jobs with both packages. Energon, which is slower, has two processes."""
    seconds = 60 + 30 * len(jobs)
    started = start_side(OURS, jobs, folder)
    halves = [start_side(THEIRS, jobs[part::2], folder, part) for part in range(2)]
    theirs: list[Any] = [None] * len(jobs)
    for part, half in enumerate(halves):
        theirs[part::2] = results_of(half, len(jobs[part::2]), seconds)
    return results_of(started, len(jobs), seconds), theirs


def write_recipes(folder: pathlib.Path, configurations: list[Any]) -> None:
    for tree in TREES:
        recipes = folder / tree / "recipes"
        recipes.mkdir(exist_ok=True)
        for made in configurations:
            for name in ("outer", "inner"):
                if made["data"][name]:
                    path = recipes / f"{name}_{made['number']}.yaml"
                    path.write_text(made["data"][name])


# --- Comparing ---


def first_epoch(batches: list[Any]) -> list[Any]:
    return batches[: batches.index(END)] if END in batches else batches


def compare(made: dict[str, Any], ours: Any, theirs: Any) -> tuple[list[str], int]:
    """The differences, and the number of equal batches."""
    for side, result in (("energon_cpp", ours), ("Energon", theirs)):
        if "failed" in result:
            return [f"{side}: {result['failed']}"], 0
    problems, batches = [], 0
    if len(ours["ranks"]) != len(theirs["ranks"]):
        return [f"{len(ours['ranks'])} loaders, Energon has {len(theirs['ranks'])}"], 0
    for rank, (one, two) in enumerate(zip(ours["ranks"], theirs["ranks"])):
        delivered = [side["batches"] + side["rest"] for side in (one, two)]
        batches += len(delivered[0])
        if delivered[0] != delivered[1]:
            problems.append(f"loader {rank}: batch{first_difference(*delivered)}")
        if one.get("error") != two.get("error"):
            trace = one.get("traceback") or two.get("traceback")
            both = f"{one.get('error')}, Energon {two.get('error')}"
            problems.append(f"loader {rank}: {both}\n{trace}")
        if one.get("saves") and one["restored"] != one["rest"]:
            where = first_difference(one["restored"], one["rest"])
            problems.append(f"loader {rank}: after a restore{where} without")
        # In a restored Energon, the next epoch starts with another worker; and a
        # state after the last batch belongs to the next epoch (docs/python.md, "State").
        restored, rest = (first_epoch(two[name]) for name in ("restored", "rest"))
        if two.get("saves") and rest and restored != rest:
            where = first_difference(restored, rest)
            problems.append(f"loader {rank}: of Energon after a restore{where} without")
        if one.get("remade") is False:
            problems.append(f"loader {rank}: restore_sample() made another batch")
    return problems, batches


def report(arguments: argparse.Namespace, made: dict[str, Any], problems: list[str]) -> None:
    print(f"configuration {made['number']} differs:")
    print(json.dumps(made, ensure_ascii=False))
    print("\n".join(problems))
    command = f"--seed {arguments.seed} --only {made['number']}"
    print(f"to repeat it: {sys.argv[0]} {arguments.program} {command}\n", flush=True)


def run(arguments: argparse.Namespace, folder: pathlib.Path) -> int:
    begin = time.monotonic()
    if not (folder / "is prepared").exists():
        files = make_trees(folder, arguments.program, arguments.seed)
        print(f"{files} prepared files are equal, {time.monotonic() - begin:.0f} s", flush=True)
        (folder / "is prepared").touch()
    numbers = range(arguments.configurations) if arguments.only is None else [arguments.only]
    configurations = [draw_configuration(arguments.seed, number) for number in numbers]
    write_recipes(folder, configurations)
    jobs = [{"tree": str(folder / made["tree"]), "configuration": made} for made in configurations]
    ours, theirs = run_both(jobs, folder)
    differ, batches = 0, 0
    outcomes: collections.Counter[str] = collections.Counter()
    for made, one, two in zip(configurations, ours, theirs):
        problems, count = compare(made, one, two)
        batches += count
        differ += bool(problems)
        ranks = one.get("ranks", [])
        outcomes["with an exception"] += any("error" in rank for rank in ranks)
        outcomes["restored"] += any(rank["restored"] for rank in ranks)
        if problems:
            report(arguments, made, problems)
    print(f"{len(jobs)} configurations, {batches} batches, {differ} differ; "
          f"{dict(outcomes)}; {time.monotonic() - begin:.0f} s")  # fmt: skip
    if arguments.only is None and batches < 4 * len(jobs):
        raise Failed("too few batches were compared")
    return 1 if differ else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", help="the built energon")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--configurations", type=int, default=100)
    parser.add_argument("--only", type=int, help="the number of one configuration of the seed")
    parser.add_argument("--keep", help="a folder in which the data is kept and reused")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(arguments.keep or made)
        folder.mkdir(exist_ok=True)
        os.environ["ENERGON_CACHE_DIR"] = str(folder / "cache")
        try:
            return run(arguments, folder)
        except Failed as error:
            print(error)
            return 1


if __name__ == "__main__":
    sys.exit(main())
