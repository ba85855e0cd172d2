"""The section of docs/benchmarks.md that compares Python loaders."""

from results import humanize
from svg import bar_chart

# As in bench/peers/python_plan.py.
TITLES = {"text": "Text of 0.8 KB", "image": "JPEGs of 110 KB, raw", "decoded": "JPEGs of 512 x 384, decoded", "blob": "Blobs of 1 MiB",
          "identity": "Text, `encode_sample` returns its input", "arrays": "Text, `encode_sample` makes two arrays",
          "tokens": "Text of 0.8 KB, tokenized by Hugging Face's tokenizers"}
OURS = "energon_cpp"
ASKED = (2, 64)


def of_work(report, work):
    """{(loader, workers, batch size): result}."""
    return {(result["loader"], result["workers"], result["batch_size"]): result
            for result in report["results"] if result.get("work") == work}


def _unique(values):
    return list(dict.fromkeys(values))


def rate_table(found):
    """A line for each loader, a column for each layout; in brackets the range of the rounds, if any."""
    layouts = _unique(sorted((batch, workers) for _, workers, batch in found))
    lines = ["| samples/s | " + " | ".join(f"{workers} w, batch {batch}" for batch, workers in layouts) + " |",
             "| --- |" + " --- |" * len(layouts)]
    for loader in _unique(loader for loader, _, _ in found):
        cells = []
        for batch, workers in layouts:
            result = found.get((loader, workers, batch))
            cells.append("" if result is None else rate_text(result))
        lines.append(f"| {loader} | " + " | ".join(cells) + " |")
    return lines


def rate_text(result):
    text = f"{result['median']:,.0f}"
    return text if result["repetitions"] == 1 else f"{text} ({result['min']:,.0f} – {result['max']:,.0f})"


def fastest(found, layout=None):
    """{loader: result} of each loader's fastest variant, in its fastest layout or in this one (workers, batch size), the fastest loader
    first. Only settings that were measured in rounds, if any."""
    rounds = max((result["repetitions"] for result in found.values()), default=0)
    best = {}
    for (_, *of_result), result in found.items():
        if result["repetitions"] == rounds and layout in (None, tuple(of_result)):
            loader = result["loader"].split(", ")[0]
            if loader not in best or result["median"] > best[loader]["median"]:
                best[loader] = result
    return dict(sorted(best.items(), key=lambda item: -item[1]["median"]))


def layout_text(result):
    workers = result["workers"]
    return f"{workers or 'no'} worker{'' if workers == 1 else 's'}, batch {result['batch_size']}"


def ratio_text(ours, other):
    """The ratio of our rate to that of this loader, or '' for our own."""
    return "" if ours["loader"] == other["loader"] else f"{ours['median'] / other['median']:.2f}"


def best_table(found):
    """Each loader in its fastest layout, as a user who tunes each one would compare, and all loaders in the same layout."""
    best, same = fastest(found), fastest(found, ASKED)
    if OURS not in best or OURS not in same or len(best) == 1:
        return []
    lines = ["| | its best layout | samples/s | energon_cpp is × | 2 workers, batch 64 | energon_cpp is × |",
             "| --- | --- | --- | --- | --- | --- |"]
    for loader, result in best.items():
        at_asked = f"{same[loader]['median']:,.0f} | {ratio_text(same[OURS], same[loader])}" if loader in same else " | "
        lines.append(f"| {result['loader']} | {layout_text(result)} | {result['median']:,.0f} | {ratio_text(best[OURS], result)} | {at_asked} |")
    return lines


def peer_line(report, workload, work, other):
    """A line of the summary: ours compared with the loader `other` in the same layout, or, without one, with the fastest other loader, each in
    its best layout. None if one of the two was not measured."""
    found = of_work(report, work)
    best = fastest(found, ASKED if other else None)
    theirs = best.get(other) if other else next((result for loader, result in best.items() if loader != OURS), None)
    if OURS not in best or theirs is None:
        return None
    ours = best[OURS]
    where = "" if other else f" ({layout_text(ours)})"
    who = theirs["loader"] if other else f"the fastest other loader, {theirs['loader']} ({layout_text(theirs)})"
    return (f"| {workload} | {humanize(ours['median'], ours['unit'])}{where} | {who}: {humanize(theirs['median'], theirs['unit'])} | "
            f"{ratio_text(ours, theirs)} |")


def cost_table(found):
    """The other costs of a loader, with two workers and batches of 64."""
    lines = ["| 2 workers, batch 64 | CPU for a million samples | memory of all processes | first batch |", "| --- | --- | --- | --- |"]
    for (loader, *layout), result in found.items():
        if tuple(layout) == ASKED:
            lines.append(f"| {loader} | {humanize(result['cpu_seconds_per_million'], 's')} | {humanize(result['pss_bytes'], 'B')} | "
                         f"{humanize(result['first_batch_seconds'], 's')} |")
    return lines


def peer_section(report):
    """Which threads read, and the tables of each work."""
    reads = [f"| {loader} | {threads} |" for loader, threads in report.get("reads", {}).items()]
    lines = ["| | reading threads |", "| --- | --- |", *reads, ""] if reads else []
    for work, title in TITLES.items():
        found = of_work(report, work)
        if found:
            lines += [f"### {title}", "", *rate_table(found), "", *best_table(found), "", *cost_table(found), ""]
    return lines


def peer_plots(report):
    """A plot for each work: two workers, batches of 64."""
    plots = {}
    for work, title in TITLES.items():
        rows = [(loader, result["median"] * 1e-3, 0 if loader.split(", ")[0] == OURS else 1, f"{result['median'] * 1e-3:,.2f}")
                for (loader, *layout), result in of_work(report, work).items() if tuple(layout) == ASKED]
        if rows:
            text = title.replace("`", "")
            plots[f"{report['name']}_{work}"] = (f"{text}, samples/s of Python loaders with two workers",
                                             bar_chart(f"{text}: 2 workers, batch 64, touched", "thousand samples/s", rows))
    return plots
