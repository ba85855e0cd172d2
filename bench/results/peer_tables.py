"""The section of docs/benchmarks.md that compares loaders of Python."""

from results import humanise
from svg import bar_chart

# As in bench/peers/python_plan.py.
TITLES = {"text": "Text of 0.8 KB", "image": "JPEGs of 110 KB, raw", "decoded": "JPEGs of 512 x 384, decoded", "blob": "Blobs of 1 MiB",
          "identity": "Text, `encode_sample` returns its input", "arrays": "Text, `encode_sample` makes two arrays"}
OURS = "energon_cpp"
ASKED = (2, 64)
# Loaders that compare_python.sh does not run as they are fastest.
NOT_AT_BEST = {"grain": "Without grain, which the rows above do not show at its best: over 20 files, with batches made at map level, it gave 64,100 samples/s "
                        "of text when it was tried by hand."}


def of_work(report, work):
    """{(loader, workers, batch size): result}."""
    return {(result["loader"], result["workers"], result["batch_size"]): result
            for result in report["results"] if result.get("work") == work}


def _unique(values):
    return list(dict.fromkeys(values))


def rate_table(found):
    """A line for each loader, a column for each layout; the range of the rounds in brackets."""
    layouts = _unique(sorted((batch, workers) for _, workers, batch in found))
    lines = ["| samples/s | " + " | ".join(f"{workers} w, batch {batch}" for batch, workers in layouts) + " |",
             "| --- |" + " --- |" * len(layouts)]
    for loader in _unique(loader for loader, _, _ in found):
        cells = []
        for batch, workers in layouts:
            result = found.get((loader, workers, batch))
            cells.append("" if result is None else f"{result['median']:,.0f} ({result['min']:,.0f} – {result['max']:,.0f})")
        lines.append(f"| {loader} | " + " | ".join(cells) + " |")
    return lines


def best_layouts(found):
    """(loader, workers, batch size, result) of each loader's fastest layout, the fastest loader first."""
    best = {}
    for (loader, workers, batch), result in found.items():
        if loader not in best or result["median"] > best[loader][2]["median"]:
            best[loader] = (workers, batch, result)
    return sorted(((loader, *rest) for loader, rest in best.items()), key=lambda row: -row[3]["median"])


def layout_text(workers, batch):
    return f"{workers or 'no'} worker{'' if workers == 1 else 's'}, batch {batch}"


def best_table(found):
    """Each loader in the layout in which it is fastest: what a user who tunes each one would compare."""
    rows = [row for row in best_layouts(found) if row[0] not in NOT_AT_BEST]
    ours = next((result for loader, _, _, result in rows if loader == OURS), None)
    if ours is None or len(rows) == 1:
        return []
    lines = ["| each in its best layout | layout | samples/s | energon_cpp is |", "| --- | --- | --- | --- |"]
    for loader, workers, batch, result in rows:
        ratio = "" if loader == OURS else f"{ours['median'] / result['median']:.2f} times as fast"
        lines.append(f"| {loader} | {layout_text(workers, batch)} | {result['median']:,.0f} | {ratio} |")
    notes = [text for loader, text in NOT_AT_BEST.items() if any(loader == other for other, _, _ in found)]
    return [*lines, "", *(line for note in notes for line in (note, ""))]


def best_line(report, work, workload):
    """The line of README.md of the best layouts of ours and of the fastest other loader; None if one of the two was not measured."""
    rows = best_layouts(of_work(report, work))
    ours = next((row for row in rows if row[0] == OURS), None)
    other = next((row for row in rows if row[0] != OURS), None)
    if ours is None or other is None:
        return None
    (_, *layout, result), (loader, *other_layout, other_result) = ours, other
    return (f"| {workload} | {humanise(result['median'], result['unit'])} ({layout_text(*layout)}) | the fastest other loader, {loader} "
            f"({layout_text(*other_layout)}): {humanise(other_result['median'], other_result['unit'])} | "
            f"{result['median'] / other_result['median']:.2f} |")


def cost_table(found):
    """What else a loader takes, with two workers and batches of 64."""
    lines = ["| 2 workers, batch 64 | CPU for a million samples | memory of all processes | first batch |", "| --- | --- | --- | --- |"]
    for (loader, *layout), result in found.items():
        if tuple(layout) == ASKED:
            lines.append(f"| {loader} | {humanise(result['cpu_seconds_per_million'], 's')} | {humanise(result['pss_bytes'], 'B')} | "
                         f"{humanise(result['first_batch_seconds'], 's')} |")
    return lines


def peer_section(report):
    """The tables of each work."""
    lines = []
    for work, title in TITLES.items():
        found = of_work(report, work)
        if found:
            lines += [f"### {title}", "", *rate_table(found), "", *best_table(found), *cost_table(found), ""]
    return lines


def peer_plots(report):
    """A plot for each work: two workers, batches of 64."""
    plots = {}
    for work, title in TITLES.items():
        rows = [(loader, result["median"] * 1e-3, 0 if loader == OURS else 1, f"{result['median'] * 1e-3:,.2f}")
                for (loader, *layout), result in of_work(report, work).items() if tuple(layout) == ASKED]
        if rows:
            text = title.replace("`", "")
            plots[f"peers_python_{work}"] = (f"{text}, samples/s of loaders in Python with two workers",
                                             bar_chart(f"{text}: 2 workers, batch 64, touched", "thousand samples/s", rows))
    return plots
