"""The code blocks of a Markdown page and the marks that define how each of them is checked.

A mark is an HTML comment right before a block; readers do not see it. Every block has one:

    <!-- run                        Commands, run by bash in a folder of the page. A line "$ COMMAND" is followed by the output of the
    setup: COMMAND                  command; a block without such lines has a command per line. `setup` runs first and is not shown.
    vary: REGEX                     In matching lines, numbers and digests may differ.
    any: REGEX                      A matching line may be replaced by any other matching line.
    leave-out: REGEX                The page leaves out matching lines.
    -->
    <!-- output                     The output of `command`, starting with the first line of the block. Settings as above.
    command: COMMAND
    -->
    <!-- compile                    C++ that compiles. Its #include lines are those of the page; it is put into a function after
    setup: LINE                     the lines of `setup`, which declare what belongs to the reader's program. With `torch`, it is
    torch:                          compiled if libtorch is found.
    -->
    <!-- held by PATH               A file of tests that checks the content of the block and contains `text`.
    text: TEXT -->
    <!-- not run: REASON -->
"""

import dataclasses
import pathlib
import re

KINDS = {"run": {"setup", "vary", "any", "leave-out"}, "output": {"command", "setup", "vary", "any", "leave-out"},
         "compile": {"setup", "torch"}, "held": {"text"}}


class PageError(Exception):
    pass


@dataclasses.dataclass
class Block:
    page: pathlib.Path
    line: int  # of its first line, from 1
    lines: list
    kind: str = ""
    argument: str = ""
    settings: dict = dataclasses.field(default_factory=dict)

    def where(self):
        return f"{self.page}:{self.line}"

    def patterns(self, name):
        return [re.compile(text) for text in self.settings.get(name, [])]


def _read_mark(block, text):
    first, *rest = text.strip().split("\n")
    kind, _, argument = first.partition(" ")
    if first.startswith("held by "):
        block.kind, block.argument = "held", first[len("held by "):].strip()
    elif first.startswith("not run: "):
        block.kind, block.argument = "not run", first[len("not run: "):].strip()
    elif kind in KINDS and kind != "held" and not argument:
        block.kind = kind
    else:
        raise PageError(f"{block.where()}: unknown mark '{first}'")
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon or name not in KINDS.get(block.kind, set()):
            raise PageError(f"{block.where()}: unknown setting '{line}' of the mark '{block.kind}'")
        block.settings.setdefault(name, []).append(value.strip())
    if block.kind == "held" and len(block.settings.get("text", [])) != 1:
        raise PageError(f"{block.where()}: the mark 'held' needs one text")
    if block.kind == "output" and len(block.settings.get("command", [])) != 1:
        raise PageError(f"{block.where()}: the mark 'output' needs one command")


def read_blocks(page):
    """The blocks of a page in order. Raises PageError for one without a mark."""
    lines = page.read_text(encoding="utf-8").split("\n")
    blocks = []
    mark = None
    i = 0
    while i < len(lines):
        if lines[i].startswith("<!-- "):
            end = next(j for j in range(i, len(lines)) if lines[j].endswith("-->"))
            mark = "\n".join(lines[i:end + 1])[len("<!-- "):-len("-->")]
            i = end
        elif lines[i].startswith("```"):
            end = next(j for j in range(i + 1, len(lines)) if lines[j].startswith("```"))
            block = Block(page, i + 2, lines[i + 1:end])
            if mark is None:
                raise PageError(f"{block.where()}: a block without a mark; tests/documents/blocks.py lists them")
            _read_mark(block, mark)
            blocks.append(block)
            mark = None
            i = end
        elif lines[i].startswith("    ") and i > 0 and not lines[i - 1].strip():
            raise PageError(f"{page}:{i + 1}: an indented block; use ``` and a mark")
        elif lines[i].strip():
            mark = None
        i += 1
    return blocks
