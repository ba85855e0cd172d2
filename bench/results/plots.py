"""The plots of docs/benchmarks.md. Each function draws a plot from a report: {file name: (description, SVG)}."""

from peer_tables import peer_plots
from results import result_of
from svg import bar_chart, line_chart

WORKERS = ("0 workers", "1 worker", "2 workers", "4 workers")


def _scaled(result, factor):
    return tuple(result[key] * factor for key in ("median", "min", "max"))


def _line(report, names, factor):
    return [_scaled(result_of(report, name), factor) if name else None for name in names]


def small_batches(report):
    sizes = [1, 8, 64, 512]
    series = [(workers, _line(report, [f"loader, {workers}, batch {size}" for size in sizes], 1e-3)) for workers in WORKERS[:3]]
    return {"small_batches": ("Samples of 300 B by batch size and number of workers",
                              line_chart("Samples of 300 B, touched", "samples in a batch", [str(size) for size in sizes],
                                         "thousand samples/s", series))}


def loader(report):
    kinds = [("batch 64", "batch 64"), ("batch 64, buffer 10,000", "batch 64, buffer 10000"), ("batch 1", "batch 1"),
             ("batch 1, buffer 10,000", "batch 1, buffer 10000")]
    series = [(text, _line(report, [f"loader, {workers}, {kind}" for workers in WORKERS], 1e-3)) for text, kind in kinds]
    return {"loader": ("Samples of 0.8 KB by number of workers, without and with a shuffle buffer",
                       line_chart("Samples of 0.8 KB, not touched", "workers", ["0", "1", "2", "4"], "thousand samples/s", series))}


def rotation(report):
    shards = [1, 16, 64, 256, 4096]
    labels = [f"{count:,}" for count in shards]
    rates, ratios = [], []
    for size in ("300 B", "800 B"):
        for workers in ("0 workers", "2 workers"):
            names = [f"{size}, {workers}, {count} in rotation" for count in shards]
            base = 1 / result_of(report, names[1])["median"]
            ratios.append((f"{size}, {workers}", _line(report, names, base)))
            if size == "300 B":
                rates.append((workers, _line(report, names, 1e-3)))
    floor = [f"300 B, 0 workers, {count} in rotation: pread per sample" for count in shards]
    rates.append(("one pread per sample", _line(report, floor, 1e-3)))
    return {"rotation": ("Samples of 300 B by shards in rotation",
                         line_chart("Samples of 300 B, batch 64", "shards in rotation", labels, "thousand samples/s", rates)),
            "rotation_ratio": ("The rate by shards in rotation, relative to 16",
                               line_chart("Rate relative to 16 shards in rotation", "shards in rotation", labels, "ratio", ratios,
                                          (0.85, "asked: 0.85")))}


def _ratio_bars(report, title, x_name, names, asked=None):
    rows = []
    for name, color in names:
        result = result_of(report, name)
        rows.append((name, result["ratio_to_bare"], color, f"{result['ratio_to_bare']:.2f}"))
    return bar_chart(title, x_name, rows, asked)


def raw_read(report):
    names = [("memcpy, into one buffer", 1), ("pread, into one buffer", 1), ("pread, into 64 MiB of buffers", 1)]
    names += [(f"loader, {workers}, batch {size}", 0) for size in (16, 1) for workers in WORKERS[:3]]
    return {"raw_read": ("Samples of 1 MiB, bytes/s relative to one thread that reads them",
                         _ratio_bars(report, "Samples of 1 MiB, not touched", "bytes/s relative to pread, into one buffer (ratio)", names))}


def large_bytes(report):
    names = []
    for kind in ("100 KB", "1 MiB"):
        for workers, threads in (("1 worker", "1 thread"), ("2 workers", "2 threads")):
            of_group = [result["name"] for result in report["results"]
                        if result["name"].startswith(f"{kind}: loader, {workers},") and result["name"].endswith(", hashed")]
            names += [(f"{kind}: pread, {threads}, hashed", 1)] + [(name, 0) for name in of_group]
    return {"large_bytes": ("Large samples, bytes/s relative to as many bare threads as workers",
                            _ratio_bars(report, "Large samples, hashed", "bytes/s relative to as many threads of pread (ratio)", names))}


