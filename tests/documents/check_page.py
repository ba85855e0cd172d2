"""check_page.py ROOT BUILD PAGE: runs the blocks of a page according to their marks (blocks.py) and compares the output.

Also checks that flags in `code` of the page are flags of the program. Exit code 1 and a diff if something is wrong.
"""

import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from blocks import PageError, read_blocks

LIMIT_SECONDS = 600
# Flags of other programs that pages mention.
FOREIGN_FLAGS = {"--preset", "--build", "--test-dir", "--check", "--first-seed", "--count", "--target", "--help", "--version", "--lines",
                 "--only", "--repetitions", "--json", "--data", "--global-batch", "--signal", "--default-signal",
                 "--claimed-samples", "--files", "--targets-only", "--loaders", "--works", "--workers", "--batches",
                 "--warmup", "--pack", "--report"}
HEX = re.compile(r"\b[0-9a-f]{16}\b")
NUMBER = re.compile(r"\d[\d,.]*")


def masked(line):
    return " ".join(NUMBER.sub("N", HEX.sub("H", line)).split())


def normal_form(block, lines):
    """The lines to compare: without those that the page leaves out, and with varying parts masked."""
    vary, any_line, leave_out = (block.patterns(name) for name in ("vary", "any", "leave-out"))
    result = []
    for line in lines:
        line = line.rstrip()
        if not line or any(pattern.search(line) for pattern in leave_out):
            continue
        matching = next((pattern.pattern for pattern in any_line if pattern.search(line)), None)
        if matching:
            line = f"any line that matches {matching}"
        elif any(pattern.search(line) for pattern in vary):
            line = masked(line)
        result.append(line)
    return result


class Page:
    def __init__(self, root, build, page, folder):
        self.root, self.page, self.folder = root, page, folder
        self.failures = 0
        self.environment = dict(os.environ, ENERGON_BUILD_DIR=str(build), ENERGON_CACHE_DIR=str(folder / ".cache"),
                                PATH=f"{build}/cli:{build}/examples:{os.environ['PATH']}", LC_ALL="C.UTF-8")
        (folder / "build").mkdir()
        (folder / "build/dev").symlink_to(build)  # as after `cmake --preset dev`
        for name in ("examples", "tests", "bench"):
            (folder / name).symlink_to(root / name)

    def fail(self, where, text):
        self.failures += 1
        print(f"{where}: {text}", file=sys.stderr)

    def execute(self, block, command):
        """The lines that a command prints."""
        try:
            done = subprocess.run(["bash", "-c", f"set -euo pipefail\n{command}"], cwd=self.folder, env=self.environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=LIMIT_SECONDS, text=True, encoding="utf-8", errors="replace", check=False)
        except subprocess.TimeoutExpired:
            self.fail(block.where(), f"does not end within {LIMIT_SECONDS} s: {command}")
            return []
        if done.returncode != 0:
            self.fail(block.where(), f"exit code {done.returncode} of: {command}\n{done.stdout}")
        return done.stdout.split("\n")

    def compare(self, block, command, page_lines, printed):
        expected, actual = normal_form(block, page_lines), normal_form(block, printed)
        if expected != actual:
            diff = "\n".join(difflib.unified_diff(expected, actual, "page", "program", lineterm=""))
            self.fail(block.where(), f"other output: {command}\n{diff}\nthe whole output:\n" + "\n".join(printed))

    def run_block(self, block):
        for command in block.settings.get("setup", []):
            self.execute(block, command)
        if not any(line.startswith("$ ") for line in block.lines):
            for command in block.lines:
                self.execute(block, command)
            return
        command, shown = None, []
        for line in block.lines + ["$ "]:
            if not line.startswith("$ "):
                shown.append(line)
                continue
            if command:
                self.compare(block, command, shown, self.execute(block, command))
            command, shown = line[2:], []

    def check_output(self, block):
        for command in block.settings.get("setup", []):
            self.execute(block, command)
        command = block.settings["command"][0]
        printed = self.execute(block, command)
        if block.lines[0] in printed:
            printed = printed[printed.index(block.lines[0]):]
        self.compare(block, command, block.lines, printed)

    def check_held(self, block):
        path, text = self.root / block.argument, block.settings["text"][0]
        if not path.is_file() or text not in path.read_text(encoding="utf-8"):
            self.fail(block.where(), f"{block.argument} does not contain '{text}'")

    def check(self):
        for block in read_blocks(self.page):
            if block.kind == "run":
                self.run_block(block)
            elif block.kind == "output":
                self.check_output(block)
            elif block.kind == "held":
                self.check_held(block)
        self.check_flags()

    def flags_of(self, command):
        """The flags of a command and of its subcommands."""
        text = subprocess.run(["energon", *command, "--help"], env=self.environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        flags = set(re.findall(r"--[a-z][a-z0-9-]*", text))
        _, _, subcommands = text.partition("\nSubcommands:\n")
        for name in re.findall(r"^  ([a-z-]+)", subcommands, re.MULTILINE):
            flags |= self.flags_of([*command, name])
        return flags

    def check_flags(self):
        known = self.flags_of([]) | FOREIGN_FLAGS
        for number, line in enumerate(self.page.read_text(encoding="utf-8").split("\n"), 1):
            for code in re.findall(r"`([^`]+)`", line):
                for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", code):
                    if flag not in known:
                        self.fail(f"{self.page}:{number}", f"no command has the flag {flag}")


def main():
    root, build, page = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="energon-page-") as folder:
        checked = Page(root, build, page, pathlib.Path(folder))
        try:
            checked.check()
        except PageError as error:
            sys.exit(str(error))
        sys.exit(1 if checked.failures else 0)


if __name__ == "__main__":
    main()
