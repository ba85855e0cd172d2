#!/usr/bin/env python3
"""Lists the tests that were skipped, and why, from the reports that `ctest --output-junit` writes:

    tests/skipped.py [--expected FILE] REPORT...

With --expected, exits with 1 if the list differs from the lines of FILE (blank lines and lines that begin with # do not count).
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="+", metavar="REPORT")
    parser.add_argument("--expected", metavar="FILE", type=pathlib.Path)
    arguments = parser.parse_args()
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
    lines = arguments.expected.read_text(encoding="utf-8").splitlines()
    expected = {line for line in lines if line.strip() and not line.startswith("#")}
    for skip in sorted(set(skips) - expected):
        print(f"skipped, but not listed in {arguments.expected}: {skip}", file=sys.stderr)
    for skip in sorted(expected - set(skips)):
        print(f"listed in {arguments.expected}, but not skipped: {skip}", file=sys.stderr)
    return 0 if set(skips) == expected else 1


if __name__ == "__main__":
    sys.exit(main())
