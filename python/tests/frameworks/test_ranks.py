"""Jobs of two ranks in frameworks: killed after a checkpoint, they continue exactly."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from framework_data import Rank, make_loader, numbers, points, run_ranks  # noqa: F401

import energon_cpp as energon

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(600)  # importing them takes long

import torch.distributed.checkpoint as dcp  # noqa: E402

import energon_cpp.torch  # noqa: E402
from energon_cpp.torch import AllRanks  # noqa: E402

STEPS = 14  # epochs have 6 batches a rank


def loader_of_rank(path: str, **config: Any) -> energon.SavableDataLoader:
    made = energon.WorkerConfig.default_worker_config(1, logical_shards=4, **config)
    return make_loader(path, worker_config=made)


def undisturbed(path: str) -> list[list[list[int]]]:
    """The batches of each rank of two."""
    seen: list[list[list[int]]] = []
    for rank in range(2):
        config = energon.WorkerConfig(rank=rank, world_size=2, num_workers=0, logical_shards=4)
        with make_loader(path, worker_config=config) as loader:
            batches = [numbers(batch) for _ in range(3) for batch in loader]
            assert len(batches) == 18
            seen.append(batches[:STEPS])
    return seen


def in_order(seen: list[list[list[int]]]) -> list[list[int]]:
    """The batches of the job, by step and rank."""
    return [batch for step in zip(*seen) for batch in step]


def check_resume(train: Any, path: str, folder: pathlib.Path, at: int) -> None:
    """train(rank, path, folder, at, resumes) saves after `at` batches, and ends after STEPS. Ranks
    wait for each other in each step, so at step `at` + 2 the other one has saved, too."""
    expected = undisturbed(path)
    killed = run_ranks(2, train, folder, path, folder, at, False, kill_at=at + 2)
    assert len(killed[1]) == at + 2 and len(killed[0]) >= at + 1
    assert killed == [all_[: len(seen)] for all_, seen in zip(expected, killed)]
    rest = run_ranks(2, train, folder, path, folder, at, True)
    assert [seen[:at] + more for seen, more in zip(killed, rest)] == expected


def model() -> Any:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch.nn.Linear(3, 1)


# --- Lightning ---


def train_lightning(rank: Rank, path: str, folder: pathlib.Path, at: int, resumes: bool) -> None:
    import lightning

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = model()

        def training_step(self, batch: Any, index: int) -> Any:
            rank.see(numbers(batch))
            return (self.layer(batch["x"]).squeeze(1) - batch["labels"]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    saving = lightning.pytorch.callbacks.ModelCheckpoint(
        dirpath=folder, filename="{step}", every_n_train_steps=at, save_top_k=-1
    )
    trainer = lightning.Trainer(
        max_steps=STEPS,
        max_epochs=-1,
        callbacks=[saving],
        strategy="ddp",
        devices=2,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    checkpoint = folder / f"step={at}.ckpt" if resumes else None
    with loader_of_rank(path) as loader:
        trainer.fit(Module(), AllRanks(loader), ckpt_path=checkpoint)


@pytest.mark.parametrize("at", [4, 6])
def test_lightning(points: str, tmp_path: pathlib.Path, at: int) -> None:  # noqa: F811
    pytest.importorskip("lightning")
    check_resume(train_lightning, points, tmp_path, at)


# --- Hugging Face's Trainer ---


def train_transformers(
    rank: Rank, path: str, folder: pathlib.Path, at: int, resumes: bool
) -> None:
    import transformers

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = model()

        def forward(self, number: Any, x: Any, labels: Any) -> Any:
            rank.see([int(one) for one in number])
            return {"loss": (self.layer(x).squeeze(1) - labels).square().mean()}

    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        save_steps=at,
        save_only_model=True,
        per_device_train_batch_size=8,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
        use_cpu=True,
    )
    with loader_of_rank(path) as loader:
        trainer = transformers.Trainer(model=Model(), args=arguments)
        energon_cpp.torch.set_train_loader(trainer, loader)
        trainer.train(resume_from_checkpoint=str(folder / f"checkpoint-{at}") if resumes else None)


@pytest.mark.parametrize("at", [4, 6])
def test_transformers(points: str, tmp_path: pathlib.Path, at: int) -> None:  # noqa: F811
    assert pytest.importorskip("transformers").Trainer  # imported here, before the forks
    check_resume(train_transformers, points, tmp_path, at)


def test_transformers_on_another_number_of_ranks(
    points: str, tmp_path: pathlib.Path  # noqa: F811
) -> None:
    """In another epoch than the trainer would compute."""
    assert pytest.importorskip("transformers").Trainer
    run_ranks(2, train_transformers, tmp_path, points, tmp_path, 8, False, kill_at=10)
    rest = run_ranks(1, train_transformers, tmp_path, points, tmp_path, 8, True)
    assert rest == [in_order(undisturbed(points))[16 : 16 + STEPS - 8]]


# --- Accelerate ---


def train_accelerate(rank: Rank, path: str, folder: pathlib.Path, at: int, resumes: bool) -> None:
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    layer = accelerator.prepare(model())
    with loader_of_rank(path) as loader:
        accelerator.register_for_checkpointing(AllRanks(loader))
        if resumes:
            accelerator.load_state(str(folder / "saved"))
        while (step := loader.save_state_rank().batch_index) < STEPS:
            for batch in loader:
                step += 1
                accelerator.backward(layer(batch["x"]).sum())
                rank.see(numbers(batch))
                if step == at:
                    accelerator.save_state(str(folder / "saved"))
                if step == STEPS:
                    break
    accelerator.end_training()


def test_accelerate(points: str, tmp_path: pathlib.Path) -> None:  # noqa: F811
    pytest.importorskip("accelerate")
    check_resume(train_accelerate, points, tmp_path, 4)


# --- Without a framework ---


def train_alone(rank: Rank, path: str, folder: pathlib.Path, at: int, resumes: bool) -> None:
    """The same call for both starts."""
    torch.distributed.init_process_group("gloo")
    with loader_of_rank(path) as loader:
        saver = energon.AutoSaver(loader, folder / "loader", every_batches=at)
        assert (saver.step > 0) == resumes
        while saver.step < STEPS:
            for batch in saver:
                rank.see(numbers(batch))
                torch.distributed.barrier()
                if saver.step == STEPS:
                    break
    torch.distributed.destroy_process_group()


def test_auto_saver(points: str, tmp_path: pathlib.Path) -> None:  # noqa: F811
    check_resume(train_alone, points, tmp_path, 4)


# --- torch.distributed.checkpoint ---


def train_dcp(rank: Rank, path: str, folder: pathlib.Path, at: int, resumes: bool) -> None:
    """To the end of the first epoch."""
    torch.distributed.init_process_group("gloo")
    with loader_of_rank(path) as loader:
        state = {"model": model(), "loader": AllRanks(loader)}
        if resumes:
            dcp.load(state, checkpoint_id=folder / "saved")
        for step, batch in enumerate(loader, start=1):
            rank.see(numbers(batch))
            if step == at and not resumes:
                dcp.save(state, checkpoint_id=folder / "saved")
    torch.distributed.destroy_process_group()


def test_distributed_checkpoint(points: str, tmp_path: pathlib.Path) -> None:  # noqa: F811
    """Continues on the same number of ranks, on one, and on four."""
    expected = [seen[:6] for seen in undisturbed(points)]
    killed = run_ranks(2, train_dcp, tmp_path, points, tmp_path, 2, False, kill_at=3)
    assert killed[1] == expected[1][:3]
    of_job = in_order(expected)[4:]
    for world_size in (2, 1, 4):
        rest = run_ranks(world_size, train_dcp, tmp_path, points, tmp_path, 2, True)
        assert rest == [of_job[rank::world_size] for rank in range(world_size)]


# --- Errors ---


def states_of(path: str, world_size: int, **options: Any) -> dict[str, Any]:
    loaders = []
    for rank in range(world_size):
        config = energon.WorkerConfig(rank=rank, world_size=world_size, num_workers=0, **options)
        loaders.append(make_loader(path, worker_config=config))
    return {"energon_cpp.ranks": [bytes(loader.save_state_rank()) for loader in loaders]}


def test_states_that_do_not_fit(points: str) -> None:  # noqa: F811
    loader = make_loader(points, 0)
    ranks = AllRanks(loader)
    with pytest.raises(energon.StateMismatchError, match="without logical_shards.* workers are 2,"):
        ranks.load_state_dict(states_of(points, 2))
    with pytest.raises(energon.StateMismatchError, match="with logical_shards=4: .*found it unset"):
        ranks.load_state_dict(states_of(points, 2, logical_shards=4))
    with pytest.raises(energon.StateMismatchError, match="missing"):
        ranks.load_state_dict({"energon_cpp.ranks": states_of(points, 3)["energon_cpp.ranks"][:2]})
    with pytest.raises(energon.StateMismatchError, match="seed_offset: 3, expected 0"):
        ranks.load_state_dict(states_of(points, 1, seed_offset=3))
    with pytest.raises(ValueError, match="a list 'energon_cpp.ranks', which AllRanks saves"):
        ranks.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match=r"load it with energon_cpp.torch.AllRanks\(loader\)"):
        loader.load_state_dict(ranks.state_dict())


def test_a_state_of_one_rank(points: str, tmp_path: pathlib.Path) -> None:  # noqa: F811
    """Frameworks that save one: a warning while saving, not only an error later."""
    accelerate = pytest.importorskip("accelerate")
    combined = pytest.importorskip("lightning.pytorch.utilities.combined_loader")
    ranks = [energon.WorkerConfig(rank=rank, world_size=2, num_workers=0) for rank in (0, 1)]
    first, second = (make_loader(points, worker_config=config) for config in ranks)
    accelerator = accelerate.Accelerator(cpu=True)
    accelerator.register_for_checkpointing(first)
    with pytest.warns(UserWarning, match=r"accelerate saves .*AllRanks\(loader\)"):
        accelerator.save_state(str(tmp_path))
    accelerate.state.AcceleratorState._reset_state(True)
    with pytest.warns(UserWarning, match="lightning saves the state of one rank only"):
        state = combined.CombinedLoader(first)._state_dicts()[0]
    with pytest.raises(energon.StateMismatchError, match="another rank: in a framework, use .*AllR"):
        second.load_state_dict(state)
