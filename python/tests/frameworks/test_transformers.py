"""Hugging Face's Trainer: get_train_dataloader() returns our loader, checkpoints contain its position."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from framework_data import make_loader, numbers, points  # noqa: F401

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytestmark = pytest.mark.timeout(600)  # importing them takes long

import energon_cpp.torch  # noqa: E402


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.seen: list[list[int]] = []

    def forward(self, number: Any, x: Any, labels: Any) -> Any:
        self.seen.append([int(one) for one in number])
        loss = (self.layer(x).squeeze(1) - labels).square().mean()
        return {"loss": loss}


class Trainer(transformers.Trainer):  # type: ignore[misc, name-defined]
    """Delivers our batches, and keeps the position of the loader in the folder of each checkpoint."""

    def __init__(self, loader: Any, **more: Any) -> None:
        super().__init__(**more)
        self.loader = loader

    def get_train_dataloader(self) -> Any:
        return self.loader

    def _save_checkpoint(self, *arguments: Any, **more: Any) -> None:
        super()._save_checkpoint(*arguments, **more)
        torch.save(self.loader.state_dict(), self._folder() / "loader.pt")

    def _folder(self) -> pathlib.Path:
        return pathlib.Path(self.args.output_dir, f"checkpoint-{self.state.global_step}")

    def train(self, resume_from_checkpoint: Any = None, **more: Any) -> Any:
        if resume_from_checkpoint is not None:
            state = torch.load(pathlib.Path(resume_from_checkpoint, "loader.pt"), weights_only=True)
            self.loader.load_state_dict(state)
        return super().train(resume_from_checkpoint=resume_from_checkpoint, **more)


def run(path: str, folder: pathlib.Path, steps: int, resume: Any = None, **options: Any) -> Model:
    torch.manual_seed(0)
    model = Model()
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        save_steps=5,
        per_device_train_batch_size=8,
        lr_scheduler_type="constant",
        learning_rate=0.01,
        ignore_data_skip=True,  # the loader skips nothing and starts at its position
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
        use_cpu=True,
    )
    with make_loader(path, **options) as loader:
        Trainer(loader, model=model, args=arguments).train(resume)
    return model


@pytest.mark.parametrize("at", [5, 10, 15, 25])
def test_resumes_in_an_epoch(
    points: str, tmp_path: pathlib.Path, num_workers: int, at: int  # noqa: F811
) -> None:
    whole = run(points, tmp_path / "whole", 30, num_workers=num_workers)
    assert sorted(sum(whole.seen[:12], [])) == list(range(96))
    assert len(whole.seen) == 30 and whole.seen[:12] != whole.seen[12:24]
    checkpoint = tmp_path / "whole" / f"checkpoint-{at}"
    rest = run(points, tmp_path / "rest", 30, checkpoint, num_workers=num_workers)
    assert rest.seen == whole.seen[at:]
    assert torch.equal(rest.layer.weight, whole.layer.weight)


def test_endless_data(points: str, tmp_path: pathlib.Path) -> None:
    whole = run(points, tmp_path / "whole", 20, repeat=True)
    rest = run(points, tmp_path / "rest", 20, tmp_path / "whole" / "checkpoint-10", repeat=True)
    assert len(whole.seen) == 20 and rest.seen == whole.seen[10:]


def test_set_train_loader(points: str, tmp_path: pathlib.Path) -> None:  # noqa: F811
    """Without a class of one's own; with several ranks in test_ranks.py."""

    def run(steps: int, resume: Any) -> list[list[int]]:
        model = Model()
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=steps,
            save_steps=4,
            save_total_limit=1,
            gradient_accumulation_steps=2,
            remove_unused_columns=False,
            disable_tqdm=True,
            report_to=[],
            use_cpu=True,
        )
        with make_loader(points) as loader:
            trainer = transformers.Trainer(model=model, args=arguments)
            energon_cpp.torch.set_train_loader(trainer, loader)
            trainer.train(resume_from_checkpoint=resume)
        return model.seen

    with make_loader(points) as loader:
        whole = [numbers(batch) for _ in range(2) for batch in loader]
    assert run(4, None) == whole[:8]
    saved = [tmp_path / "checkpoint-4" / name for name in ("loader.pt", "trainer_state.json")]
    times = [file.stat().st_mtime_ns for file in saved]
    assert times == sorted(times)  # first ours, because an older checkpoint is removed at the end
    assert run(12, True) == whole[8:24]  # the newest checkpoint
    (tmp_path / "checkpoint-12" / "loader.pt").unlink()
    with pytest.raises(FileNotFoundError, match="loader.pt: it was saved without set_train_loader"):
        run(16, True)
