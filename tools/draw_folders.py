"""draw_folders.py [--check]: draws docs/folders.svg, the source folders and which includes which.

Folders and their order come from tools/check_layers.sh. Arrows that others imply are omitted. With --check, only reports whether the
picture matches the sources.
"""

import html
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "folders.svg"
# From the top of the picture to its bottom: the label of a row, and the folders in it.
ROWS = (
    ("programs", r"cli(/.*)?|python/src"),
    ("other systems", r"protocols(/.*)?"),
    ("stages", r"wrappers/.*"),
    ("decoding", r"media(/.*)?"),
    ("interfaces", r"energon/(distributed|autosave|megatron|torch)"),
    ("processes", r"energon/(process|worker|loader|checkpoint)"),
    ("samples and order", r"energon/(state|sample|order|stage|read)"),
    ("files", r"io(/.*)?"),
)
BOX_WIDTH, BOX_HEIGHT, GAP, ROW_HEIGHT, LEFT, TOP = 146, 40, 20, 128, 150, 20


def folders_in_order():
    table = (ROOT / "tools" / "check_layers.sh").read_text(encoding="utf-8").split("folders=(")[1].split("\n)")[0]
    folders = [row.split("|")[0] for row in re.findall(r'"([^"]+)"', table)]
    return [folder for folder in folders if not folder.startswith("bench") and folder != "energon"]


def includes(folders):
    """{(folder, included folder): number of includes}"""
    edges = {}
    for folder in folders:
        for path in sorted((ROOT / folder).glob("*.h")) + sorted((ROOT / folder).glob("*.cpp")):
            for name in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M):
                target = name.rpartition("/")[0]
                if target != folder and target in folders:  # not what the program takes from bench/support
                    edges[folder, target] = edges.get((folder, target), 0) + 1
    return edges


def without_implied(folders, edges):
    below = {}
    for folder in folders:  # those it includes come before it
        direct = {target for source, target in edges if source == folder}
        below[folder] = direct.union(*(below[target] for target in direct))
    return {
        (source, target): count
        for (source, target), count in edges.items()
        if not any(target in below[other] for start, other in edges if start == source and other != target)
    }


def places(folders):
    result = {}
    for row, (_, pattern) in enumerate(ROWS):
        for column, folder in enumerate(folder for folder in folders if re.fullmatch(pattern, folder)):
            result[folder] = (LEFT + column * (BOX_WIDTH + GAP), TOP + row * ROW_HEIGHT)
    return result


def arrow(start, end, count):
    (x1, y1), (x2, y2) = start, end
    if y1 == y2:  # in one row: an arc below it
        a, b, depth = x1 + BOX_WIDTH / 2, x2 + BOX_WIDTH / 2, y1 + BOX_HEIGHT
        bend = depth + 14 + abs(a - b) / 12
        path = f"M{a - 8:.0f} {depth} C{a - 8:.0f} {bend:.0f} {b + 8:.0f} {bend:.0f} {b + 8:.0f} {depth + 3}"
    else:
        a, b = x1 + BOX_WIDTH / 2, x2 + BOX_WIDTH / 2
        top, bottom = y1 + BOX_HEIGHT, y2 - 3
        path = f"M{a:.0f} {top} C{a:.0f} {top + 50} {b:.0f} {bottom - 50} {b:.0f} {bottom}"
    width = min(4.0, 0.8 + count / 12)
    return f'<path d="{path}" stroke-width="{width:.1f}"/>'


def draw():
    folders = folders_in_order()
    place = places(folders)
    shown = without_implied(folders, includes(folders))
    width = max(x for x, _ in place.values()) + BOX_WIDTH + GAP
    height = TOP + len(ROWS) * ROW_HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto" '
        'markerUnits="userSpaceOnUse"><path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for row, (name, _) in enumerate(ROWS):
        y = TOP + row * ROW_HEIGHT + BOX_HEIGHT / 2 + 5
        lines.append(f'<text x="12" y="{y:.0f}" fill="#667">{html.escape(name)}</text>')
    lines.append('<g fill="none" stroke="#99a" stroke-opacity="0.75">')
    for (source, target), count in sorted(shown.items()):
        lines.append(arrow(place[source], place[target], count).replace("/>", ' marker-end="url(#tip)"/>'))
    lines.append("</g>")
    for folder, (x, y) in place.items():
        files = len(list((ROOT / folder).glob("*.h")))
        lines.append(f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="#eef3fb" stroke="#446"/>')
        middle = x + BOX_WIDTH / 2
        lines.append(f'<text x="{middle:.0f}" y="{y + 17}" text-anchor="middle">{html.escape(folder)}</text>')
        lines.append(f'<text x="{middle:.0f}" y="{y + 33}" text-anchor="middle" font-size="11" fill="#667">{files} headers</text>')
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def main():
    picture = draw()
    if sys.argv[1:] == ["--check"]:
        if not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != picture:
            sys.exit("docs/folders.svg does not match the sources: run python3 tools/draw_folders.py")
    else:
        PICTURE.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
