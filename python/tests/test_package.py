"""The package itself: import, names, types."""

import pathlib
import sys

import energon_cpp as energon

sys.path.append(str(pathlib.Path(__file__).parent / "wheel"))
import import_cost  # noqa: E402


def test_import_loads_no_library_and_is_fast(tmp_path) -> None:
    options = ("-X", f"pycache_prefix={tmp_path}")  # compiled once, like an installed package
    seconds, foreign = import_cost.import_cost(*options)
    assert foreign == []
    assert seconds < 0.2, import_cost.slowest_imports(*options)


def test_all_public_names_exist() -> None:
    for name in ("get_train_dataset", "get_val_dataset", "get_loader", "get_savable_loader"):
        assert name in energon.__all__
    assert all(hasattr(energon, name) for name in energon.__all__)


def test_errors_are_builtin_exceptions_too(texts: str, tmp_path) -> None:
    import pytest
    from conftest import config

    with pytest.raises(FileNotFoundError) as missing:
        energon.get_val_dataset(tmp_path / "none", worker_config=config(), batch_size=1)
    assert isinstance(missing.value, energon.EnergonError)
    assert missing.value.code == "not_found"
    assert missing.value.path.endswith("none")
    with pytest.raises(ValueError, match="batch size is 0"):
        len(energon.get_loader(
            energon.get_val_dataset(texts, worker_config=config(), batch_size=0)))
    with pytest.raises(TypeError, match="cannot be 'many'"):
        energon.get_val_dataset(texts, worker_config=config(), batch_size="many")
    with pytest.raises(ValueError, match="tensors must be"):
        energon.get_val_dataset(texts, worker_config=config(), batch_size=1, tensors="jax")


def test_errors_of_the_system_have_errno(texts: str, tmp_path) -> None:
    import errno

    import pytest
    from conftest import config

    with pytest.raises(OSError) as missing:
        energon.get_val_dataset(tmp_path / "none", worker_config=config(), batch_size=1)
    assert missing.value.errno == errno.ENOENT
    assert missing.value.filename == missing.value.path and "none" in str(missing.value)
    loader = energon.get_savable_loader(
        energon.get_val_dataset(texts, worker_config=config(), batch_size=1))
    with pytest.raises(energon.StorageError) as refused:
        loader.save_state_rank().write(tmp_path / ("x" * 300))
    assert refused.value.errno == errno.ENAMETOOLONG
    assert "File name too long" in str(refused.value)
    assert refused.value.strerror == "File name too long"


def test_tensors_do_not_depend_on_the_order_of_imports(arrays: str) -> None:
    """Also in a process that has imported neither library."""
    import importlib.util

    from conftest import run_script

    installed = [name for name in ("torch", "numpy") if importlib.util.find_spec(name)]
    expected = {"torch": "Tensor torch 4", "numpy": "ndarray numpy 4"}
    script = """
        import sys
        import energon_cpp as energon

        for hidden in sys.argv[2].split():
            sys.modules[hidden] = None

        class Encoder(energon.DefaultTaskEncoder):
            def encode_sample(self, sample):
                torch = sys.modules.get("torch")  # imported for the tensor, in this worker
                return {"npy": sample["npy"], "threads": torch.get_num_threads() if torch else 1}

        config = energon.WorkerConfig(rank=0, world_size=1, num_workers=1)
        dataset = energon.get_val_dataset(
            sys.argv[1], worker_config=config, batch_size=4, task_encoder=Encoder()
        )
        with energon.get_loader(dataset) as loader:
            assert sys.modules.get("torch") is None
            batch = next(iter(loader))
        kind = type(batch.npy)
        print(kind.__name__, kind.__module__.partition(".")[0], sum(batch.threads))
    """
    for hidden in ("", "torch", "torch numpy"):
        left = [name for name in installed if name not in hidden]
        ran = run_script(script, arrays, hidden)
        wanted = expected[left[0]] if left else "Tensor energon_cpp 4"
        assert ran.out.strip() == wanted, ran.err


def test_public_names_are_listed() -> None:
    """Type checkers need a list that they understand: otherwise `energon.Batch` is an error."""
    import types

    names = {
        name
        for name, value in vars(energon).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(energon.__all__) == names | {"__version__"}
