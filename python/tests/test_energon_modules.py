"""The modules of Energon below energon_cpp, and the package under the name megatron.energon."""

from __future__ import annotations

import importlib
import pathlib
import pickle
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from conftest import Ran, run_script

import energon_cpp as energon
from energon_cpp._energon_names import NAMES


# --- Below energon_cpp ---


@pytest.mark.parametrize("module", NAMES)
def test_modules_have_the_names_of_the_table(module: str) -> None:
    found = importlib.import_module(f"energon_cpp.{module}")
    for home, names in NAMES[module].items():
        source = importlib.import_module(f"energon_cpp.{home}" if home else "energon_cpp")
        for entry in names.split():
            name, _, other = entry.partition("=")
            assert getattr(found, name) is getattr(source, other or name)


def test_each_name_has_one_object() -> None:
    from energon_cpp.flavors.base_dataset import Sample
    from energon_cpp.task_encoder import base
    from energon_cpp.task_encoder.cooking import Cooker

    assert Sample is energon.Sample and Cooker is energon.Cooker is base.Cooker
    assert base.WorkerConfig is energon.WorkerConfig


def test_modules_are_modules() -> None:
    import energon_cpp.flavors.webdataset as webdataset

    assert webdataset.__name__ == "energon_cpp.flavors.webdataset"
    assert "SampleDecoder" in webdataset.__all__ and "megatron.energon" in (webdataset.__doc__ or "")
    assert importlib.import_module("energon_cpp.flavors").webdataset is webdataset
    for missing in ("energon_cpp.flavors.nothing", "energon_cpp.nothing"):
        with pytest.raises(ModuleNotFoundError, match=missing):
            importlib.import_module(missing)
    with pytest.raises(AttributeError, match="module 'energon_cpp' has no attribute 'nothing'"):
        getattr(energon, "nothing")
    with pytest.raises(AttributeError):
        getattr(webdataset, "nothing")


def test_modules_are_made_when_they_are_imported() -> None:
    ran = run_script("""
        import sys
        import energon_cpp._energon_names
        made = [name for name in energon_cpp._energon_names.NAMES if f"energon_cpp.{name}" in sys.modules]
        print(*sorted(made))
    """)
    kept = "av edataclass errors loader media metadataset sample_utils source_info task_encoder"
    kept += " wrappers"
    assert ran == Ran(0, f"{kept}\n", "")


def test_submodules_are_attributes() -> None:
    ran = run_script("""
        import energon_cpp as energon
        assert energon.flavors.vqa_and_ocr.VQAOCRSample is energon.VQAOCRSample
        assert energon.task_encoder.base.stateless is energon.stateless
        assert energon.metadataset.loader.load_dataset is energon.load_dataset
    """)
    assert ran == Ran(0, "", "")


def test_a_function_is_not_replaced_by_its_module() -> None:
    from energon_cpp.edataclass import edataclass

    assert energon.edataclass is edataclass and callable(energon.edataclass)


def test_classes_are_pickled_by_their_own_module() -> None:
    from energon_cpp.flavors.captioning import CaptioningSample

    sample = CaptioningSample(__key__="a", image=b"", caption="c")
    data = pickle.dumps(sample)
    assert b"energon_cpp.sample_types" in data and b"captioning" not in data
    again = pickle.loads(data)
    assert type(again) is energon.CaptioningSample and again.caption == "c"


def test_modules_without_a_file_have_stubs(tmp_path: pathlib.Path) -> None:
    """That mypy finds the names in them is a part of `python: types`."""
    root = pathlib.Path(__file__).parents[1]
    script = root / "tools" / "make_module_stubs.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, timeout=60)
    for module, homes in NAMES.items():
        place = module.replace(".", "/")
        files = [f"{place}/__init__.py", f"{place}.py", f"{place.partition('/')[0]}.py"]
        stubs = [tmp_path / place / "__init__.pyi", tmp_path / f"{place}.pyi"]
        made = [stub for stub in stubs if stub.exists()]
        assert len(made) == 1 - any((root / "energon_cpp" / file).exists() for file in files)
        for name in " ".join(homes.values()).split() if made else []:
            name, _, other = name.partition("=")
            assert f" import {other or name} as {name}\n" in made[0].read_text()


# --- As megatron.energon ---


