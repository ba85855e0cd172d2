#!/usr/bin/env python3
"""Makes the benchmark block of README.md from the JSON files beside this script.

Replaces what stands between <!-- bench:begin --> and <!-- bench:end -->. With --check nothing is
written, and the exit code is 1 if the block is not what the results say.
"""

import argparse
import difflib
import json
import pathlib
import sys

RESULTS = pathlib.Path(__file__).resolve().parent
README = RESULTS.parent.parent / "README.md"
BEGIN = "<!-- bench:begin -->"
END = "<!-- bench:end -->"
ORDER = ["raw_read", "loader", "small_batches", "ring", "save_restore", "startup", "shuffle_buffer"]
PREFIXES = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")]


def humanise(value, unit):
    """Three significant digits with a prefix: 1234567, "B/s" -> "1.23 MB/s"."""
    if unit == "":
        return f"{value:.2f}"
    factor, prefix = next((p for p in PREFIXES if abs(value) >= p[0] * 0.9995), PREFIXES[-1])
    scaled = value / factor
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    if unit in ("s", "B", "B/s"):
        return f"{scaled:.{digits}f} {prefix}{unit}"
    return f"{scaled:.{digits}f}{' ' if prefix else ''}{prefix} {unit}"


def extra(result):
    """The columns that only some results have, as one cell."""
    texts = []
    if "ratio_to_bare" in result:
        texts.append(f"{result['ratio_to_bare']:.2f} of the bare loop")
    if "bytes_per_second" in result:
        texts.append(humanise(result["bytes_per_second"], "B/s"))
    if "p99_seconds" in result:
        texts.append("p99 " + humanise(result["p99_seconds"], "s"))
    if "max_seconds" in result:
        texts.append("max " + humanise(result["max_seconds"], "s"))
    if "state_bytes" in result:
        texts.append("state " + humanise(result["state_bytes"], "B"))
    return ", ".join(texts)


def target_table(reports):
    lines = ["| target | asked | reached | |", "| --- | --- | --- | --- |"]
    for report in reports:
        for target in report["targets"]:
            asked = f"at {target['at']} {humanise(target['target'], target['unit'])}"
            reached = humanise(target["value"], target["unit"])
            lines.append(f"| {target['name']} | {asked} | {reached} | "
                         f"{'met' if target['met'] else 'missed'} |")
    return lines


def report_table(report):
    lines = ["<details>", f"<summary>{report['question']}</summary>", "",
             "| | median | min – max | |", "| --- | --- | --- | --- |"]
    for result in report["results"]:
        unit = result["unit"]
        lines.append(f"| {result['name']} | {humanise(result['median'], unit)} | "
                     f"{humanise(result['min'], unit)} – {humanise(result['max'], unit)} | "
                     f"{extra(result)} |")
    return lines + ["", "</details>", ""]


def machine_text(report):
    machine = report["machine"]
    return (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
            f"{machine['kernel']}, {machine['compiler']}, {machine['build_type']}, "
            f"{machine['date']}")


def make_block():
    reports = [json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
               for name in ORDER if (RESULTS / f"{name}.json").exists()]
    if not reports:
        sys.exit(f"no results in {RESULTS}; run bench/run_all.sh")
    for report in reports:
        if report["machine"]["assertions"]:
            sys.exit(f"{report['name']}.json was measured with assertions on; not published")
    machines = sorted({machine_text(report) for report in reports})
    loads = [float(report["machine"]["load_1min_at_start"]) for report in reports]
    lines = target_table(reports) + ["", "Measured on " + "; ".join(machines) +
                                     f"; load {min(loads):.1f} – {max(loads):.1f} at the start; page cache warm; medians. "
                                     "`bench/run_all.sh` measures again.", ""]
    for report in reports:
        lines += report_table(report)
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if README.md is stale")
    parser.add_argument("--readme", type=pathlib.Path, default=README)
    arguments = parser.parse_args()
    old = arguments.readme.read_text(encoding="utf-8")
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{arguments.readme} has no block {BEGIN} … {END}")
    new = f"{before}{begin}\n{make_block()}{end}{after}"
    if new == old:
        return
    if not arguments.check:
        arguments.readme.write_text(new, encoding="utf-8")
        return
    sys.stderr.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True),
                                               "README.md", "README.md from results"))
    sys.exit("README.md does not show bench/results; run bench/results/make_table.py")


if __name__ == "__main__":
    main()
