"""Runs the program energon, which is part of the package."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from typing import Any, Iterator, NoReturn, Sequence

from ._prepare import MAIN_FOLDER_NAME
from ._sample import field_names_of

_FILE = pathlib.Path(__file__).parent / "bin" / "energon"


def main() -> NoReturn:
    """Replaces this process by the program, with the same arguments: `energon …` in a shell."""
    try:
        os.execv(_FILE, ["energon", *sys.argv[1:]])
    except OSError as error:
        sys.exit(_cannot_run(error))


class Command:
    """A command of the program as an object. Like Energon's commands, it is called with the
    arguments of a command line, and click's CliRunner can run it. It takes the options of the
    program, and those of Energon that have the same meaning."""

    def __init__(self, name: str) -> None:
        self.name = name

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **options: Any
    ) -> NoReturn:
        """Runs the command and raises SystemExit with its exit code. Its output goes to sys.stdout
        and sys.stderr. `prog_name` and `options`, which click passes, have no effect."""
        sys.exit(self.run([*(sys.argv[1:] if args is None else args)]))

    def __call__(self, *args: Any, **options: Any) -> NoReturn:
        self.main(*args, **options)

    def run(self, words: list[str]) -> int:
        """Returns the exit code."""
        try:
            ran = subprocess.run(
                [_FILE, self.name, *words], stdin=subprocess.DEVNULL, capture_output=True
            )
        except OSError as error:
            sys.exit(_cannot_run(error))
        sys.stdout.write(ran.stdout.decode(errors="replace"))
        sys.stderr.write(ran.stderr.decode(errors="replace"))
        return ran.returncode


class _Lint(Command):
    """Always checks the whole dataset, so that --split-parts has no effect."""

    def run(self, words: list[str]) -> int:
        taken_options(words, "--split-parts")
        threads = taken_options(words, "--parallel")
        return super().run([*words, *(f"--num-workers={number}" for number in threads[-1:])])


class _Prepare(Command):
    """Also takes field maps as JSON, and another name for dataset.yaml. Without a split, it asks
    for what is missing, unless --non-interactive is given."""

    def run(self, words: list[str]) -> int:
        folders = [word for word in words if os.path.isdir(word)]
        if len(folders) == 1 and not _is_given(words, "--non-interactive", *_SPLITS):
            try:
                words = [*words, "--non-interactive", *_asked(folders[0], words)]
            except EOFError:
                sys.exit("\nenergon: there is no answer: specify --split-ratio or --split-parts")
        fields = []
        for text in taken_options(words, "--field-map"):
            one = json.loads(text) if text.startswith("{") else None
            fields += [text] if one is None else [f"{name}={part}" for name, part in one.items()]
        types = taken_options(words, "--sample-type")
        kept = [name for name in types[-1:] if name != "CrudeWebdataset"]
        taken_options(words, "--tmp-path")
        names = taken_options(words, "--dataset-yaml-name")
        words = [*words, *(f"--field-map={field}" for field in fields)]
        words += [f"--sample-type={name}" for name in kept]
        if not names:
            return _code_of_energon(super().run(words), words)
        if len(folders) != 1:
            sys.exit(f"energon: --dataset-yaml-name needs one folder, found {len(folders)}")
        with _named(pathlib.Path(folders[0], MAIN_FOLDER_NAME), names[-1]):
            return _code_of_energon(super().run(words), words)


def _code_of_energon(code: int, words: Sequence[str]) -> int:
    """Where no split is given, Energon's command asks, and fails with 1 if it must not ask."""
    return 1 if code == 2 and not _is_given(words, *_SPLITS) else code


_SPLITS = ("--split-ratio", "--split-parts")


def _is_given(words: Sequence[str], *names: str) -> bool:
    return any(word.partition("=")[0] in names for word in words)


