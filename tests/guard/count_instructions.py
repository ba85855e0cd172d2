#!/usr/bin/env python3
"""Counts the instructions and allocations of the hot paths and compares them with counts.json.

  count_instructions.py --valgrind V --program hot_paths --build "GNU 12, Release, x86_64"
      [--update]          writes the counts of this build and the table of docs/performance.md
      [--functions NAME]  also lists the functions of the paths with NAME in their names

Exits with 0 if all counts are within the tolerance, 1 if one is not (higher or lower), 77 if there are none
for this build. callgrind counts the instructions of the program ("own") and, separately, of the shared
libraries that it loads, but not of the kernel.
"""

import argparse
import collections
import glob
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COUNTS = HERE / "counts.json"
PAGE = HERE.parent.parent / "docs" / "performance.md"
BEGIN = "<!-- guard:begin -->"
END = "<!-- guard:end -->"
TOLERANCE = 0.03
# The guarded counts, each with an absolute difference that is always tolerated, even if it exceeds 3 %.
SLACK = {"own": 1.0, "libraries": 1.0, "allocations": 0.02}
SKIPPED = 77
# The C library selects functions by processor; these settings select those of every x86-64.
PLAIN_PROCESSOR = "glibc.cpu.hwcaps=" + ",".join(
    "-" + name for name in (
        "AVX AVX2 AVX512F AVX512VL AVX512BW AVX_Fast_Unaligned_Load BMI1 BMI2 ERMS FSRM FMA FMA4 "
        "Fast_Unaligned_Copy Fast_Unaligned_Load LZCNT MOVBE POPCNT RTM SSE3 SSSE3 SSE4_1 SSE4_2 "
        "Slow_BSF XSAVE XSAVEC").split())

Path = collections.namedtuple("Path", "name unit count own libraries allocations functions")


def read_dump(path, program):
    """The instructions of each function in a file of callgrind, by (is it the program's, name)."""
    counts = collections.Counter()
    is_own = False
    function = ""
    is_call = False
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith("ob="):
            is_own = line[3:] == program
        elif line.startswith("fn="):
            function = line[3:]
        elif line.startswith("calls="):
            is_call = True  # the cost follows, but the called function reports it, too
        elif re.match(r"[0-9+*-]", line):
            if not is_call:
                counts[is_own, function] += int(line.split()[1])
            is_call = False
    return counts


def run_paths(valgrind, program):
    """Runs the program under callgrind."""
    with tempfile.TemporaryDirectory(prefix="energon_guard_") as folder:
        subprocess.run([program, "data"], cwd=folder, check=True, capture_output=True)
        command = [valgrind, "--tool=callgrind", "--dump-before=energon_guard_mark",
                   "--compress-strings=no", "--compress-pos=no", "--dump-line=no",
                   f"--callgrind-out-file={folder}/counts", program, "data"]
        environment = dict(os.environ, GLIBC_TUNABLES=PLAIN_PROCESSOR, LC_ALL="C")
        run = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {run.returncode}:\n{run.stderr}")
        dumps = {int(name.rsplit(".", 1)[1]): name for name in glob.glob(f"{folder}/counts.*")}
        if len(dumps) < 2 * len(run.stdout.splitlines()):
            sys.exit(f"callgrind wrote only {len(dumps)} counts: does it see energon_guard_mark()?")
        paths = []
        for number, line in enumerate(run.stdout.splitlines()):
            name, unit, *numbers = line.split("\t")
            count, allocations = map(int, numbers)
            # Each dump covers everything since the previous mark; the first covers what precedes all paths.
            functions = read_dump(dumps[2 * number + 2], program)
            own = sum(n for (is_own, _), n in functions.items() if is_own)
            if own == 0:
                sys.exit(f"callgrind counted nothing of {program} in '{name}'")
            libraries = sum(functions.values()) - own
            paths.append(Path(name, unit, count, own / count, libraries / count,
                              allocations / count, functions))
        return paths


