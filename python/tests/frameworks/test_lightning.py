"""Lightning's Trainer: a checkpoint in the middle of an epoch, and the same batches afterwards."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from framework_data import make_loader, numbers, points  # noqa: F401

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")
pytestmark = pytest.mark.timeout(600)  # importing them takes long

QUIET: dict[str, Any] = {
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "accelerator": "cpu",
    "devices": 1,
}


class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.seen: list[list[int]] = []

    def training_step(self, batch: Any, index: int) -> Any:
        self.seen.append(numbers(batch))
        return (self.layer(batch["x"]).squeeze(1) - batch["labels"]).square().mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(path: str, steps: int, folder: pathlib.Path, resume: Any = None, **options: Any) -> Module:
    torch.manual_seed(0)
    module = Module()
    saving = lightning.pytorch.callbacks.ModelCheckpoint(
        dirpath=folder, filename="{step}", every_n_train_steps=5, save_top_k=-1
    )
    with make_loader(path, **options) as loader:
        trainer = lightning.Trainer(max_steps=steps, max_epochs=-1, callbacks=[saving], **QUIET)
        trainer.fit(module, loader, ckpt_path=resume)
    return module


@pytest.mark.parametrize("at", [5, 10, 15, 25])
def test_resumes_in_an_epoch(
    points: str, tmp_path: pathlib.Path, num_workers: int, at: int  # noqa: F811
) -> None:
    whole = fit(points, 30, tmp_path / "whole", num_workers=num_workers)
    epochs = [sorted(sum(whole.seen[i : i + 12], [])) for i in (0, 12)]
    assert epochs == [list(range(96))] * 2 and whole.seen[:12] != whole.seen[12:24]
    first = fit(points, at, tmp_path / "first", num_workers=num_workers)
    assert first.seen == whole.seen[:at]
    checkpoint = tmp_path / "first" / f"step={at}.ckpt"
    rest = fit(points, 30, tmp_path / "rest", checkpoint, num_workers=num_workers)
    assert rest.seen == whole.seen[at:]
    assert torch.equal(rest.layer.weight, whole.layer.weight)


@pytest.mark.parametrize("length", [7, 0])
def test_repeated_data(points: str, tmp_path: pathlib.Path, length: int) -> None:
    options: dict[str, Any] = {"repeat": True, "virtual_epoch_length": length}
    whole = fit(points, 20, tmp_path / "whole", **options)
    first = fit(points, 10, tmp_path / "first", **options)
    rest = fit(points, 20, tmp_path / "rest", tmp_path / "first" / "step=10.ckpt", **options)
    assert first.seen + rest.seen == whole.seen
