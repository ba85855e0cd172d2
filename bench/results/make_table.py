#!/usr/bin/env python3
"""Writes the JSON files next to this script into README.md and docs/benchmarks.md.

Replaces the text between <!-- bench:begin --> and <!-- bench:end --> in both, and writes the plots to docs/plots. With --check, writes nothing,
and exits with 1 if a file does not show the results.
"""

import argparse
import difflib
import pathlib
import sys

from peer_tables import peer_section
from plots import plots_of
from results import FOLDER, ResultsError, machine_text, read_reports
from tables import readme_table, report_table, summary_table, target_table

ROOT = FOLDER.parent.parent
BEGIN = "<!-- bench:begin -->"
END = "<!-- bench:end -->"
PROGRAMS = {"media_torch": "bench/peers/compare_torch.sh", "peers_python": "bench/peers/compare_python.sh",
            "peers_tokens": "bench/peers/compare_python.sh --report peers_tokens"}  # others are named after their report


def page_with(page, block):
    """The text of a page whose block is replaced."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ResultsError(f"{page} has no block {BEGIN} … {END}")
    return f"{before}{begin}\n{block}\n{end}{after}"


def long_block(reports, plots):
    """The block of docs/benchmarks.md: the summary, all targets, then a section for each benchmark."""
    lines = ["## Summary", "", *summary_table(reports), "", "## Targets", "", *target_table(reports), ""]
    for name, report in reports.items():
        settings = ", ".join(f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in report["settings"].items())
        lines += [f"## {report['question']}", "", f"`{PROGRAMS.get(name, f'bench_{name}')}` with {settings}; {machine_text([report])}.", ""]
        for file_name, (text, _) in plots[name].items():
            lines += [f"![{text}](plots/{file_name}.svg)", ""]
        lines += peer_section(report) + [*report_table(report), ""]
    return "\n".join(lines).rstrip()


def contents(root, reports):
    """{path: text} of all files that show the results."""
    plots = {name: plots_of(name, report) for name, report in reports.items()}
    texts = {root / "README.md": page_with(root / "README.md", "\n".join(readme_table(reports))),
             root / "docs" / "benchmarks.md": page_with(root / "docs" / "benchmarks.md", long_block(reports, plots))}
    for drawn in plots.values():
        for file_name, (_, svg) in drawn.items():
            texts[root / "docs" / "plots" / f"{file_name}.svg"] = svg
    return texts


def stale_plots(root, texts):
    return [path for path in sorted((root / "docs" / "plots").glob("*.svg")) if path not in texts]


def check(root, texts):
    """Prints what differs; True if nothing does."""
    is_right = True
    for path, text in texts.items():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old != text:
            is_right = False
            name = str(path.relative_to(root))
            sys.stderr.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, f"{name} from the results"))
    for path in stale_plots(root, texts):
        is_right = False
        print(f"{path.relative_to(root)}: no results for this plot", file=sys.stderr)
    return is_right


def write(root, texts):
    (root / "docs" / "plots").mkdir(exist_ok=True)
    for path in stale_plots(root, texts):
        path.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if something is stale")
    parser.add_argument("--results", type=pathlib.Path, default=FOLDER, help="folder of the JSON files")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="folder of README.md and docs")
    arguments = parser.parse_args()
    try:
        texts = contents(arguments.root, read_reports(arguments.results))
        if not arguments.check:
            write(arguments.root, texts)
        elif not check(arguments.root, texts):
            sys.exit("README.md and docs do not show bench/results; run bench/results/make_table.py")
    except ResultsError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