def to_json(path):
    return {"unit": path.unit, **{what: round(getattr(path, what), 2) for what in SLACK}}


def difference(now, before, slack):
    """Such as "+4.1 %"; empty within the tolerance."""
    if abs(now - before) <= max(TOLERANCE * before, slack):
        return ""
    return f"{100 * (now / before - 1):+.1f} %" if before else f"+{now:.2f}"


def check(paths, counts):
    """Prints the counts next to the previous ones; returns the problems."""
    heads = [text for what in SLACK for text in (what, "was")]
    print(f"{'':<38}{'per':<10}" + "".join(f"{head:>12}" for head in heads))
    problems = []
    for path in paths:
        before = counts.get(path.name)
        line = f"{path.name:<38}{path.unit:<10}"
        for what, slack in SLACK.items():
            now = getattr(path, what)
            line += f"{now:>12.2f}" + (f"{before[what]:>12.2f}" if before else f"{'-':>12}")
            if before and difference(now, before[what], slack):
                problems.append(f"{path.name}, {what}: {difference(now, before[what], slack)}")
        if not before:
            problems.append(f"{path.name}: is not in counts.json")
        print(line)
    gone = set(counts) - {path.name for path in paths}
    return problems + [f"{name}: is in counts.json, but did not run" for name in sorted(gone)]


def table(counts):
    """The table of the page: a row for each path, a column for each build."""
    builds = sorted(counts)
    names = list(dict.fromkeys(name for build in builds for name in counts[build]))
    lines = [f"| | {' | '.join(builds)} |", "|---|" + "---|" * len(builds)]
    for name in names:
        cells = []
        for build in builds:
            found = counts[build].get(name)
            cells.append("{:,.0f} + {:,.0f}, {:.3g}".format(*(found[what] for what in SLACK))
                         if found else "")
        unit = next(counts[build][name]["unit"] for build in builds if name in counts[build])
        lines.append(f"| {name}; a {unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def to_text(counts):
    """A line for each path."""
    builds = []
    for build in sorted(counts):
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(path)}"
                           for name, path in counts[build].items())
        builds.append(f"  {json.dumps(build)}: {{\n{lines}\n  }}")
    return "{\n" + ",\n".join(builds) + "\n}\n"


def page_with(page, counts):
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{table(counts)}\n{END}{after}"


def list_functions(paths, name):
    for path in paths:
        if name in path.name:
            print(f"\n{path.name}, instructions per {path.unit}:")
            for (is_own, function), count in path.functions.most_common(25):
                print(f"{count / path.count:>10.1f}  {'' if is_own else '[library] '}{function[:120]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--valgrind", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--functions")
    options = parser.parse_args()
    # The counts include the C library's instructions.
    build = f"{options.build}, {os.confstr('CS_GNU_LIBC_VERSION')}"
    counts = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    update = "cmake --build BUILD_FOLDER --target guard_update"
    if build not in counts and not options.update and not options.functions:
        print(f"SKIPPED: there are no counts for {build}; to make them, on the commit to compare "
              f"with: {update}")
        return SKIPPED
    paths = run_paths(options.valgrind, os.path.realpath(options.program))
    problems = check(paths, counts.get(build, {}))
    if options.functions:
        list_functions(paths, options.functions)
    if options.update:
        counts[build] = {path.name: to_json(path) for path in paths}
        COUNTS.write_text(to_text(counts))
        PAGE.write_text(page_with(PAGE.read_text(), counts))
        return 0
    if page_with(PAGE.read_text(), counts) != PAGE.read_text():
        problems.append("the table in docs/performance.md differs from counts.json")
    if problems:
        print("\nDifferent from counts.json:\n  {}\n\nBy function: {} --functions NAME\nIf this is what you "
              "wanted, renew the counts and say why in the commit: {}".format(
                  "\n  ".join(problems), shlex.join(sys.argv), update))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
