"""check_headers.py: checks the lists of headers in the CMakeLists.txt of the libraries: headers in HEADERS are installed, so they may only
include installed headers of ours. Prints each wrong include."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def installed_headers():
    headers = {"energon/energon.h"}
    for lists in ROOT.glob("*/**/CMakeLists.txt"):
        if lists.relative_to(ROOT).parts[0] not in ("io", "energon", "media", "wrappers", "protocols"):
            continue
        for names in re.findall(r"^energon_library\(NAME \w+\s+HEADERS(.*?)\s(?:INTERNAL|SOURCES)\s", lists.read_text(), re.M | re.S):
            headers |= {str((lists.parent / name).resolve().relative_to(ROOT)) for name in names.split()}
    return headers


def main():
    installed = installed_headers()
    wrong = [
        f"{header} is installed, but not {included}, which it includes"
        for header in sorted(installed)
        for included in re.findall(r'^#include "([^"]+)"', (ROOT / header).read_text(), re.M)
        if included not in installed
    ]
    print("\n".join(wrong) or f"{len(installed)} installed headers include only such")
    return 1 if wrong else 0


sys.exit(main())
