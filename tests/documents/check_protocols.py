"""check_protocols.py ROOT: protocols/README.md agrees with protocols/ and the tests.

Names of test cases start with the numbers that the page describes (ACC-07); its table contains each header; the files that it links to exist. Prints
what is wrong, with exit code 1.
"""

import pathlib
import re
import sys

# A string that starts with a number: in a C++ test, the name of a test case.
CITED = re.compile(r'"([A-Z]+-\d\d) ')
DESCRIBED = re.compile(r"^\| ([A-Z]+-\d\d) \| \S", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def problems(root):
    folder = root / "protocols"
    page = (folder / "README.md").read_text(encoding="utf-8")
    cited = {}
    for path in sorted((root / "tests").rglob("*.cpp")):
        for number in CITED.findall(path.read_text(encoding="utf-8")):
            cited.setdefault(number, path.relative_to(root))
    described = DESCRIBED.findall(page)
    links = set(LINK.findall(page))
    headers = {path.relative_to(folder).as_posix() for path in folder.rglob("*.h")}
    for lists in folder.glob("**/CMakeLists.txt"):
        internal = re.findall(r"\S+\.h", lists.read_text(encoding="utf-8").partition("INTERNAL")[2])
        headers -= {str((lists.parent / name).relative_to(folder)) for name in internal}
    return ([f"{cited[number]}: {number} is not described in protocols/README.md" for number in sorted(cited.keys() - set(described))]
            + [f"protocols/README.md: no test has the number {number}" for number in sorted(set(described) - cited.keys())]
            + [f"protocols/README.md: {number} is described twice" for number in sorted({n for n in described if described.count(n) > 1})]
            + [f"protocols/README.md: {header} is in no table" for header in sorted(headers - links)]
            + [f"protocols/README.md: {link} does not exist" for link in sorted(links) if not (folder / link).exists()])


def main():
    found = problems(pathlib.Path(sys.argv[1]))
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
