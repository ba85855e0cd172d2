#!/usr/bin/env python3
"""Lists the tests that were skipped, and why, from the reports that `ctest --output-junit` writes:

    tests/skipped.py [--expected FILE] REPORT...

With --expected, exits with 1 if the list differs from the lines of FILE (blank lines and lines that begin with # do not count).
Without reports, exits with 1 if FILE lists a test name or a reason that does not occur in the sources of the tests, so that a
renamed test is noticed before the slow run that skips it.
"""

import argparse
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

# What skip_case() of tests/support/skip.h and our scripts print, and pytest's summary of a file.
REASON = re.compile(r"^\s*SKIPPED(?: \[\d+\] \S+?(?::\d+)?)?: ?(.*)$", re.MULTILINE)


def skips_of(case: ElementTree.Element) -> list[str]:
    """'NAME: REASON' for each skip that a ctest reports, which may have passed as a whole."""
    name, output = case.get("name", ""), case.findtext("system-out") or ""
    reasons = sorted({reason.strip() for reason in REASON.findall(output)})
    if not reasons and (case.find("skipped") is not None or case.get("status") == "notrun"):
        reasons = ["skipped without a reason"]
    return [f"{name}: {reason}" for reason in reasons]


def read_expected(path: pathlib.Path) -> set[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line.strip() and not line.startswith("#")}


def unknown_lines(expected: set[str], sources: list[str]) -> list[str]:
    """The lines 'PRESET: SUITE: NAME: REASON' whose name and reason are not both in `sources`."""

    def occurs(line: str) -> bool:
        parts = line.split(": ")
        splits = [(": ".join(parts[start:middle]), ": ".join(parts[middle:]))
                  for start in (1, 2) for middle in range(start + 1, len(parts))]
        return any(all(any(text in source for source in sources) for text in split) for split in splits)

    # A suite is given as SUITE:NAME by ctest.
    return [line for line in sorted(expected) if not occurs(re.sub(r"^(\w+: [\w ]+):(?! )", r"\1: ", line))]


def check_names(path: pathlib.Path) -> int:
    sources = []
    for file in path.parent.parent.rglob("*"):
        if file.suffix in {".cpp", ".py", ".txt", ".cmake"} and file != path and "build" not in file.parts:
            # Adjacent string literals are one string.
            sources.append(re.sub(r'"\s*\n\s*"', "", file.read_text(encoding="utf-8", errors="replace")))
    unknown = unknown_lines(read_expected(path), sources)
    for line in unknown:
        print(f"{path}: no test has this name and reason: {line}", file=sys.stderr)
    return 1 if unknown else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="*", metavar="REPORT")
    parser.add_argument("--expected", metavar="FILE", type=pathlib.Path)
    arguments = parser.parse_args()
    if not arguments.reports:
        if arguments.expected is None:
            parser.error("expected reports, --expected, or both")
        return check_names(arguments.expected)
    skips = []
    for report in arguments.reports:
        # Tests of several presets have the same names: the report's folder tells them apart.
        preset = pathlib.Path(report).parent.name
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            skips += [f"{preset}: {skip}" for skip in skips_of(case)]
    print(f"{len(skips)} skipped")
    for skip in sorted(skips):
        print(f"  {skip}")
    if arguments.expected is None:
        return 0
    expected = read_expected(arguments.expected)
    for skip in sorted(set(skips) - expected):
        print(f"skipped, but not listed in {arguments.expected}: {skip}", file=sys.stderr)
    for skip in sorted(expected - set(skips)):
        print(f"listed in {arguments.expected}, but not skipped: {skip}", file=sys.stderr)
    return 0 if set(skips) == expected else 1


if __name__ == "__main__":
    sys.exit(main())
