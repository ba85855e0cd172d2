"""--check accepts the output of make_table.py, and results that no page can show are errors."""

import contextlib
import io
import json
import pathlib
import shutil
import tempfile
import unittest
import xml.etree.ElementTree

import make_table
from results import FOLDER, ResultsError, humanize, read_reports
from svg import bar_chart, line_chart
from tables import IN_README, LINES

EMPTY = "before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n"


# The results that the tables and plots of the benchmarks of decoding show.
MEDIA = {"media_decode": ["jpg: bare codec, 2 threads", "jpg: loader, 2 workers, batch 16, rgb8"],
         "media_crops": ["512 x 384: libjpeg-turbo and libswscale, 2 threads, float32", "512 x 384: loader, 2 workers, batch 64, float32"],
         "media_torch": ["512 x 384: loader, 2 workers, batch 64, float32",
                         "512 x 384: torch DataLoader, 2 workers, batch 64, float32"],
         "media_video": ["640 x 360: bare FFmpeg, 2 threads, inexact", "640 x 360: loader, 2 workers, batch 2"],
         "media_memory": [f"{process}: {kind} memory" for process in ("trainer", "worker 0", "worker 1") for kind in ("own", "shared")]}


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "docs").mkdir()
        (self.root / "results").mkdir()
        for page in ("README.md", "docs/benchmarks.md"):
            (self.root / page).write_text(EMPTY, encoding="utf-8")
        for path in FOLDER.glob("*.json"):
            shutil.copy(path, self.root / "results")

    def tearDown(self):
        self.folder.cleanup()

    def contents(self):
        return make_table.contents(self.root, read_reports(self.root / "results"))

    def is_right(self):
        with contextlib.redirect_stderr(io.StringIO()):
            return make_table.check(self.root, self.contents())

    def test_check_finds_what_is_stale(self):
        self.assertFalse(self.is_right())
        make_table.write(self.root, self.contents())
        self.assertTrue(self.is_right())
        text = (self.root / "README.md").read_text(encoding="utf-8")
        self.assertTrue(text.startswith("before\n<!-- bench:begin -->\n| |") and text.endswith("<!-- bench:end -->\nafter\n"))
        for path in [*sorted((self.root / "docs/plots").glob("*.svg")), self.root / "docs/benchmarks.md"]:
            right = path.read_text(encoding="utf-8")
            path.write_text(right.replace("0", "1", 1), encoding="utf-8")
            self.assertFalse(self.is_right(), path)
            path.write_text(right, encoding="utf-8")
        (self.root / "docs/plots/gone.svg").write_text("<svg/>", encoding="utf-8")
        self.assertFalse(self.is_right())
        make_table.write(self.root, self.contents())
        self.assertTrue(self.is_right())

    def test_what_was_not_measured_has_no_section(self):
        (self.root / "results/prepare.json").unlink()
        text = self.contents()[self.root / "docs/benchmarks.md"]
        self.assertNotIn("bench_prepare", text)
        self.assertIn("bench_small_batches", text)
        self.assertNotIn(self.root / "docs/plots/prepare.svg", self.contents())

    def write_media_reports(self):
        """Reports with the names of the benchmarks of decoding: the first result is 100, the second 50 and so on."""
        machine = json.loads((self.root / "results/ring.json").read_text(encoding="utf-8"))["machine"]
        for name, results in MEDIA.items():
            rows = []
            for i, result in enumerate(results):
                value = 100 / (i + 1)
                more = {"quarters": [value] * 4} if name == "media_memory" else {} if name == "media_torch" else {"ratio_to_bare": 0.125}
                rows.append({"name": result, "unit": "B", "median": value, "min": value, "max": value, "repetitions": 1, **more})
            report = {"name": name, "question": f"{name}?", "machine": machine, "settings": {}, "results": rows, "targets": []}
            (self.root / f"results/{name}.json").write_text(json.dumps(report), encoding="utf-8")

    def test_decoding_is_shown(self):
        self.write_media_reports()
        contents = self.contents()
        for name in MEDIA:
            self.assertIn(self.root / f"docs/plots/{name}.svg", contents)
        readme, page = contents[self.root / "README.md"], contents[self.root / "docs/benchmarks.md"]
        for shown in (readme, page):
            self.assertIn("| two threads of bare libjpeg-turbo: 100 B | 0.12 |", shown)
        self.assertNotIn("libswscale", readme)
        self.assertIn("| two threads, bare libjpeg-turbo and libswscale: 100 B | 0.12 |", page)
        self.assertIn("| torch's DataLoader with torchvision, in Python, 2 workers: 50.0 B | 2.00 |", readme)
        self.assertIn("`bench/peers/compare_torch.sh` with", page)
        self.assertIn("medians of the quarters: 50.0 B, 50.0 B", page)

    def test_loaders_of_python_have_tables_of_their_own(self):
        machine = json.loads((self.root / "results/ring.json").read_text(encoding="utf-8"))["machine"]
        rows = []
        for who, loader, work in (("energon_cpp", "energon_cpp", "text"), ("megatron-energon, bytes", "megatron-energon, bytes", "text"),
                                  ("energon_cpp", "energon_cpp", "image"), ("torch DataLoader, tensor", "torch DataLoader, tensor", "image")):
            for workers, name, median in ((2, "2 workers", 4000.0 if who == "energon_cpp" else 50.0), (0, "0 workers", 7.0)):
                rows.append({"name": f"{work}: {who}, {name}, batch 64", "unit": "samples/s", "median": median, "min": 1, "max": 5000,
                             "repetitions": 3, "work": work, "loader": loader, "workers": workers, "batch_size": 64,
                             "cpu_seconds_per_million": 2.5, "pss_bytes": 3e8, "first_batch_seconds": 0.25})
        rows.append({"name": "loop", "unit": "s", "median": 1, "min": 1, "max": 1, "repetitions": 3})
        report = {"name": "peers_python", "question": "peers?", "machine": machine, "settings": {}, "results": rows, "targets": [],
                  "reads": {"energon_cpp": "a thread"}}
        (self.root / "results/peers_python.json").write_text(json.dumps(report), encoding="utf-8")
        contents = self.contents()
        page = contents[self.root / "docs/benchmarks.md"]
        self.assertIn("| megatron-energon, bytes: 50.0 samples/s | 80.00 |", page)
        self.assertIn("### Text of 0.8 KB\n\n| samples/s | 0 w, batch 64 | 2 w, batch 64 |", page)
        self.assertIn("| megatron-energon, bytes | 7 (1 – 5,000) | 50 (1 – 5,000) |", page)
        self.assertIn("| energon_cpp | 2.50 s | 300 MB | 250 ms |", page)
        self.assertIn("| megatron-energon, bytes | 2 workers, batch 64 | 50 | 80.00 | 50 | 80.00 |", page)
        self.assertIn("| reading threads |\n| --- | --- |\n| energon_cpp | a thread |", page)
        self.assertIn("| Python: samples of 0.8 KB, each loader in its best layout | 4.00 k samples/s (2 workers, batch 64) | the fastest other "
                      "loader, megatron-energon, bytes (2 workers, batch 64): 50.0 samples/s | 80.00 |", contents[self.root / "README.md"])
        self.assertNotIn("decoded, each loader", contents[self.root / "README.md"])
        self.assertIn("| loop | 1.00 s |", page)
        self.assertNotIn("| text: energon_cpp", page)
        self.assertIn(self.root / "docs/plots/peers_python_text.svg", contents)
        self.assertNotIn(self.root / "docs/plots/peers_python_blob.svg", contents)

    def test_what_no_page_can_show(self):
        path = self.root / "results/small_batches.json"
        report = json.loads(path.read_text(encoding="utf-8"))
        unknown = self.root / "results/unknown.json"
        unknown.write_text(json.dumps(report), encoding="utf-8")
        with self.assertRaisesRegex(ResultsError, "unknown: results that no section shows"):
            self.contents()
        unknown.unlink()
        path.write_text(json.dumps(dict(report, results=report["results"][1:])), encoding="utf-8")
        with self.assertRaisesRegex(ResultsError, "has no result 'loader, 0 workers, batch 1'"):
            self.contents()
        path.write_text(json.dumps(dict(report, machine=dict(report["machine"], assertions=True))), encoding="utf-8")
        with self.assertRaisesRegex(ResultsError, "assertions"):
            self.contents()


