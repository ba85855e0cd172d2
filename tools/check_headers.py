"""check_headers.py: checks the lists of headers in the CMakeLists.txt files. Every header outside tests is in a list, so that it is compiled
alone; Highway's -inl.h, which are included several times, are not. A header that a library installs (HEADERS) includes only installed headers of ours. Prints each violation."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("io", "energon", "media", "wrappers", "protocols", "cli", "bench", "python/src")


def listed_headers():
    """(installed headers, all headers that are in a list), as paths from the root"""
    installed, listed = {"energon/energon.h"}, {"energon/energon.h"}
    for path in ROOT.glob("*/**/CMakeLists.txt"):
        if path.relative_to(ROOT).parts[0] in ("build", "tests"):
            continue
        text = path.read_text(encoding="utf-8")
        for call, body in re.findall(r"\b(energon_\w+)\(([^()]*(?:\$\{[^}]*\}[^()]*)*)\)", text):
            if call not in ("energon_files", "energon_library", "energon_program", "energon_headers_compile_alone"):
                continue
            kind = ""
            for word in body.split():
                if re.fullmatch("[A-Z]+", word):
                    kind = word
                elif word.endswith(".h"):
                    header = str((path.parent / word).resolve().relative_to(ROOT))
                    listed.add(header)
                    if kind == "HEADERS":
                        installed.add(header)
    return installed, listed


def main():
    installed, listed = listed_headers()
    existing = {str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).glob("**/*.h") if not path.name.endswith("-inl.h")}
    wrong = [f"{header} is in no list of headers: add it to the CMakeLists.txt of its folder" for header in sorted(existing - listed)]
    wrong += [f"{header} is in a list of headers but does not exist" for header in sorted(listed - existing)]
    wrong += [
        f"{header} is installed, but not {included}, which it includes"
        for header in sorted(installed & existing)
        for included in re.findall(r'^#include "([^"]+)"', (ROOT / header).read_text(encoding="utf-8"), re.M)
        if included not in installed
    ]
    print("\n".join(wrong) or f"{len(listed)} headers are in lists; {len(installed)} of them are installed and include only such")
    return 1 if wrong else 0


sys.exit(main())
