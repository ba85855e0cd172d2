"""The tables of README.md and docs/benchmarks.md."""

from peer_tables import peer_line
from results import ResultsError, humanize, machine_text, result_of, short_machine_text

# The lines of the summary in docs/benchmarks.md. If a line has several entries, the first one that was measured is used.
# (report, workload, result, result to compare with, its description); without the last two, the target with that name.
LINES = [
    [("small_samples", "0.8 KB in two parts, 2 workers, batch 64", "loader, 2 workers, batch 64", "block loop, 2 threads",
      "two threads that read the shards in blocks"),
     ("loader", "0.8 KB in two parts, 2 workers, batch 64", "loader, 2 workers, batch 64", "pread per sample",
      "one thread, a bare `pread` per sample")],
    [("small_samples", "0.8 KB, 10,000 shards, shuffle buffer of 10,000, 2 workers", "10000 shards, 2 workers, buffer 10000",
      "10000 shards, 2 workers", "without the buffer")],
    [("rotation", "300 B, 4,096 shards in rotation", "300 B, 0 workers, 4096 in rotation", "300 B, 0 workers, 16 in rotation",
      "16 in rotation")],
    [("small_batches", "300 B, batch 64, 1 worker", "loader, 1 worker, batch 64", "loader, 0 workers, batch 64", "no worker")],
    [("small_batches", "300 B, batch 1, 1 worker", "loader, 1 worker, batch 1", "loader, 0 workers, batch 1", "no worker")],
    [("large_bytes", "100 KB, hashed, 2 workers, batch 64", "100 KB: loader, 2 workers, batch 64, hashed", "100 KB: pread, 2 threads, hashed",
      "two threads, a bare `pread` per sample")],
    [("large_bytes", "1 MiB, hashed, 2 workers, batch 16", "1 MiB: loader, 2 workers, batch 16, hashed", "1 MiB: pread, 2 threads, hashed",
      "two threads, a bare `pread` per sample"),
     ("raw_read", "1 MiB, 1 worker, batch 16", "loader, 1 worker, batch 16", "pread, into one buffer",
      "one thread, a bare `pread` per sample")],
    [("media_decode", "JPEGs of 512 × 384 as uint8 tensors, 2 workers, batch 16", "jpg: loader, 2 workers, batch 16, rgb8",
      "jpg: bare codec, 2 threads", "two threads of bare libjpeg-turbo")],
    [("media_crops", "JPEGs of 512 × 384 as random crops of 224, normalized, 2 workers, batch 64", "512 x 384: loader, 2 workers, batch 64, float32",
      "512 x 384: libjpeg-turbo and libswscale, 2 threads, float32", "two threads, bare libjpeg-turbo and libswscale")],
    [("media_torch", "C++: JPEGs of 512 × 384 as random crops of 224, normalized, 2 workers, batch 64",
      "512 x 384: loader, 2 workers, batch 64, float32", "512 x 384: torch DataLoader, 2 workers, batch 64, float32",
      "torch's DataLoader with torchvision, in Python, 2 workers")],
    [("peers_python", "Python: samples of 0.8 KB, 2 workers, batch 64", "peer: text", "megatron-energon", None)],
    [("peers_python", "Python: JPEGs of 110 KB as they are, 2 workers, batch 64", "peer: image", "torch DataLoader", None)],
    [("peers_python", "Python: samples of 0.8 KB, each loader in its best layout", "peer: text", None, None)],
    [("peers_python", "Python: JPEGs of 110 KB as they are, each loader in its best layout", "peer: image", None, None)],
    [("peers_python", "Python: JPEGs of 512 × 384, decoded, each loader in its best layout", "peer: decoded", None, None)],
    [("peers_python", "Python: blobs of 1 MiB, each loader in its best layout", "peer: blob", None, None)],
    [("media_video", "clips of 16 frames, 640 × 360, 2 workers, batch 2", "640 x 360: loader, 2 workers, batch 2",
      "640 x 360: bare FFmpeg, 2 threads, inexact", "two threads of bare FFmpeg")],
    [("prepare", "`energon prepare`, 2 threads", "prepare, 2 threads", "GNU tar -t, 2 processes", "two GNU `tar -t`")],
    [("opening", "open 10,000 prepared shards", "10,000 shards, prepared", None, None)],
    [("large_states", "save, 200 datasets with shuffle buffers, 2 workers", "save, 200 datasets, buffer, 2 workers", None, None)],
    [("save_restore", "restore to the first batch, shuffle buffer of 10,000, 2 workers", "restore to first batch, 2 workers, buffer 10000",
      None, None)],
]

