"""Imports loader states of the real megatron-energon, and compares the batches that follow with those
of Energon.

    python compare_imports.py ENERGON_PROGRAM [--only JOB...] [--keep FOLDER]

Needs megatron-energon, torch and energon_cpp. Each state is imported by import_energon_state() and
continued by a loader of energon_cpp. If flags can describe the job, it is also imported by `energon
checkpoint import` and continued by `energon run`. The last line of output counts the comparisons.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Iterator

from import_jobs import JOBS, Spec, flags_of
from make_states import Items, Job, Stream, spec_after

import energon_cpp

HERE = pathlib.Path(__file__).resolve().parent


class Differs(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Case:
    """A state, and the batches that Energon delivered after it."""

    name: str
    file: str
    of: Spec  # the job that saved it
    by: Spec  # the job that continues
    items: list[Items]  # by rank


def cases_of(spec: Spec, folder: pathlib.Path, results: dict[str, list[Items]]) -> Iterator[Case]:
    for point in spec["points"]:
        items = [after(rank, point) for rank in results[spec["name"]]]
        name = f"{spec['name']}.{point}"
        yield Case(name, str(folder / f"{name}.pt"), spec, spec, items)
    if "then" in spec:
        later = spec_after(spec)
        first = f"{spec['name']}.{spec['then']['from']}"
        is_redistributed = "ranks" in spec["then"]
        file = str(folder / f"{later['name'] if is_redistributed else first}.pt")
        of = later if is_redistributed else spec
        yield Case(f"{first}, gone on", file, of, later, results[later["name"]])
        yield from cases_of(later, folder, results)


def after(items: Items, point: int) -> Items:
    """The items after `point` batches."""
    count = 0
    for i, item in enumerate(items):
        if count == point:
            return items[i:]
        count += item is not None
    raise ValueError(f"there are {count} batches, not {point}")


def batches_in(items: Items) -> int:
    return sum(item is not None for item in items)


def without_end(items: Items) -> Items:
    """The items without an end of an epoch at the start. It depends on timing whether Energon's workers
    notice that end before the state is saved, and if so, a restored Energon does not report it."""
    return items[1:] if items[:1] == [None] else items


def compare(where: str, found: Items, expected: Items) -> None:
    found, expected = without_end(found), without_end(expected)
    if found == expected:
        return
    pairs = zip(found, expected)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(found), len(expected)))
    raise Differs(
        f"{where}: item {at} of {len(expected)} is {found[at : at + 2]}, "
        f"Energon's is {expected[at : at + 2]}"
    )


# --- With Python ---


def compare_python(case: Case, folder: pathlib.Path) -> int:
    """Returns the number of batches that were compared."""
    of, by = Job(case.of, folder), Job(case.by, folder)
    states = energon_cpp.import_energon_state(of.dataset(energon_cpp, 0), case.file)
    batches = 0
    for rank, expected in enumerate(case.items):
        with energon_cpp.get_savable_loader(by.dataset(energon_cpp, rank)) as loader:
            loader.restore_state_rank(states[rank])
            count = batches_in(expected)
            compare(f"rank {rank} by Python", Stream(loader).take(count), expected)
            batches += count
    return batches


# --- With the command line ---


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise Differs(f"{' '.join(command)}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    return done.stdout


def import_by_program(
    program: str, case: Case, folder: pathlib.Path, files: list[str], output: str, *more: str
) -> str:
    flags = flags_of(case.of)
    assert flags is not None
    # States from before the first batch do not contain the number of workers.
    flags = [*flags, "--num-workers", str(case.of["num_workers"]), *more]
    path = str(folder / case.of["path"])
    run([program, "checkpoint", "import", path, *files, *flags, "--output", output])
    return output


def compare_program(program: str, case: Case, folder: pathlib.Path) -> int:
    flags = flags_of(case.by)
    if flags is None or flags_of(case.of) is None:
        return 0
    state = import_by_program(program, case, folder, [case.file], str(folder / "job.state"))
    is_endless = case.by.get("mode", "train") == "train"
    ends = ["--epoch-policy", "loop"] if is_endless else ["--epochs", "100"]
    flags = [*flags, *ends, "--num-workers", str(case.by["num_workers"])]
    batches = 0
    for rank, items in enumerate(case.items):
        expected: Items = [item for item in items if item is not None]
        place = ["--world-size", str(len(case.items)), "--rank", str(rank)]
        command = [program, "run", str(folder / case.by["path"]), *flags, *place]
        text = run([*command, "--restore-from", state, "--limit", str(len(expected))])
        lines = [json.loads(line) for line in text.splitlines()]
        found: Items = [list(map(name_of, line["keys"])) for line in lines if "keys" in line]
        compare(f"rank {rank} by the program", found, expected)
        batches += len(expected)
    return batches


def name_of(key: str) -> str:
    """The key without the name of its tar."""
    return key.rsplit("/", 1)[-1]


def compare_forms(program: str, case: Case, folder: pathlib.Path) -> int:
    """Checks that all forms of a state become the same file. Returns the number of forms."""
    whole = import_by_program(program, case, folder, [case.file], str(folder / "job.state"))
    expected = pathlib.Path(whole).read_bytes()
    of_ranks = [case.file.replace(".pt", f".{rank}.pt") for rank in range(len(case.items))]
    forms = [of_ranks]
    if case.of.get("forms"):
        names = ("old", "megatron", "protocol2", "protocol4", "protocol5")
        forms += [[case.file.replace(".pt", f".{name}")] for name in names]
    for files in forms:
        other = import_by_program(program, case, folder, files, str(folder / "other.state"))
        if pathlib.Path(other).read_bytes() != expected:
            raise Differs(f"{files} give another state than {case.file}")
    return len(forms)


def compare_single_ranks(program: str, case: Case, folder: pathlib.Path) -> int:
    """Checks that the file of one rank, with its rank and the world size, gives the state of that rank.
    Returns the number of ranks."""
    output = str(folder / "job.state")
    import_by_program(program, case, folder, [case.file], output)
    dataset = Job(case.of, folder).dataset(energon_cpp, 0)
    states = energon_cpp.import_energon_state(dataset, case.file)
    files = []
    for rank in range(len(case.items)):
        file = case.file.replace(".pt", f".{rank}.pt")
        place = ("--world-size", str(len(case.items)), "--rank", str(rank))
        alone = str(folder / f"alone.{rank}.state")
        files.append(import_by_program(program, case, folder, [file], alone, *place))
        dataset = Job(case.of, folder).dataset(energon_cpp, rank)
        if energon_cpp.import_energon_state(dataset, file) != [states[rank]]:
            raise Differs(f"rank {rank} alone gives another state by Python")
    merged = str(folder / "merged.state")
    run([program, "checkpoint", "merge", *files, "--output", merged])
    run([program, "checkpoint", "diff", output, merged])
    return len(files)


# --- All jobs ---


@dataclasses.dataclass
class Counts:
    states: int = 0
    batches: int = 0
    by_program: int = 0
    forms: int = 0
    problems: int = 0


def compare_case(program: str, case: Case, folder: pathlib.Path, counts: Counts) -> None:
    try:
        counts.batches += compare_python(case, folder)
        by_program = compare_program(program, case, folder)
        counts.batches += by_program
        counts.by_program += by_program > 0
        if by_program > 0 and "+" not in case.file:
            counts.forms += compare_forms(program, case, folder)
            if len(case.items) > 1:
                counts.forms += compare_single_ranks(program, case, folder)
        counts.states += 1
    except (Differs, energon_cpp.EnergonError) as error:
        counts.problems += 1
        print(f"DIFFERS {case.name}: {type(error).__name__}: {error}", flush=True)


def compare_all(program: str, jobs: list[Spec], folder: pathlib.Path) -> Counts:
    made = subprocess.run(
        [sys.executable, "-B", str(HERE / "make_states.py"), program, str(folder)],
        input=json.dumps(jobs),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=1800,
    )
    if made.returncode != 0:
        raise SystemExit(f"megatron-energon failed to make states:\n{made.stderr[-4000:]}")
    results = json.loads(made.stdout)
    counts = Counts()
    for spec in jobs:
        for case in cases_of(spec, folder, results):
            compare_case(program, case, folder, counts)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--only", nargs="+", default=[], help="names of jobs")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for data and states")
    arguments = parser.parse_args()
    jobs = [spec for spec in JOBS if not arguments.only or spec["name"] in arguments.only]
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        counts = compare_all(arguments.program, jobs, folder)
    print(
        f"{len(jobs)} jobs: {counts.states} states imported by Python, {counts.by_program} of them "
        f"also by the program, {counts.forms} other forms of them; {counts.batches} batches "
        f"compared; {counts.problems} states differ"
    )
    return 0 if counts.states > 0 and counts.batches > 0 and counts.problems == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