def run_shim(
    tmp_path: pathlib.Path, code: str, *before: str, arguments: tuple[str, ...] = (), path: str = ""
) -> Ran:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    command = [sys.executable, "-m", "energon_cpp.shim", *before, str(script), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def test_scripts_import_the_package_as_energon(tmp_path: pathlib.Path) -> None:
    ran = run_shim(
        tmp_path,
        """
        import sys
        import energon_cpp
        import megatron.energon
        from megatron.energon import DefaultTaskEncoder, edataclass, get_train_dataset
        from megatron.energon.epathlib.epath import EPath
        from megatron.energon.edataclass import edataclass as same
        from megatron.energon.flavors.webdataset.base_webdataset import BaseWebdatasetFactory
        import megatron.energon.task_encoder.base as base
        import megatron.energon.flavors.vqa

        assert megatron.energon is energon_cpp and base.stateless is energon_cpp.stateless
        assert base is sys.modules["energon_cpp.task_encoder.base"]
        assert base.__spec__.name == "energon_cpp.task_encoder.base"
        assert megatron.energon.edataclass is edataclass is same
        assert megatron.energon.flavors.vqa.VQASample is energon_cpp.VQASample
        print(__name__, __file__.endswith("script.py"), sys.argv[1:], sys.path[0])
        """,
        arguments=("--lr", "1"),
    )
    assert ran == Ran(0, f"__main__ True ['--lr', '1'] {tmp_path}\n", "")


def test_the_shim_takes_permissions_and_names_states_as_energon(tmp_path: pathlib.Path) -> None:
    ran = run_shim(
        tmp_path,
        """
        import pickle, sys
        from megatron.energon.savable_loader import SavableDataLoaderState
        from megatron.energon.state import FlexState
        import energon_cpp._imports
        state = SavableDataLoaderState(
            worker_states=[FlexState(a=1)], next_worker_id=0, micro_batch_size=2
        )
        data = pickle.dumps(state)
        print(b"energon_cpp" in data, pickle.loads(data) == state, sys.argv[1:])
        print(energon_cpp._imports._everywhere)
        """,
        *("--allow-imports", "one.module", "--allow-imports", "other"),
        arguments=("--lr", "1"),
    )
    assert ran == Ran(0, "False True ['--lr', '1']\n['one.module', 'other']\n", "")


def test_what_is_absent_is_an_import_error(tmp_path: pathlib.Path) -> None:
    ran = run_shim(tmp_path, "import megatron.energon.nothing")
    assert ran.code == 1 and "energon_cpp, which replaces megatron.energon, does not" in ran.err
    ran = run_shim(tmp_path, "from megatron.energon import NoSuchName")
    assert ran.code == 1 and "ImportError: cannot import name 'NoSuchName'" in ran.err


@pytest.mark.parametrize("late", [False, True])
def test_other_parts_of_megatron_are_found(tmp_path: pathlib.Path, late: bool) -> None:
    core = tmp_path / "elsewhere" / "megatron" / "core"
    core.mkdir(parents=True)
    (core / "__init__.py").write_text("import megatron.energon\nname = 'core'\n")
    first = "import megatron.energon" if late else "pass"
    ran = run_shim(
        tmp_path,
        f"""
        import sys
        {first}
        sys.path.append({str(core.parents[1])!r})
        import megatron.core
        assert megatron.core.name == "core" and megatron.energon.Sample
        assert any("elsewhere" in path for path in megatron.__path__)
        """,
    )
    assert ran == Ran(0, "", "")


def test_energon_itself_must_not_be_imported_before(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "megatron" / "energon"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import energon_cpp
        if sys.argv[2] == "late":
            import megatron.energon
        energon_cpp.install_as_megatron_energon()
        energon_cpp.install_as_megatron_energon()  # no effect
        import megatron.energon
        print(megatron.energon is energon_cpp)
    """
    assert run_script(code, str(tmp_path), "early") == Ran(0, "True\n", "")
    ran = run_script(code, str(tmp_path), "late")
    assert ran.code == 1
    assert "RuntimeError: megatron.energon was imported before, from" in ran.err


def test_modules_run(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_it.py").write_text("from megatron.energon.rng import SystemRng\n"
                                         "def test_it(): assert SystemRng.seed\n")  # fmt: skip
    ran = run_shim(tmp_path, "", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert ran.code == 0 and "1 passed" in ran.out, ran


def test_usage(tmp_path: pathlib.Path) -> None:
    for arguments in ([], ["-m"], ["--help"]):
        command = [sys.executable, "-m", "energon_cpp.shim", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert ran.returncode == 1 and "python -m energon_cpp.shim train.py" in ran.stderr


def test_workers_have_the_name(texts: str, tmp_path: pathlib.Path) -> None:
    ran = run_shim(
        tmp_path,
        """
        import sys
        from megatron.energon import DefaultTaskEncoder, WorkerConfig, get_savable_loader
        from megatron.energon import get_val_dataset

        class Encoder(DefaultTaskEncoder):
            def encode_sample(self, sample):
                from megatron.energon.task_encoder.cooking import basic_sample_keys
                return {**basic_sample_keys(sample), "text": sample["txt"]}

        config = WorkerConfig(rank=0, world_size=1, num_workers=2)
        dataset = get_val_dataset(
            sys.argv[1], worker_config=config, batch_size=4, task_encoder=Encoder()
        )
        with get_savable_loader(dataset) as loader:
            print(sum(len(batch["text"]) for batch in loader))
        """,
        arguments=(texts,),
    )
    assert ran == Ran(0, "60\n", "")


def test_the_interpreter_ends_well_after_a_failure(tmp_path: pathlib.Path) -> None:
    ran = run_shim(tmp_path, "import sys; sys.exit(3)")
    assert ran == Ran(3, "", "")


# --- Other modules ---


def test_commands(texts: str, capsys: pytest.CaptureFixture[str]) -> None:
    from energon_cpp.tools.info import command as info
    from energon_cpp.tools.lint import command as lint

    with pytest.raises(SystemExit) as ended:
        info([texts])
    assert ended.value.code == 0 and "60" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        lint.main(args=["/nothing"], prog_name="lint", standalone_mode=False)
    assert ended.value.code == 1 and "no such file" in capsys.readouterr().err


def test_system_rng() -> None:
    import random

    from energon_cpp.rng import SystemRng

    state = SystemRng.save_state()
    try:
        SystemRng.seed_args("a", 1)
        first: Any = random.random()
        SystemRng.seed(SystemRng.get_seed_from_args("a", 1))
        assert random.random() == first
        again = SystemRng.save_state()
        after = random.random()
        SystemRng.restore_state(again)
        assert random.random() == after
    finally:
        SystemRng.restore_state(state)
    assert SystemRng.get_seed_from_args("a", 1) == 1184863232