class Texts(unittest.TestCase):
    def test_numbers(self):
        for value, unit, text in ((1234567, "B/s", "1.23 MB/s"), (0.00123, "s", "1.23 ms"), (999.6, "samples/s", "1.00 k samples/s"),
                                  (12, "samples/s", "12.0 samples/s"), (0.456, "", "0.46")):
            self.assertEqual(humanize(value, unit), text)

    def test_lines_of_the_readme_are_lines_of_the_summary(self):
        self.assertEqual(IN_README - {place[1] for places in LINES for place in places}, set())

    def test_charts_are_xml_with_units(self):
        charts = [line_chart("a < b", "batch", ["1", "8"], "samples/s", [("x & y", [(1, 0.5, 2), None]), ("z", [(3, 3, 3), (4, 1, 9)])],
                             (2, "asked")),
                  bar_chart("t", "GB/s", [("loader", 1.5, 0, "1.50"), ("floor", 2.5, 1, "2.50")])]
        for chart, unit in zip(charts, ("samples/s", "GB/s")):
            root = xml.etree.ElementTree.fromstring(chart)
            self.assertIn(unit, [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")])
            self.assertIn("prefers-color-scheme:dark", chart)

    def test_higher_values_are_higher(self):
        chart = line_chart("t", "x", ["1", "2"], "y", [("s", [(1, 1, 1), (9, 9, 9)])])
        circles = list(xml.etree.ElementTree.fromstring(chart).iter("{http://www.w3.org/2000/svg}circle"))
        self.assertGreater(float(circles[0].get("cy")), float(circles[1].get("cy")))


if __name__ == "__main__":
    unittest.main()
