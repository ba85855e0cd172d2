"""Runs energon_cpp and other Python loaders in turn, each run in its own process (a fork of a process that has
imported the loader), and writes a report of rates, CPU time, memory, first batch, save and resume.

First every setting is run once, briefly; before it is timed, its contents are compared with the tars, and a
loader that delivers wrong data ends the comparison. Then the settings that may be the fastest of their loader,
over all layouts or in the layout of the targets, are measured in rounds, each of which runs all of them once.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import python_data
import python_plan
import python_report
from python_plan import FROM_DISK, LOADERS, OURS, Setting
from python_process import Failed, LoaderProcesses

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Bench:
    """Paths and durations of the comparison."""

    python: str
    processes: LoaderProcesses
    energon: str
    data: pathlib.Path
    samples: dict[str, int]
    seconds: float
    first_seconds: float
    warmup: float
    verify: int

    def run(self, setting: Setting, task: dict[str, Any]) -> dict[str, Any]:
        """The result of a task of python_run.py."""
        return self.processes.run(setting.loader, task | {"job": self.job(setting)})

    def job(self, setting: Setting) -> dict[str, Any]:
        kind = {"identity": "text", "arrays": "text", "decoded": "image", "tokens": "words"}
        samples = self.samples[kind.get(setting.work, setting.work)]
        return dataclasses.asdict(setting) | {"data": str(self.data), "samples": samples}

    def measure(self, setting: Setting, is_first: bool) -> dict[str, Any]:
        """A run that fails is reported and repeated, so that an hour of other runs is not lost: once, or up to
        five times if it read from a disk, because each run brings more of its files and libraries into memory."""
        task = {"task": "time", "seconds": self.seconds, "warmup": self.warmup, "verify": 0}
        if is_first:
            warmup = min(self.warmup, self.first_seconds / 2)
            task |= {"seconds": self.first_seconds, "warmup": warmup, "verify": self.verify}
        failures = 0
        while True:
            try:
                return self.run(setting, task)
            except Failed as failure:
                failures += 1
                if failures > (5 if FROM_DISK in str(failure) else 1):
                    raise
                print(f"{setting.name}: is repeated: {failure}", flush=True)


def found_loaders(bench: Bench, only: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """{loader: works and versions} of loaders that can be imported, and {who: why not} of the others."""
    found, missing = {}, {}
    for loader in only:
        about = bench.processes.probe(loader)
        if "why_not" in about:
            missing[LOADERS[loader]] = about["why_not"]
            print(f"{LOADERS[loader]}: left out: {about['why_not']}", flush=True)
        else:
            found[loader] = about
    if OURS not in found:
        raise Failed(f"{OURS} cannot be imported: {missing.get(LOADERS[OURS], 'not asked for')}")
    return found, missing


def run_round(bench: Bench, settings: list[Setting], is_first: bool) -> list[dict[str, Any]]:
    runs = []
    for setting in settings:
        runs.append(bench.measure(setting, is_first))
        verified = f", {runs[-1]['verified_samples']} samples verified" if is_first else ""
        print(f"{setting.name}: {runs[-1]['samples_per_second']:,.0f} samples/s{verified}", flush=True)
    return runs


def run_rounds(bench: Bench, settings: list[Setting], rounds: int) -> python_report.Runs:
    """The runs of each setting: those of the rounds or, without rounds, the first one."""
    first = dict(zip(settings, run_round(bench, settings, True)))
    rates = {setting: run["samples_per_second"] for setting, run in first.items()}
    chosen = python_plan.worth_measuring(rates)
    print(f"{len(chosen)} of {len(settings)} settings are measured in {rounds} rounds", flush=True)
    measured = [run_round(bench, chosen, False) for _ in range(rounds)]
    runs = {setting: [run] for setting, run in first.items()}
    return runs | {setting: list(of_rounds) for setting, of_rounds in zip(chosen, zip(*measured))}


def run_loops(bench: Bench, rounds: int) -> dict[str, list[float]]:
    """Seconds per batch of eight samples with two tensors each, without workers: in a Python loop, and the part
    of them in the C++ pipeline."""
    setting = Setting(OURS, "tensors", "", 0, 8)
    loops: dict[str, list[float]] = {"Python": [], "C++": []}
    batches = max(200, int(10_000 * bench.seconds))
    task = {"task": "loop", "warmup_batches": batches // 4, "batches": batches}
    for _ in range(rounds):
        result = bench.run(setting, task)
        for who, seconds in result.items():
            loops[who].append(seconds)
        print(", ".join(f"{who} {1e6 * loops[who][-1]:.1f} µs a batch" for who in loops), flush=True)
    return loops


def bench_in_cpp(bench: Bench, kind: str, flags: list[str]) -> dict[str, Any]:
    """The output of `energon bench` with one repetition."""
    folder = python_data.data_set_of(kind, bench.samples[kind]).folder(bench.data)
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary) / "bench.json"
        command = [bench.energon, "bench", str(folder), "--json", str(path), "--repetitions", "1"]
        subprocess.run([*command, "--no-progress", *flags], check=True, stdout=subprocess.DEVNULL)
        result: dict[str, Any] = json.loads(path.read_text())
        return result


def run_resumes(
    bench: Bench, found: dict[str, Any], rounds: int
) -> dict[str, list[dict[str, Any]]]:
    """Save and resume on text, for loaders that support it; slow ones once."""
    variants = {"energon_cpp": [""], "megatron_energon": ["bytes", "checkpoints"]}
    resumes: dict[str, list[dict[str, Any]]] = {}
    for loader in python_plan.RESUMING:
        for variant in variants.get(loader, ["bytes"]) if loader in found else []:
            setting = Setting(loader, "text", variant, 2, 64)
            who = LOADERS[loader] + (", state kept every second" if variant == "checkpoints" else "")
            repetitions = 1 if loader == "megatron_energon" else rounds
            resumes[who] = [bench.run(setting, {"task": "resume"}) for _ in range(repetitions)]
            print(f"{who}: resumes in {resumes[who][-1]['resume_seconds']:.4f} s", flush=True)
    return resumes


def arguments_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="with energon_cpp and the other loaders")
    parser.add_argument("--energon", required=True, help="the program, of the same build")
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder of the datasets")
    parser.add_argument("--json", required=True, help="file for the report, or '' for none")
    parser.add_argument("--targets-only", action="store_true", help="only the settings of targets")
    parser.add_argument("--loaders", nargs="+", default=list(LOADERS), choices=LOADERS)
    parser.add_argument("--report", choices=python_plan.REPORTS, default="peers_python")
    parser.add_argument("--works", nargs="+", help="those of the report by default")
    parser.add_argument("--workers", nargs="+", type=int, default=list(python_plan.WORKERS))
    parser.add_argument("--batches", nargs="+", type=int, default=list(python_plan.BATCH_SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="measured in each run of a round")
    parser.add_argument("--first-seconds", type=float, default=0.5, help="measured in the first run")
    parser.add_argument("--warmup", type=float, default=0.5, help="seconds before a measurement")
    parser.add_argument("--verify", type=int, default=1000, help="maximum number of samples to compare")
    parser.add_argument("--text-samples", type=int, default=200_000)
    parser.add_argument("--images", type=int, default=8000)
    parser.add_argument("--blobs", type=int, default=2048)
    arguments = parser.parse_args()
    arguments.works = arguments.works or python_plan.REPORTS[arguments.report][1]
    return arguments


def bench_of(arguments: argparse.Namespace, processes: LoaderProcesses) -> Bench:
    samples = {"text": arguments.text_samples, "image": arguments.images}
    samples |= {"blob": arguments.blobs, "tensors": max(64, arguments.text_samples // 4)}
    if arguments.report == "peers_tokens":
        samples = {"words": max(64, arguments.text_samples // 4)}
    return Bench(
        python=arguments.python,
        processes=processes,
        energon=arguments.energon,
        data=arguments.data,
        samples=samples,
        seconds=arguments.seconds,
        first_seconds=arguments.first_seconds,
        warmup=arguments.warmup,
        verify=arguments.verify,
    )


def make_data(bench: Bench) -> None:
    """Runs in the environment of the loaders, which contains NumPy and Pillow."""
    command = [bench.python, "-B", str(HERE / "python_data.py"), str(bench.data), bench.energon]
    subprocess.run([*command, json.dumps(bench.samples)], check=True)


def compare(arguments: argparse.Namespace, processes: LoaderProcesses) -> dict[str, Any]:
    bench = bench_of(arguments, processes)
    make_data(bench)
    only = arguments.loaders
    if arguments.targets_only:
        only = [loader for loader in only if loader in python_plan.LOADERS_OF_TARGETS]
    found, missing = found_loaders(bench, only)
    machine = bench_in_cpp(bench, next(iter(bench.samples)), ["--limit", "10", "--warmup-batches", "1"])["machine"]
    settings = python_plan.settings_of(
        found, arguments.works, arguments.workers, arguments.batches
    )
    if arguments.targets_only:
        settings = python_plan.needed_for_targets(settings)
    runs = run_rounds(bench, settings, arguments.rounds)
    loops: dict[str, list[float]] = {"Python": [], "C++": []}
    resumes: dict[str, list[dict[str, Any]]] = {}
    if arguments.report == "peers_python":
        loops = run_loops(bench, max(3, arguments.rounds))
        resumes = run_resumes(bench, found, arguments.rounds)
    about = {"rounds": arguments.rounds, "seconds": arguments.seconds}
    about |= {"first seconds": arguments.first_seconds, **bench.samples}
    for loader in found:
        about |= {name.split(".")[0]: v for name, v in found[loader]["versions"].items()}
    about |= {f"without {who}": "not installed" for who in missing}
    if arguments.report == "peers_tokens":
        about |= {"TOKENIZERS_PARALLELISM": "true"}
    report = python_report.report_of(arguments.report, machine, about, runs, loops, resumes)
    return report | {"reads": {LOADERS[loader]: found[loader]["reads"] for loader in found}}


def main() -> None:
    arguments = arguments_of()
    begin = time.monotonic()
    try:
        with LoaderProcesses(arguments.python) as processes:
            report = compare(arguments, processes)
    except Failed as failure:
        sys.exit(str(failure))
    if report["machine"]["assertions"]:
        print("built with assertions on; use the preset release", file=sys.stderr)
    for one in report["targets"]:
        met = "met" if one["met"] else "MISSED"
        value, asked = (one[key] * (1e6 if one["unit"] == "s" else 1) for key in ("value", "target"))
        unit = " µs" if one["unit"] == "s" else ""
        print(f"{one['name']}: {value:.2f}{unit} (asked: at {one['at']} {asked:g}{unit}): {met}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n")
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
