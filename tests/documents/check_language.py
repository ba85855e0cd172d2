"""check_language.py ROOT [PATH…]: applies the rules of docs/style/Energon to prose, comments and messages.

Reads the rules of Vale, but does not need Vale. Checks Markdown outside code, comments and strings of C++ and Python, and comments of CMake. Prints
FILE:LINE: RULE: MESSAGE. With PATHs (files or folders below ROOT), checks only these. The exit code is 1 if anything is found.
"""

import argparse
import ast
import bisect
import io
import os
import pathlib
import re
import sys
import tokenize

# Sentences that must stay as they are: faults that the test of this script expects, and the text that a stored tokenizer was trained on.
EXEMPT = {"tests/documents/check_language_test.py", "tests/media/tokens/data/make_models.py"}
SKIPPED_FOLDERS = {"build", "dist", "shared", "node_modules", "__pycache__"}
CODE = re.compile(r"``.+?``|`[^`]*`")
CPP_TOKEN = re.compile(r'//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/|R"(?P<tag>[^\s()\\]*)\(.*?\)(?P=tag)"|^[ \t]*#[ \t]*include[^\n]*'
                       r'|"(?P<text>(?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)+\'', re.DOTALL | re.MULTILINE)
QUOTES = re.compile(r"^[rbfuRBFU]*(\"{3}|'{3}|\"|')|(\"{3}|'{3}|\"|')$")
ESCAPE = re.compile(r"\\[nt]")


class RuleError(Exception):
    pass


# --- Rules ---

def _scalar(text):
    """The value of a YAML scalar as the rules write it: plain, 'single' or "double" quoted."""
    text = text.strip()
    if text.startswith("'") and text.endswith("'"):
        return text[1:-1].replace("''", "'")
    return ast.literal_eval(text) if text.startswith('"') else text


def read_rule(path):
    """The members of a rule. Knows the part of YAML that the rules use: members, one list `tokens`, one map `swap`."""
    rule, inner = {}, None
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        member = re.fullmatch(r"([a-z]+):(.*)", line)
        entry = re.fullmatch(r"  ('(?:[^']|'')*'|[^\s:']+): (.+)", line)
        if member and not member[2].strip():
            inner = rule[member[1]] = [] if member[1] == "tokens" else {}
        elif member:
            rule[member[1]], inner = _scalar(member[2]), None
        elif isinstance(inner, list) and line.startswith("  - "):
            inner.append(_scalar(line[4:]))
        elif isinstance(inner, dict) and entry:
            inner[_scalar(entry[1])] = _scalar(entry[2])
        else:
            raise RuleError(f"{path}:{number}: expected a member, an entry of tokens or an entry of swap, found '{line}'")
    return rule


class Rule:
    def __init__(self, path):
        rule = read_rule(path)
        kind = rule.get("extends")
        if kind not in ("existence", "substitution"):
            raise RuleError(f"{path}: expected extends: existence or substitution, found '{kind}'")
        self.name, self.message = path.stem, rule["message"]
        self.swap = list(rule["swap"].items()) if kind == "substitution" else None
        flags = re.IGNORECASE if rule.get("ignorecase") == "true" else 0
        edge = "" if rule.get("nonword") == "true" else r"\b"
        sources = [source for source, _ in self.swap] if self.swap else rule["tokens"]
        self.pattern = re.compile(f"{edge}(?:{'|'.join(f'({source})' for source in sources)}){edge}", flags)

    def findings(self, text):
        """(offset, message) of each place in a text."""
        for match in self.pattern.finditer(text):
            if self.swap:
                yield match.start(), self.message % (self.swap[match.lastindex - 1][1], match[0])
            else:
                yield match.start(), self.message % match[0]


def read_rules(folder):
    rules = [Rule(path) for path in sorted(folder.glob("*.yml"))]
    if not rules:
        raise RuleError(f"{folder}: there are no rules")
    return rules


# --- Texts: lists of (line number, piece); a text may span several lines ---

