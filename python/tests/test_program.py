"""The program energon in the package, and their common version."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from conftest import take, write_tar

import energon_cpp as energon

ROOT = pathlib.Path(__file__).parents[2]


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "energon_cpp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_module_is_the_program(texts: str) -> None:
    done = run_module("get", texts, "0003.txt", "--output", "-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "text 3", "")


def test_its_exit_code_and_messages_are_passed_on() -> None:
    done = run_module("nothing")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "energon: " in done.stderr and "nothing" in done.stderr


def test_the_versions_are_equal() -> None:
    build = (ROOT / "CMakeLists.txt").read_text()
    project = re.search(r"project\(energon VERSION ([0-9.]+)", build)
    assert project is not None
    assert energon.__version__ == project[1]
    assert run_module("--version").stdout.split() == ["energon-cpp", energon.__version__]
    settings = tomllib.loads((ROOT / "python/pyproject.toml").read_text())
    assert settings["project"]["dynamic"] == ["version"]
    rule = settings["tool"]["scikit-build"]["metadata"]["version"]
    found = re.search(rule["regex"], (ROOT / "python" / rule["input"]).read_text(), re.MULTILINE)
    assert found is not None and found["value"] == energon.__version__


def test_the_error_of_a_source_distribution_names_the_alternative() -> None:
    pytest.importorskip("scikit_build_core")
    code = "import backend; print(backend.build_wheel.__name__); backend.build_sdist('nowhere')"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT / "python/wheel",
    )
    assert (done.returncode, done.stdout) == (1, "build_wheel\n")
    assert "pip install ./python" in done.stderr and "Traceback" not in done.stderr


def test_the_error_of_a_package_without_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    from energon_cpp import _program

    monkeypatch.setattr(_program, "_FILE", tmp_path / "energon")
    with pytest.raises(SystemExit, match="No such file.*reinstall it"):
        _program.main()


# --- Commands as objects, with options of Energon ---


def run_command(command: Any, *words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        command.main(list(words))
    code = ended.value.code
    assert isinstance(code, int), code
    return code


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for i in range(2):
        write_tar(tmp_path / f"{i}.tar", [(f"{i}{j}", {"txt": b"word"}) for j in range(3)])
    return tmp_path


def test_datasets_are_prepared_with_options_of_energon(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from energon_cpp.tools import lint, prepare

    meta = folder / ".nv-meta"
    given = [str(folder), "--non-interactive", "--force-overwrite", "--split-ratio=1,0,0"]
    fields = ["--sample-type=TextSample", '--field-map={"text": "txt"}']
    assert run_command(prepare.command, *given, *fields) == 0
    assert "Done" in capsys.readouterr().out
    standard = (meta / "dataset.yaml").read_text()
    assert "TextSample" in standard and "text: txt" in standard
    crude = ["--sample-type=CrudeWebdataset", "--dataset-yaml-name=crude.yaml"]
    assert run_command(prepare.command, *given, *crude) == 0
    assert "CrudeWebdataset" in (meta / "crude.yaml").read_text()
    assert (meta / "dataset.yaml").read_text() == standard
    assert run_command(prepare.command, str(folder), "--non-interactive") == 1
    assert run_command(lint.command, str(folder), "--split-parts=train", "--parallel", "2") == 0


def test_preparing_without_a_split_asks(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from energon_cpp.tools import prepare

    questions = []

    def answer(*answers: str) -> None:
        left = iter(answers)
        monkeypatch.setattr("builtins.input", lambda text: questions.append(text) or next(left))

    answer("1,0,0", "y", "7", "y", "txt")
    assert run_command(prepare.command, str(folder)) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed[0] == "0. CaptioningSample" and listed[7] == "7. TextSample"
    yaml = folder / ".nv-meta" / "dataset.yaml"
    assert "text: txt" in yaml.read_text() and "Part of 'text'" in questions[-1]
    answer("y", "0,1,0", "n")
    assert run_command(prepare.command, str(folder)) == 0
    assert "val:" in (folder / ".nv-meta" / "split.yaml").read_text()
    answer("n")
    with pytest.raises(SystemExit, match="nothing was changed"):
        prepare.command.main([str(folder)])
    monkeypatch.setattr("builtins.input", lambda text: (_ for _ in ()).throw(EOFError))
    with pytest.raises(SystemExit, match="specify --split-ratio"):
        prepare.command.main([str(folder)])


def test_a_preview_shows_decoded_samples(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from energon_cpp.tools import prepare, preview

    run_command(prepare.command, str(folder), "--split-ratio=1,0,0")
    answers = iter(["", "n"])
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    capsys.readouterr()
    assert run_command(preview.command, str(folder), "--split-parts=train") == 0
    shown = capsys.readouterr().out
    assert shown.count("txt (<class 'str'>): 'word'") == 2
    assert "__key__ (<class 'str'>): '0" in shown
    assert run_command(preview.command, str(folder), "--count=1", "--split-part=train") == 0


def test_states_are_redistributed(texts: str, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    from energon_cpp.tools.checkpoint import command_redist

    def loader(rank: int, world_size: int) -> energon.SavableDataLoader:
        config = energon.WorkerConfig(rank=rank, world_size=world_size, num_workers=4 // world_size)
        dataset = energon.get_train_dataset(texts, worker_config=config, batch_size=2)
        return energon.get_savable_loader(dataset)

    files = []
    following = []
    for rank in range(2):
        with loader(rank, 2) as ours:
            take(ours, 6)
            files.append(str(tmp_path / f"rank{rank}.pt"))
            torch.save(ours.save_state_rank(), files[-1])
            following += [key for batch in take(ours, 6) for key in batch.__key__]
    out = tmp_path / "out"
    assert run_command(command_redist, "--new-world-size", "1", *files, str(out)) == 0
    assert [path.name for path in out.iterdir()] == ["state_rank0.pt"]
    with loader(0, 1) as ours:
        ours.restore_state_rank(torch.load(out / "state_rank0.pt", weights_only=False))
        assert sorted(key for batch in take(ours, 12) for key in batch.__key__) == sorted(following)
    with pytest.raises(ValueError, match="4 workers cannot be divided among 3 ranks"):
        command_redist.main(["--new-world-size=3", *files, str(out)])
    assert run_command(command_redist, *files) == 2
