"""The rules of docs/style find what they are for and nothing else, in each kind of file."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from check_language import RuleError, findings, read_rule, read_rules

SCRIPT = pathlib.Path(__file__).resolve().parent / "check_language.py"
RULES = SCRIPT.parent.parent.parent / "docs/style/Energon"
# For each rule, sentences that it finds and sentences that it does not.
SENTENCES = {
    "NegatedNoun": (["a tensor that is no image", "key 3 is no multiple of 4"], ["there is no image", "it is no longer an image", "is not an image"]),
    "GenitiveInFront": (["Of tuples a tuple", "It fails. Of the others none"], ["Of course", "a tuple of tuples"]),
    "OrderWords": (["the bytes behind the header", "in front of the first"], ["a rank falls behind", "after the header"]),
    "TypeWords": (["a list of texts", "truth values"], ["a text field", "a list of strings"]),
    "Expected": (["expected is a number"], ["expected a number", "is expected to end"]),
    "SoMany": (["after so many seconds"], ["so many that it fails", "this many seconds"]),
    "DataVerbs": (["a state is of another job", "the header says 4"], ["is of the same type", "the header contains 4"]),
    "Ellipsis": (["the limit; nothing: no limit", "its name; empty if unset"], ["the limit; unset means no limit"]),
    "NounlessWords": (["what is wanted"], ["the requested size"]),
    "Effect": (["it ends all the same"], ["it ends anyway"]),
    "Terms": (["the colours", "shuffle anew", "Data sets"], ["the colors", "shuffle again", "a dataset"]),
}


class Rules(unittest.TestCase):
    def test_each_rule_finds_its_pattern_only(self):
        rules = {rule.name: rule for rule in read_rules(RULES)}
        self.assertEqual(rules.keys(), SENTENCES.keys())
        for name, (wrong, right) in SENTENCES.items():
            for text in wrong:
                self.assertEqual(len(list(rules[name].findings(text))), 1, (name, text))
            for text in right:
                self.assertEqual([(rule.name, text) for rule in rules.values() if list(rule.findings(text))], [])

    def test_other_yaml_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.yml"
            path.write_text("extends: existence\ntokens: [a, b]\n  - c: {d: e}\n", encoding="utf-8")
            with self.assertRaisesRegex(RuleError, "x.yml:3: expected"):
                read_rule(path)


class Files(unittest.TestCase):
    def lines_of(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.write_text(text, encoding="utf-8")
            return [line for line, _, _ in findings(path, read_rules(RULES))]

    def test_prose_of_each_kind_is_read(self):
        for name, text, lines in (
                ("a.md", "Shuffle\nanew `anew`.\n\n```\nanew\n```\n<!-- anew -->\n* so\n  many bytes\n| x | anew |\n", [2, 8, 10]),
                ("a.cpp", 'int anew;  // shuffle\n// so\n// many bytes\nf("it is "\n  "no image", R"(anew)", \'"\');\n/* anew */\n', [2, 4, 6]),
                ("a.py", 'anew = 1  # anew\ndef f():\n    """Text.\n\n    So\n    many bytes."""\n    return f"{x} is no image"\n', [1, 5, 7]),
                ("CMakeLists.txt", 'set(anew "# anew")  # anew\n# so\n# many bytes\n', [1, 2])):
            self.assertEqual(self.lines_of(name, text), lines, name)

    def run_script(self, root, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, root, *arguments], capture_output=True, text=True, check=False)

    def test_exit_codes(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            shutil.copytree(RULES, root / "docs/style/Energon")
            page = root / "page.md"
            page.write_text("Shuffle anew.\n", encoding="utf-8")
            (root / "tests/documents").mkdir(parents=True)
            (root / "tests/documents/check_language_test.py").write_text("# Shuffle anew.\n", encoding="utf-8")  # exempt
            for paths in ([], ["page.md"]):
                result = self.run_script(root, *paths)
                self.assertEqual(result.returncode, 1)
                self.assertEqual(result.stdout, "page.md:1: Terms: Use 'again' instead of 'anew'.\n")
            page.write_text("Shuffle again.\n", encoding="utf-8")
            self.assertEqual(self.run_script(root).returncode, 0)


if __name__ == "__main__":
    unittest.main()
