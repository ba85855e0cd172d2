"""coverage_table.py BUILD [--lines FOLDER]: gcov's counts by source folder.

Counts lines for which the compiler generated code. A line that several programs compile, such as a header's, has
run if it ran in any of them.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("io", "energon", "media", "wrappers", "protocols", "cli")


def counts_of(data_file):
    """{source: {line: runs}} of one object file."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", str(data_file)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, cwd=data_file.parent, check=True)
    result = {}
    for text in done.stdout.splitlines():
        for source in json.loads(text)["files"]:
            path = pathlib.Path(os.path.normpath(ROOT / source["file"]))
            if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in FOLDERS:
                continue
            lines = result.setdefault(str(path.relative_to(ROOT)), collections.Counter())
            for line in source["lines"]:
                lines[line["line_number"]] += line["count"]
    return result


def all_counts(build):
    total = {}
    files = sorted(build.rglob("*.gcda"))
    if not files:
        sys.exit(f"{build}: no counters; run tools/coverage.sh")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(counts_of, files):
            for source, lines in result.items():
                total.setdefault(source, collections.Counter()).update(lines)
    return total


def print_table(counts):
    folders = collections.defaultdict(lambda: [0, 0])
    for source, lines in counts.items():
        entry = folders[str(pathlib.Path(source).parent)]
        entry[0] += len(lines)
        entry[1] += sum(1 for runs in lines.values() if runs > 0)
    print("| folder | lines | run |\n|---|---|---|")
    rows = sorted(folders.items()) + [("all", [sum(column) for column in zip(*folders.values())])]
    for folder, (lines, run) in rows:
        name = folder if folder == "all" else f"`{folder}`"
        print(f"| {name} | {lines:,} | {100 * run / lines:.1f} % |")


def print_lines(counts, folder):
    for source, lines in sorted(counts.items()):
        if not (source + "/").startswith(folder.rstrip("/") + "/"):
            continue
        text = (ROOT / source).read_text(encoding="utf-8").split("\n")
        for number in sorted(line for line, runs in lines.items() if runs == 0):
            print(f"{source}:{number}: {text[number - 1].strip() if number <= len(text) else ''}")


def main():
    counts = all_counts(pathlib.Path(sys.argv[1]).resolve())
    if len(sys.argv) == 4 and sys.argv[2] == "--lines":
        print_lines(counts, sys.argv[3])
    else:
        print_table(counts)


if __name__ == "__main__":
    main()