def markdown_texts(source):
    text, end = [], None
    for number, line in enumerate(source.split("\n"), 1):
        if end:
            end = None if end in line else end
        elif line.startswith("```"):
            end = "```"
        elif line.startswith("<!--"):
            end = None if "-->" in line else "-->"
        elif re.match(r"\s*(?:[-*] |\d+\. |#|\|)", line) or not line.strip():
            yield text
            text = [(number, re.sub(r"^\s*(?:[-*]|\d+\.|#+) ", "", line))]
            if line.startswith("|"):
                for cell in line.strip("| ").split("|"):
                    yield [(number, cell)]
                text = []
        else:
            text.append((number, line))
    yield text


def cpp_texts(source):
    starts = [0] + [match.end() for match in re.finditer("\n", source)]
    text, text_kind, after = [], None, 0
    for match in CPP_TOKEN.finditer(source):
        kind = match.lastgroup if match.lastgroup in ("line", "block", "text") else None
        if kind is None:
            continue
        number = bisect.bisect_right(starts, match.start())
        piece = match[kind].lstrip("/!<")
        between = source[after:match.start()]
        if kind != text_kind or between.strip() or between.count("\n") > 1:
            yield text
            text = []
        text_kind, after = kind, match.end()
        if kind == "text":
            text.append((number, ESCAPE.sub(" ", piece)))
        elif not piece.strip():
            yield text
            text = []
        else:
            text += [(number + i, part.lstrip(" *")) for i, part in enumerate(piece.split("\n"))]
    yield text


def python_texts(source):
    text, last = [], None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name not in ("COMMENT", "STRING", "FSTRING_MIDDLE"):
            if name not in ("NL", "NEWLINE"):
                last = None
            continue
        if name != last or name == "STRING":
            yield text
            text = []
        last = name
        piece = token.string.lstrip("#") if name == "COMMENT" else QUOTES.sub("", token.string)
        for i, line in enumerate(ESCAPE.sub(" ", piece).split("\n")):
            if not line.strip():
                yield text
                text = []
            text.append((token.start[0] + i, line))
    yield text


def cmake_texts(source):
    text = []
    for number, line in enumerate(source.split("\n"), 1):
        comment = re.match(r'(?:[^"#]|"(?:[^"\\]|\\.)*")*#+(.*)', line)
        if comment is None or not line.lstrip().startswith("#"):
            yield text
            text = []
        if comment:
            text.append((number, comment[1]))
    yield text


TEXTS = {".md": markdown_texts, ".cpp": cpp_texts, ".h": cpp_texts, ".py": python_texts, ".cmake": cmake_texts, "CMakeLists.txt": cmake_texts}


def reader_of(path):
    return TEXTS.get(path.name) or TEXTS.get(path.suffix)


def findings(path, rules):
    """(line, rule, message) of each finding in a file, in order."""
    found = []
    for text in reader_of(path)(path.read_text(encoding="utf-8")):
        whole, starts = "", []
        for _, piece in text:
            starts.append(len(whole))
            whole += CODE.sub("`x`", " ".join(piece.split())) + " "
        for rule in rules:
            found += [(text[bisect.bisect_right(starts, offset) - 1][0], rule.name, message) for offset, message in rule.findings(whole)]
    return sorted(found)


# --- Files ---

def files_below(path):
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("."))
        for name in sorted(names):
            if reader_of(pathlib.Path(name)):
                yield pathlib.Path(folder) / name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("paths", nargs="*", help="only these files and folders")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    try:
        rules = read_rules(root / "docs/style/Energon")
    except RuleError as error:
        sys.exit(str(error))
    is_right = True
    for path in (path for start in arguments.paths or ["."] for path in files_below(root / start)):
        name = path.resolve().relative_to(root).as_posix()
        if name in EXEMPT:
            continue
        for line, rule, message in findings(path, rules):
            is_right = False
            print(f"{name}:{line}: {rule}: {message}")
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
