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


def test_public_names_are_listed() -> None:
    """Type checkers need a list that they understand: otherwise `energon.Batch` is an error."""
    import types

    names = {
        name
        for name, value in vars(energon).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(energon.__all__) == names | {"__version__"}
