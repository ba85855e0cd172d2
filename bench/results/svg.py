"""Small charts as SVG, readable in light and in dark mode. The same numbers give the same bytes."""

import html
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 340, 74, 20, 56, 52
BAR, BAR_GAP = 18, 8
# Distinct also without colors, by their dashes and marks.
DASHES = ["none", "7 4", "2 3", "9 3 2 3", "1 5", "12 5"]
STYLE = """<style>
text{font:12px sans-serif;fill:#24292f}.title{font-size:14px;font-weight:bold}.grid{stroke:#d0d7de}.axis{stroke:#57606a}
.asked{stroke:#57606a;stroke-dasharray:3 3}.s{fill:none;stroke-width:2}.f{stroke:none}
.c0{stroke:#0969da}.c1{stroke:#bc4c00}.c2{stroke:#1a7f37}.c3{stroke:#8250df}.c4{stroke:#9a6700}.c5{stroke:#cf222e}
.f0{fill:#0969da}.f1{fill:#bc4c00}.f2{fill:#1a7f37}.f3{fill:#8250df}.f4{fill:#9a6700}.f5{fill:#cf222e}.back{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#30363d}.axis,.asked{stroke:#8b949e}.back{fill:#0d1117}
.c0{stroke:#58a6ff}.c1{stroke:#f0883e}.c2{stroke:#3fb950}.c3{stroke:#bc8cff}.c4{stroke:#d29922}.c5{stroke:#ff7b72}
.f0{fill:#58a6ff}.f1{fill:#f0883e}.f2{fill:#3fb950}.f3{fill:#bc8cff}.f4{fill:#d29922}.f5{fill:#ff7b72}}
</style>"""


def _text(x, y, text, anchor="start", kind="", turn=False):
    attributes = f' class="{kind}"' if kind else ""
    if turn:
        attributes += f' transform="rotate(-90 {x:.1f} {y:.1f})"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attributes}>{html.escape(text)}</text>'


def _line(x1, y1, x2, y2, kind):
    return f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def _frame(width, height, title, body):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
                      f'role="img">', f"<title>{html.escape(title)}</title>", STYLE,
                      f'<rect class="back" width="{width}" height="{height}"/>', _text(12, 20, title, kind="title"), *body, "</svg>"]) + "\n"


def _ticks(most):
    """Round values from 0 up to `most` or a little above."""
    step = 10 ** math.floor(math.log10(most / 4))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if most / (step * factor) <= 5)
    return [step * i for i in range(math.ceil(most / step - 1e-9) + 1)]


def _number(value):
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _legend(names):
    parts, x = [], LEFT
    for i, name in enumerate(names):
        parts.append(f'<path class="s c{i}" stroke-dasharray="{DASHES[i]}" d="M{x:.1f} 38L{x + 26:.1f} 38"/>')
        parts.append(_text(x + 32, 42, name))
        x += 32 + 7 * len(name) + 16
    return parts


def line_chart(title, x_name, x_labels, y_name, series, asked=None):
    """Lines over evenly spaced places on the x axis; bars from the smallest to the largest value of each point.

    `series`: [(name, [(median, min, max) or None for each place])], at most six. `asked`: (value, text) of a dashed line.
    """
    points = [point for _, values in series for point in values if point]
    ticks = _ticks(max([point[2] for point in points] + ([asked[0]] if asked else [])))
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    places = [LEFT + width * (i + 0.5) / len(x_labels) for i in range(len(x_labels))]

    def y_of(value):
        return TOP + height * (1 - value / ticks[-1])

    body = _legend([name for name, _ in series])
    for tick in ticks:
        body += [_line(LEFT, y_of(tick), WIDTH - RIGHT, y_of(tick), "axis" if tick == 0 else "grid"),
                 _text(LEFT - 8, y_of(tick) + 4, _number(tick), "end")]
    body += [_text(place, HEIGHT - BOTTOM + 18, label, "middle") for place, label in zip(places, x_labels)]
    body += [_text(LEFT + width / 2, HEIGHT - 10, x_name, "middle"), _text(18, TOP + height / 2, y_name, "middle", turn=True)]
    if asked:
        body += [_line(LEFT, y_of(asked[0]), WIDTH - RIGHT, y_of(asked[0]), "asked"),
                 _text(WIDTH - RIGHT - 4, y_of(asked[0]) - 5, asked[1], "end")]
    for i, (_, values) in enumerate(series):
        shown = [(x + 3 * (i - (len(series) - 1) / 2), *point) for x, point in zip(places, values) if point]
        path = "L".join(f"{x:.1f} {y_of(median):.1f}" for x, median, _, _ in shown)
        body.append(f'<path class="s c{i}" stroke-dasharray="{DASHES[i]}" d="M{path}"/>')
        for x, median, least, most in shown:
            body.append(_line(x, y_of(least), x, y_of(most), f"c{i}"))
            body.append(f'<circle class="f f{i}" cx="{x:.1f}" cy="{y_of(median):.1f}" r="3.5"/>')
    return _frame(WIDTH, HEIGHT, title, body)


def bar_chart(title, x_name, rows, asked=None):
    """One horizontal bar for each of `rows`: (name, value, color from 0 to 5, text after it)."""
    left = 20 + 7 * max(len(name) for name, _, _, _ in rows)
    width, bottom = WIDTH - left - 90, 36 + len(rows) * (BAR + BAR_GAP)
    ticks = _ticks(max([value for _, value, _, _ in rows] + ([asked[0]] if asked else [])))

    def x_of(value):
        return left + width * value / ticks[-1]

    body = []
    for tick in ticks:
        body += [_line(x_of(tick), 34, x_of(tick), bottom, "axis" if tick == 0 else "grid"),
                 _text(x_of(tick), bottom + 16, _number(tick), "middle")]
    for i, (name, value, color, text) in enumerate(rows):
        y = 40 + i * (BAR + BAR_GAP)
        body.append(f'<rect class="f f{color}" x="{left}" y="{y}" width="{x_of(value) - left:.1f}" height="{BAR}"/>')
        body += [_text(left - 8, y + 13, name, "end"), _text(x_of(value) + 6, y + 13, text)]
    if asked:
        body += [_line(x_of(asked[0]), 30, x_of(asked[0]), bottom, "asked"), _text(x_of(asked[0]) + 4, 31, asked[1])]
    body.append(_text(left + width / 2, bottom + 34, x_name, "middle"))
    return _frame(WIDTH, bottom + 44, title, body)