# The workloads of LINES that README.md shows, too.
IN_README = {
    "0.8 KB in two parts, 2 workers, batch 64", "1 MiB, hashed, 2 workers, batch 16",
    "JPEGs of 512 × 384 as uint8 tensors, 2 workers, batch 16",
    "C++: JPEGs of 512 × 384 as random crops of 224, normalized, 2 workers, batch 64",
    "Python: samples of 0.8 KB, each loader in its best layout",
    "Python: JPEGs of 512 × 384, decoded, each loader in its best layout",
    "restore to the first batch, shuffle buffer of 10,000, 2 workers",
}


def asked(target):
    return f"at {target['at']} {humanize(target['target'], target['unit'])}"


def target_of(report, name):
    for target in report["targets"]:
        if target["name"] == name:
            return target
    raise ResultsError(f"{report['name']}.json has no target '{name}', which the summary shows")


def line_of(report, workload, name, other_name, other_text):
    if name.startswith("peer: "):
        return peer_line(report, workload, name.removeprefix("peer: "), other_name)
    result = result_of(report, name)
    delivered = humanize(result["median"], result["unit"])
    if other_name is None:
        return f"| {workload} | {delivered} | asked: {asked(target_of(report, name))} | |"
    other = result_of(report, other_name)
    of_medians = result["median"] / other["median"]
    medians = [result[key] for key in ("ratio_to_bare", "ratio_to_unshuffled", "ratio_to_torch") if key in result]
    ratio = medians[0] if medians else of_medians  # the median of the ratios, if there is one
    return f"| {workload} | {delivered} | {other_text}: {humanize(other['median'], other['unit'])} | {ratio:.2f} |"


def table_of(reports, lines):
    """The table of the lines that were measured, and the reports that it shows."""
    table, shown = ["| | measured | compared with | ratio |", "| --- | --- | --- | --- |"], []
    for places in lines:
        for name, *rest in places:
            line = line_of(reports[name], *rest) if name in reports else None
            if line:
                table.append(line)
                shown.append(reports[name])
                break
    return table, shown


def readme_table(reports):
    """The lines of README.md."""
    table, shown = table_of(reports, [places for places in LINES if places[0][1] in IN_README])
    return table + ["", f"Medians on {short_machine_text(shown)}, with a warm page cache."]


def summary_table(reports):
    """The summary of docs/benchmarks.md."""
    table, shown = table_of(reports, LINES)
    return table + ["", f"Medians on {machine_text(shown)}, with a warm page cache. If the two programs ran in turn, the ratio is the "
                        "median of the rounds' ratios; for Python, it is the ratio of the medians."]


def target_table(reports):
    """All targets, with the values that were reached."""
    lines = ["| target | asked | reached | |", "| --- | --- | --- | --- |"]
    for report in reports.values():
        for target in report["targets"]:
            lines.append(f"| {target['name']} | {asked(target)} | {humanize(target['value'], target['unit'])} | "
                         f"{'met' if target['met'] else 'missed'} |")
    return lines


def more_of(result):
    """The columns that only some results have, as one cell."""
    texts = []
    if "ratio_to_bare" in result:
        texts.append(f"{result['ratio_to_bare']:.2f} of the bare loop")
    if "ratio_to_unshuffled" in result:
        texts.append(f"{result['ratio_to_unshuffled']:.2f} of unshuffled")
    if "ratio_to_torch" in result:
        texts.append(f"{result['ratio_to_torch']:.2f} of torch's DataLoader")
    if "quarters" in result:
        texts.append("medians of the quarters: " + ", ".join(humanize(value, result["unit"]) for value in result["quarters"]))
    if "bytes_per_second" in result:
        texts.append(humanize(result["bytes_per_second"], "B/s"))
    if "p99_seconds" in result:
        texts.append("p99 " + humanize(result["p99_seconds"], "s"))
    if "max_seconds" in result:
        texts.append("max " + humanize(result["max_seconds"], "s"))
    if "state_bytes" in result:
        texts.append("state " + humanize(result["state_bytes"], "B"))
    return ", ".join(texts)


def report_table(report):
    """All results of a benchmark that does not have its own table."""
    lines = ["| | median | min – max | |", "| --- | --- | --- | --- |"]
    for result in report["results"]:
        if "work" in result:
            continue
        unit = result["unit"]
        lines.append(f"| {result['name']} | {humanize(result['median'], unit)} | {humanize(result['min'], unit)} – "
                     f"{humanize(result['max'], unit)} | {more_of(result)} |")
    return lines
