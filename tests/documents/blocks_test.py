"""Marks are read as blocks.py describes, and wrong content of pages is noticed."""

import pathlib
import tempfile
import unittest

import check_page
from blocks import PageError, read_blocks


def blocks_of(text):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.md"
        page.write_text(text, encoding="utf-8")
        return read_blocks(page)


def page_in(folder, text):
    """A page in a folder that takes the place of the source and build folders."""
    folder = pathlib.Path(folder)
    (folder / "cli").mkdir()
    program = folder / "cli/energon"
    program.write_text("#!/bin/sh\necho --known\n", encoding="utf-8")
    program.chmod(0o755)
    (folder / "work").mkdir()
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return check_page.Page(folder, folder, page, folder / "work")


def failures_of(text):
    with tempfile.TemporaryDirectory() as folder:
        page = page_in(folder, text)
        page.fail = lambda where, reason: failures.append(reason)
        failures = []
        page.check()
        return failures


class Marks(unittest.TestCase):
    def test_settings(self):
        [block] = blocks_of("a\n\n<!-- run\nsetup: make x\nsetup: make y\nvary: ^a: b\n-->\n```\n$ x\ny\n```\n")
        self.assertEqual((block.kind, block.line, block.lines), ("run", 9, ["$ x", "y"]))
        self.assertEqual(block.settings, {"setup": ["make x", "make y"], "vary": ["^a: b"]})

    def test_what_is_wrong(self):
        for text, reason in (("```\nx\n```\n", "without a mark"), ("<!-- run -->\nText.\n```\nx\n```\n", "without a mark"),
                             ("<!-- walk -->\n```\nx\n```\n", "unknown mark"),
                             ("<!-- run\nsetups: x\n-->\n```\nx\n```\n", "unknown setting"),
                             ("<!-- output -->\n```\nx\n```\n", "needs one command"),
                             ("<!-- held by x -->\n```\nx\n```\n", "needs one text"), ("a\n\n    x\n", "indented")):
            with self.assertRaisesRegex(PageError, reason):
                blocks_of(text)


class Pages(unittest.TestCase):
    def test_what_is_right(self):
        self.assertEqual(failures_of("<!-- run\nsetup: echo 1 >f\n-->\n```\n$ cat f; echo 2\n1\n2\n$ echo 3\n3\n```\n"), [])
        self.assertEqual(failures_of("<!-- run -->\n```\ntrue  # comment\necho x\n```\n"), [])
        self.assertEqual(failures_of("<!-- output\ncommand: seq 9\n-->\n```\n8\n9\n```\n"), [])

    def test_other_lines(self):
        for page in ("$ echo 2\n1", "$ printf '1\\n2\\n'\n1", "$ true\n1", "$ echo 1", "$ false", "false"):
            self.assertEqual(len(failures_of(f"<!-- run -->\n```\n{page}\n```\n")), 1, page)
        self.assertEqual(len(failures_of("<!-- output\ncommand: seq 9\n-->\n```\n8\n```\n")), 1)

    def test_what_varies(self):
        page = "<!-- run\nvary: ^took\nany: ^verdict\nleave-out: ^#\n-->\n```\n$ printf '%s\\n' {}\n{}\n```\n"
        shown = "took 1.5 s, 00112233445566aa\nverdict: fast"
        self.assertEqual(failures_of(page.format("'# x' 'took  2,000 s, bb112233445566aa' 'verdict: slow'", shown)), [])
        self.assertEqual(len(failures_of(page.format("'took 2 min, bb112233445566aa' 'verdict: slow'", shown))), 1)
        self.assertEqual(len(failures_of(page.format("'took 2 s, bb112233445566aa'", shown))), 1)

    def test_flags(self):
        self.assertEqual(failures_of("`x --known 3`\n"), [])
        self.assertEqual(len(failures_of("`x --unknown`\n")), 1)

    def test_held(self):
        page = "<!-- held by page.md\ntext: {}\n-->\n```\nx\n```\n"
        self.assertEqual(failures_of(page.format("held by page")), [])
        self.assertEqual(len(failures_of("<!-- held by other.md\ntext: x\n-->\n```\nx\n```\n")), 1)


if __name__ == "__main__":
    unittest.main()