def _asked(folder: str, words: Sequence[str]) -> list[str]:
    """The options that the person at the terminal chooses."""
    given = []
    if (pathlib.Path(folder) / MAIN_FOLDER_NAME).is_dir() and "--force-overwrite" not in words:
        if not _says_yes(f"{folder} is prepared already. Prepare it again?"):
            sys.exit("energon: nothing was changed")
        given.append("--force-overwrite")
    given.append(f"--split-ratio={input('Ratio of train, val and test, such as 8,1,1: ').strip()}")
    if _is_given(words, "--sample-type") or not _says_yes("Choose the type of the samples?"):
        return given
    from . import sample_types

    types = sorted(name for name in vars(sample_types) if name.endswith("Sample"))
    types = [name for name in types if name != "Sample"] + ["crude samples, for cookers"]
    for number, name in enumerate(types):
        print(f"{number}. {name}")
    chosen = int(input("Number: "))
    if not 0 <= chosen < len(types):
        sys.exit(f"energon: the number must be 0 to {len(types) - 1}, not {chosen}")
    if chosen == len(types) - 1:
        return given
    given.append(f"--sample-type={types[chosen]}")
    if _says_yes("Name the part of each field? (Otherwise parts are called like their fields.)"):
        for field in field_names_of(getattr(sample_types, types[chosen])):
            if not field.startswith("__"):
                part = input(f"Part of '{field}', such as jpg,png or json[{field}]; none to skip: ")
                given += [f"--field-map={field}={part.strip()}"] if part.strip() else []
    return given


def _says_yes(question: str) -> bool:
    return input(f"{question} [Y/n] ").strip().lower() in ("", "y", "yes")


@contextlib.contextmanager
def _named(folder: pathlib.Path, name: str) -> Iterator[None]:
    """What is written to dataset.yaml in the folder gets another name; an existing dataset.yaml
    stays."""
    standard, aside = folder / "dataset.yaml", folder / ".dataset.yaml.kept"
    has_standard = standard.exists()
    if has_standard:
        standard.rename(aside)
    try:
        yield
        if standard.exists():
            standard.replace(folder / name)
    finally:
        if has_standard:
            aside.replace(standard)


class _Preview(Command):
    """Shows decoded samples, one after the other, with the fields and their classes. Other options
    than Energon's are those of the program."""

    def run(self, words: list[str]) -> int:
        given = list(words)
        parts = taken_options(words, "--split-parts")
        configs = taken_options(words, "--dataset-config")
        if len(words) != 1 or words[0].startswith("-"):
            return super().run(given)
        from .sample_utils import preview

        split_parts = (parts[-1] if parts else "train,val,test").split(",")
        preview(words[0], split_parts, configs[-1] if configs else None)
        return 0


class _Redistribute(Command):
    """Writes the states of a job for another number of ranks: FILES... FOLDER
    --new-world-size N. The files are what torch.save() wrote of the states of all ranks. Ranks
    times workers stay the same. The state of rank R is FOLDER/state_rankR.pt."""

    def run(self, words: list[str]) -> int:
        sizes = taken_options(words, "--new-world-size")
        if len(words) < 2 or len(sizes) != 1 or not sizes[0].isdecimal():
            sys.stderr.write("energon: expected FILES... FOLDER --new-world-size N\n")
            return 2
        from .states import redistribute_files

        redistribute_files(words[:-1], words[-1], int(sizes[0]))
        return 0


def taken_options(words: list[str], name: str) -> list[str]:
    """Removes all `name VALUE` and `name=VALUE` from the words. Returns the values."""
    values, kept = [], []
    rest = iter(words)
    for word in rest:
        if word == name:
            values.append(next(rest, ""))
        elif word.startswith(f"{name}="):
            values.append(word.partition("=")[2])
        else:
            kept.append(word)
    words[:] = kept
    return values


def _cannot_run(error: OSError) -> str:
    return (
        f"energon: {_FILE} cannot be run ({error.strerror}): the package was built without the "
        "program or was not installed by pip; reinstall it"
    )


analyze_debug_command = Command("analyze")
info_command = Command("info")
lint_command = _Lint("lint")
prepare_command = _Prepare("prepare")
prepare_media_command = Command("prepare-media")
preview_command = _Preview("preview")
redistribute_command = _Redistribute("redist")
