"""The report of compare_python.py, in the form of the C++ benchmarks' reports."""

from __future__ import annotations

import statistics
from typing import Any

import python_plan
from python_plan import OURS, Setting

Runs = dict[Setting, list[dict[str, Any]]]


def row(name: str, unit: str, values: list[float], more: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "unit": unit,
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "repetitions": len(values),
        **more,
    }


def rates(runs: list[dict[str, Any]]) -> list[float]:
    return [run["samples_per_second"] for run in runs]


def rate_row(setting: Setting, runs: list[dict[str, Any]]) -> dict[str, Any]:
    more: dict[str, Any] = {"work": setting.work, "loader": setting.who}
    more |= {"workers": setting.workers, "batch_size": setting.batch_size}
    for name in ("cpu_seconds_per_million", "pss_bytes", "first_batch_seconds"):
        more[name] = statistics.median(run[name] for run in runs)
    return row(setting.name, "samples/s", rates(runs), more)


def best(
    runs: Runs, loader: str, work: str, variant: str | None = None
) -> list[dict[str, Any]]:
    """The runs of this variant, or of the fastest one, with the workers and batch size of the targets, among those measured
    in rounds, if any."""
    of_loader = [
        measured
        for one, measured in runs.items()
        if one.is_asked
        and (one.loader, one.work) == (loader, work)
        and variant in (None, one.variant)
    ]

    def rank(measured: list[dict[str, Any]]) -> tuple[int, float]:
        return len(measured), statistics.median(rates(measured))

    return max(of_loader, key=rank, default=[])


def target(name: str, unit: str, value: float, asked: float, at: str) -> dict[str, Any]:
    met = value >= asked if at == "least" else value <= asked
    return {"name": name, "unit": unit, "value": value, "target": asked, "at": at, "met": met}


def ratio_targets(runs: Runs) -> list[dict[str, Any]]:
    """Medians of the rounds' own ratios."""
    targets = []
    for ratio in python_plan.RATIOS:
        ours = best(runs, OURS, ratio.work)
        theirs = best(runs, ratio.loader, ratio.work, ratio.variant)
        if ours and theirs:
            value = statistics.median(a / b for a, b in zip(rates(ours), rates(theirs)))
            targets.append(target(ratio.name, "", value, ratio.least, "least"))
    return targets


def loop_rows(loops: dict[str, list[float]]) -> tuple[list[Any], list[Any]]:
    """Rows and the target for seconds per batch in Python and in C++."""
    if not loops["Python"]:
        return [], []
    rows = [row(f"loop over batches of tensors, {who}", "s", loops[who], {}) for who in loops]
    cost = statistics.median(a - b for a, b in zip(loops["Python"], loops["C++"]))
    name = "Python loop over C++, a batch of tensors"
    return rows, [target(name, "s", cost, python_plan.LOOP_SECONDS, "most")]


def resume_rows(resumes: dict[str, list[dict[str, Any]]]) -> tuple[list[Any], list[Any]]:
    """Rows for {who: runs}, and the target if both were measured."""
    rows = []
    for who, runs in resumes.items():
        for what in ("save", "resume"):
            values = [run[f"{what}_seconds"] for run in runs]
            rows.append(row(f"{what} at 99 % of an epoch, {who}", "s", values, {"loader": who}))
    ours, theirs = (resumes.get(python_plan.LOADERS[name]) for name in (OURS, "megatron_energon"))
    if not ours or not theirs:
        return rows, []
    medians = [statistics.median(run["resume_seconds"] for run in runs) for runs in (theirs, ours)]
    name = "Python, resume at 99 % of an epoch: ratio to megatron-energon"
    value = medians[0] / medians[1]
    return rows, [target(name, "", value, python_plan.RESUME_RATIO, "least")]


def report_of(
    name: str,
    machine: dict[str, Any],
    settings: dict[str, Any],
    runs: Runs,
    loops: dict[str, list[float]],
    resumes: dict[str, list[dict[str, Any]]],
) -> dict[str, Any]:
    rows = [rate_row(setting, measured) for setting, measured in runs.items() if measured]
    of_loop, loop_target = loop_rows(loops)
    of_resume, resume_target = resume_rows(resumes)
    return {
        "name": name,
        "question": python_plan.REPORTS[name][0],
        "machine": machine,
        "settings": settings,
        "results": rows + of_loop + of_resume,
        "targets": ratio_targets(runs) + loop_target + resume_target,
    }