def small_samples(report):
    rows = []
    for result in report["results"]:
        is_bare = "loop" in result["name"] or "pread" in result["name"]
        rows.append((result["name"], result["median"] * 1e-3, 1 if is_bare else 0, f"{result['median'] * 1e-3:,.0f}"))
    return {"small_samples": ("Samples of 0.8 KB compared with loops that read the same bytes",
                              bar_chart("Samples of 0.8 KB, batch 64, touched", "thousand samples/s", rows))}


def prepare(report):
    rows = [(result["name"], result["median"] * 1e-6, 1 if "tar -t" in result["name"] else 0, f"{result['median'] * 1e-6:.2f}")
            for result in report["results"]]
    return {"prepare": ("Indexing tars, compared with GNU tar listing them",
                        bar_chart("energon prepare, members of 400 and 200 bytes", "million headers/s", rows))}


def ring(report):
    sizes = [16, 256, 4096, 65536]
    labels = ["16 B", "256 B", "4 KiB", "64 KiB"]
    rates = [result_of(report, f"units of {size} B") for size in sizes]
    points = [tuple(rate[key] * size * 1e-9 for key in ("median", "min", "max")) for rate, size in zip(rates, sizes)]
    return {"ring": ("A message ring between two processes by size of its units",
                     line_chart("A ring between two processes, copied in and out", "bytes in a unit", labels, "GB/s",
                                [("one writer, one reader", points)]))}


def startup(report):
    kinds = [("dataset opened before", ""), ("256 MiB touched before", ", 256 MiB touched")]
    series = [(text, _line(report, [f"first batch, {count} workers{suffix}" for count in (0, 1, 2, 4)], 1e3)) for text, suffix in kinds]
    return {"startup": ("Time from the construction of a loader to its first batch",
                        line_chart("First batch", "workers", ["0", "1", "2", "4"], "ms", series))}


def media_decode(report):
    names = [(result["name"], 0 if ": loader," in result["name"] else 1) for result in report["results"]]
    return {"media_decode": ("Decoded images, images/s relative to as many bare threads as workers",
                             _ratio_bars(report, "Images of 512 x 384", "images/s relative to the bare codec (ratio)", names))}


def media_video(report):
    names = [(result["name"], 0 if ": loader," in result["name"] else 1) for result in report["results"]]
    return {"media_video": ("Clips of video, clips/s relative to as many threads of bare FFmpeg as workers",
                            _ratio_bars(report, "Clips of 16 frames", "clips/s relative to bare FFmpeg (ratio)", names))}


def media_crops(report):
    rows = [(result["name"], result["median"], 0 if ": loader," in result["name"] else 1, f"{result['median']:,.0f}")
            for result in report["results"]]
    return {"media_crops": ("Random crops of JPEGs, compared with threads without a loader",
                            bar_chart("Random crops of 224 x 224 of JPEGs, normalized", "images/s", rows))}


def media_torch(report):
    rows = [(result["name"], result["median"], 0 if ": loader," in result["name"] else 1, f"{result['median']:,.0f}")
            for result in report["results"]]
    return {"media_torch": ("Random crops of JPEGs, compared with torch's DataLoader with torchvision",
                            bar_chart("Random crops of 224 x 224 of JPEGs, normalized", "images/s", rows))}


def media_memory(report):
    kinds = ("own memory", "shared memory")
    series = [(f"{process}, {kind.split()[0]}", [(value * 1e-6,) * 3 for value in result_of(report, f"{process}: {kind}")["quarters"]])
              for process in ("trainer", "worker 0", "worker 1") for kind in kinds]
    return {"media_memory": ("Memory of a long run that decodes all formats, medians of its quarters",
                             line_chart("Memory while all formats are decoded", "quarter of the run", ["1", "2", "3", "4"], "MB", series))}


PLOTS = {"small_samples": small_samples, "large_bytes": large_bytes, "small_batches": small_batches, "rotation": rotation,
         "prepare": prepare, "startup": startup, "loader": loader, "raw_read": raw_read, "ring": ring, "media_decode": media_decode,
         "media_crops": media_crops, "media_torch": media_torch, "media_video": media_video, "media_memory": media_memory,
         "peers_python": peer_plots, "peers_tokens": peer_plots}


def plots_of(name, report):
    """{file name without .svg: (description, SVG)} of a report; most have one plot, some none."""
    return PLOTS[name](report) if name in PLOTS else {}
