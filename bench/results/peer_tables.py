"""The section of docs/benchmarks.md that compares loaders of Python."""

from results import humanise
from svg import bar_chart

# As in bench/peers/python_plan.py.
TITLES = {"text": "Text of 0.8 KB", "image": "JPEGs of 110 KB, raw", "decoded": "JPEGs of 512 x 384, decoded", "blob": "Blobs of 1 MiB",
          "identity": "Text, `encode_sample` returns its input", "arrays": "Text, `encode_sample` makes two arrays"}
OURS = "energon_cpp"
ASKED = (2, 64)


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


def cost_table(found):
    """What else a loader takes, with two workers and batches of 64."""
    lines = ["| 2 workers, batch 64 | CPU for a million samples | memory of all processes | first batch |", "| --- | --- | --- | --- |"]
    for (loader, *layout), result in found.items():
        if tuple(layout) == ASKED:
            lines.append(f"| {loader} | {humanise(result['cpu_seconds_per_million'], 's')} | {humanise(result['pss_bytes'], 'B')} | "
                         f"{humanise(result['first_batch_seconds'], 's')} |")
    return lines


def peer_section(report):
    """Two tables for each work."""
    lines = []
    for work, title in TITLES.items():
        found = of_work(report, work)
        if found:
            lines += [f"### {title}", "", *rate_table(found), "", *cost_table(found), ""]
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
