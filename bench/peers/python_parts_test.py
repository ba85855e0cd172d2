"""The parts of compare_python.py that need only NumPy: checks, touching, ratios, choice of runs."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

import numpy as np

import compare_python
import python_checks
import python_data
import python_plan
import python_report
from loaders.peer import Job, Peer
from python_process import Failed
from python_touch import touch


class Contents(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        data = pathlib.Path(self.temporary.name)
        self.job = Job("any", "text", "", 0, 4, str(data), 40)
        self.job.folder.mkdir()
        for shard in range(self.job.spec.shards):
            python_data.write_shard(self.job.folder, self.job.spec, shard)
        self.samples = list(python_data.samples_in_order(self.job.spec, self.job.folder))

    def test_each_sample_is_known_once(self):
        known = python_checks.Known(self.job)
        for parts in self.samples:
            self.assertEqual([len(part) for part in parts], [600, 200])
            known.take(parts)
        with self.assertRaisesRegex(python_checks.WrongData, "delivered twice"):
            known.take(self.samples[7])

    def test_other_bytes_and_swapped_parts_are_unknown(self):
        text, json = self.samples[3]
        for parts in ([text[:-1] + b"Z", json], [json, text], [text, self.samples[4][1]]):
            with self.assertRaisesRegex(python_checks.WrongData, "those of no sample"):
                python_checks.Known(self.job).take(parts)


class Sentences(unittest.TestCase):
    def test_texts_of_words(self):
        spec = python_data.data_set_of("words", 8)
        texts = [python_data._content(spec, number, 0) for number in range(8)]
        self.assertEqual([len(text) for text in texts], [800] * 8)
        self.assertGreater(len(set(b" ".join(texts).split())), 200)
        self.assertEqual(python_data._content(spec, 3, 0), texts[3])


class FailingProcesses:
    """Each run fails for the next of these reasons, and succeeds when none is left."""

    def __init__(self, *reasons):
        self.reasons = list(reasons)

    def run(self, loader, task):
        if self.reasons:
            raise Failed(self.reasons.pop(0))
        return {"samples_per_second": 1.0}


class Repeating(unittest.TestCase):
    SETTING = python_plan.Setting("torch", "text", "bytes", 2, 64)
    FROM_DISK = f"2000000 {python_plan.FROM_DISK}"

    def measure(self, *reasons):
        processes = FailingProcesses(*reasons)
        bench = compare_python.Bench("", processes, "", pathlib.Path("/data"), {"text": 1}, 3, 0.5, 1, 0)
        with contextlib.redirect_stdout(io.StringIO()):
            return bench.measure(self.SETTING, True)

    def test_a_run_that_fails_is_repeated_once(self):
        self.assertEqual(self.measure("no memory")["samples_per_second"], 1.0)
        with self.assertRaisesRegex(Failed, "second"):
            self.measure("first", "second")

    def test_a_run_that_read_from_a_disk_is_repeated_five_times(self):
        self.assertEqual(self.measure(*[self.FROM_DISK] * 5)["samples_per_second"], 1.0)
        with self.assertRaisesRegex(Failed, "disk"):
            self.measure(*[self.FROM_DISK] * 6)


class ReadingAll(unittest.TestCase):
    def test_files_of_all_folders(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            (folder / "inner").mkdir()
            (folder / "a.tar").write_bytes(bytes(3_000_000))
            (folder / "inner" / "index").write_bytes(bytes(7))
            self.assertEqual(python_data.read_all(folder), 3_000_007)
            self.assertEqual(python_data.read_all(folder / "missing"), 0)

    def test_what_a_loader_reads(self):
        class Converting(Peer):
            FORMAT = "mds"

        job = Job("any", "blob", "", 0, 1, "/data", 512)
        self.assertEqual(str(Peer.data_folder(job)), "/data/blob-512")
        self.assertEqual(str(Converting.data_folder(job)), "/data/blob-512-mds")


class Touching(unittest.TestCase):
    def test_all_bytes_count(self):
        parts = [bytes([i]) * 16 for i in range(5)]
        joined = touch([parts])
        self.assertEqual(joined, touch([b"".join(parts)]))
        self.assertEqual(joined, touch([np.frombuffer(b"".join(parts), np.uint8).reshape(5, 16)]))
        large = [bytes([i]) * 40000 for i in range(3)]
        self.assertEqual(touch([large]), touch([b"".join(large)]))
        self.assertNotEqual(touch([b"abc"]), touch([b"abd"]))


class Ratios(unittest.TestCase):
    def test_the_median_of_the_rounds_against_the_faster_variant(self):
        def runs(*values):
            return [{"samples_per_second": value} for value in values]

        def setting(loader, variant, workers=2):
            return python_plan.Setting(loader, "image", variant, workers, 64)

        measured = {setting("energon_cpp", ""): runs(90, 80, 100), setting("energon_cpp", "", 0): runs(9, 9, 9),
                    setting("torch", "bytes"): runs(1, 1, 1), setting("torch", "tensor"): runs(30, 40, 20)}
        targets = python_report.ratio_targets(measured)
        self.assertEqual([target["name"] for target in targets], ["Python, JPEGs of 110 KB, raw: ratio to torch DataLoader"])
        self.assertEqual((targets[0]["value"], targets[0]["target"], targets[0]["met"]), (3, 3, True))

    def test_a_first_run_does_not_stand_for_rounds(self):
        def setting(loader, variant):
            return python_plan.Setting(loader, "image", variant, 2, 64)

        def runs(*values):
            return [{"samples_per_second": value} for value in values]

        measured = {setting("energon_cpp", ""): runs(60, 60), setting("torch", "bytes"): runs(40), setting("torch", "tensor"): runs(30, 30)}
        self.assertEqual(python_report.ratio_targets(measured)[0]["value"], 2)

    def test_what_is_worth_measuring(self):
        def setting(variant, workers, loader="torch", work="image"):
            return python_plan.Setting(loader, work, variant, workers, 64)

        # The fastest of all layouts; the fastest with two workers, and one that may be; other loaders and works separately.
        rates = {setting("a", 0): 100, setting("a", 1): 89, setting("b", 0): 96, setting("a", 2): 50, setting("b", 2): 48,
                 setting("a", 0, "grain"): 3, setting("a", 4, "grain"): 2, setting("a", 4, "torch", "text"): 1}
        chosen = python_plan.worth_measuring(rates)
        self.assertEqual([rates[one] for one in chosen], [100, 96, 50, 48, 3, 1])

    def test_what_targets_need(self):
        about = {"works": {"text": [""], "blob": ["", "b"]}, "many": True}
        settings = python_plan.settings_of({"energon_cpp": about, "torch": about, "grain": about}, ["text", "blob"], [0, 2], [1, 64])
        self.assertEqual(len(settings), 3 * 3 * 4)
        needed = python_plan.needed_for_targets(settings)
        self.assertEqual({one.loader for one in needed}, {"energon_cpp", "torch"})
        self.assertTrue(needed and all((one.workers, one.batch_size) == (2, 64) for one in needed))

    def test_variants_of_tokens_are_compared(self):
        def setting(variant):
            return python_plan.Setting("energon_cpp", "tokens", variant, 2, 64)

        rates = {setting("encode_sample"): 10, setting("encode_samples"): 50}
        self.assertEqual(python_plan.worth_measuring(rates), list(rates))
        runs = {one: [{"samples_per_second": rate}] for one, rate in rates.items()}
        target = python_report.ratio_targets(runs)[0]
        self.assertEqual((target["name"], target["value"]),
                         ("Python, text of 0.8 KB, tokenized: ratio to energon_cpp, encode_sample", 5))

    def test_loop_and_resume(self):
        rows, targets = python_report.loop_rows({"Python": [30e-6, 40e-6, 35e-6], "C++": [25e-6, 20e-6, 30e-6]})
        self.assertEqual(len(rows), 2)
        self.assertAlmostEqual(targets[0]["value"], 5e-6)
        self.assertTrue(targets[0]["met"])
        resumes = {"energon_cpp": [{"save_seconds": 1, "resume_seconds": 0.1}],
                   "megatron-energon": [{"save_seconds": 1, "resume_seconds": 5}]}
        target = python_report.resume_rows(resumes)[1][0]
        self.assertAlmostEqual(target["value"], 50)
        self.assertFalse(target["met"])


if __name__ == "__main__":
    sys.exit(unittest.main())
