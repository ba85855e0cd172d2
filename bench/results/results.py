"""The results of the benchmarks, their order, and the format of numbers."""

import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
# The order of the sections. A file of results that is not named here is an error.
ORDER = ["small_samples", "large_bytes", "small_batches", "rotation", "prepare", "opening", "startup", "save_restore", "large_states",
         "shuffle_buffer", "loader", "raw_read", "ring", "media_decode", "media_crops", "media_torch", "media_video", "media_memory",
         "peers_python", "peers_tokens"]
PREFIXES = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")]


class ResultsError(Exception):
    """Describes what is wrong with the results, and what to do."""


def humanize(value, unit):
    """Three significant digits with a prefix: 1234567, "B/s" -> "1.23 MB/s"."""
    if unit == "":
        return f"{value:.2f}"
    factor, prefix = next((p for p in PREFIXES if abs(value) >= p[0] * 0.9995), PREFIXES[-1])
    scaled = value / factor
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    if unit in ("s", "B", "B/s"):
        return f"{scaled:.{digits}f} {prefix}{unit}"
    return f"{scaled:.{digits}f}{' ' if prefix else ''}{prefix} {unit}"


def result_of(report, name):
    """The result with this name."""
    for result in report["results"]:
        if result["name"] == name:
            return result
    raise ResultsError(f"{report['name']}.json has no result '{name}', which a table or a plot shows: run all of "
                       f"bench_{report['name']}, or update the names in bench/results")


def read_reports(folder=FOLDER):
    """{name: report} in the order of the sections."""
    found = {path.stem: path for path in sorted(folder.glob("*.json"))}
    unknown = sorted(set(found) - set(ORDER))
    if unknown:
        raise ResultsError(f"{', '.join(unknown)}: results that no section shows; add them to ORDER in bench/results/results.py")
    if not found:
        raise ResultsError(f"no results in {folder}; run bench/run_all.sh")
    reports = {name: json.loads(found[name].read_text(encoding="utf-8")) for name in ORDER if name in found}
    for name, report in reports.items():
        if report["machine"]["assertions"]:
            raise ResultsError(f"{name}.json was measured with assertions on; not published")
    return reports


def machine_text(reports):
    """Where and when the reports were measured, in one sentence."""
    texts, loads = set(), []
    for report in reports:
        machine = report["machine"]
        texts.add(f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['kernel']}, "
                  f"{machine['compiler']}, {machine['build_type']}, {machine['date']}")
        loads.append(float(machine["load_1min_at_start"]))
    load = f"{min(loads):.1f}" if min(loads) == max(loads) else f"{min(loads):.1f} – {max(loads):.1f}"
    return f"{'; '.join(sorted(texts))}; load {load} at the start"


def short_machine_text(reports):
    """The machines of the reports, without the details that only comparisons over time need."""
    machines = {f"{machine['cpu']} ({machine['cores']} cores)" for machine in (report["machine"] for report in reports)}
    return " and ".join(sorted(machines))
