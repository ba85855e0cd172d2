"""AutoSaver: a script that is started again continues from its folder."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
from typing import Any

import pytest
from conftest import config, loader_of, run_script, take

import energon_cpp as energon

PROGRAM = os.environ.get("ENERGON_PROGRAM", "")


def keys(batches: list[Any]) -> list[list[str]]:
    return [batch.__key__ for batch in batches]


def loader_of_rank(path: str, rank: int = 0, world_size: int = 1, **more: Any) -> Any:
    options = {name: more.pop(name) for name in ("repeat",) if name in more}
    dataset = energon.get_train_dataset(
        path,
        worker_config=config(rank=rank, world_size=world_size, **more),
        batch_size=4,
        shuffle_buffer_size=10,
        **options,
    )
    return energon.get_savable_loader(dataset)


SCRIPT = """
    import os, signal, sys
    import energon_cpp as energon
    from test_auto_saver import loader_of_rank

    def main(path, folder, num_workers, kill_at):
        with loader_of_rank(path, num_workers=num_workers) as loader:
            saver = energon.AutoSaver(loader, folder, every_batches=3)
            print("from", saver.step)
            for batch in saver:
                print(*batch.__key__, flush=True)
                if saver.step == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if saver.step == 14:
                    break
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
"""


def test_a_killed_script(texts: str, tmp_path: pathlib.Path, num_workers: int) -> None:
    with loader_of_rank(texts, num_workers=num_workers) as loader:
        whole = keys(take(loader, 14))
    seen = []
    for kill_at, start in ((8, 0), (0, 6)):
        ran = run_script(SCRIPT, texts, str(tmp_path), str(num_workers), str(kill_at))
        assert ran.code == (-signal.SIGKILL if kill_at else 0), ran.err
        first, *lines = ran.out.splitlines()
        assert first == f"from {start}"
        seen = seen[:start] + [line.split() for line in lines]
    assert seen == whole


def test_ranks_share_the_folder(texts: str, tmp_path: pathlib.Path) -> None:
    layout: dict[str, Any] = {"logical_shards": 4}
    whole = [keys(take(loader_of_rank(texts, rank, 2, **layout), 12)) for rank in range(2)]

    def savers(world_size: int = 2, **options: Any) -> list[energon.AutoSaver]:
        options = {"every_batches": 2, "keep": 2} | options
        loaders = [loader_of_rank(texts, rank, world_size, **layout) for rank in range(world_size)]
        return [energon.AutoSaver(loader, tmp_path, **options) for loader in loaders]

    assert [keys(take(saver, 7)) for saver in savers()] == [one[:7] for one in whole]
    assert sorted(path.name for path in tmp_path.glob("step_*")) == ["step_4", "step_6"]
    first, second = savers()
    assert first.step == second.step == 6
    assert first.restored_from == second.restored_from == str(tmp_path / "step_6")
    assert keys(take(first, 3)) == whole[0][6:9]  # rank 1 is killed before step 8
    with pytest.warns(RuntimeWarning, match="not continued from .*step_8: the file of rank 1 of 2"):
        first, second = savers()
    assert first.step == second.step == 6
    first, second = savers(at_step=4)  # the newest model
    assert keys(take(first, 5)) == whole[0][4:9] and keys(take(second, 5)) == whole[1][4:9]
    four = savers(4)  # another number of ranks
    assert [saver.step for saver in four] == [8] * 4
    of_job = [batch for step in zip(*whole) for batch in step][16:24]
    assert [keys(take(saver, 2)) for saver in four] == [of_job[rank::4] for rank in range(4)]
    assert [saver.step for saver in savers(start_over=True)] == [0, 0]


def test_epochs(texts: str, tmp_path: pathlib.Path) -> None:
    def saver() -> energon.AutoSaver:
        loader = loader_of_rank(texts, repeat=False, num_workers=1)
        loader.persistent_workers = False
        return energon.AutoSaver(loader, tmp_path, every_batches=5)

    loader = loader_of_rank(texts, repeat=False, num_workers=1)
    whole = [keys(list(loader)) for _ in range(3)]
    first = saver()
    assert len(first) == 15 and [keys(list(first)) for _ in range(2)] == whole[:2]
    assert first.loader.worker_pids == []
    assert len(take(first, 2)) == 2
    first.save_now()
    again = saver()
    assert again.step == 32 and keys(list(again)) == whole[2][2:]


@pytest.mark.skipif(not os.path.exists(PROGRAM), reason="no program energon")
def test_the_folder_of_the_program(texts: str, tmp_path: pathlib.Path) -> None:
    def run(limit: int) -> list[list[str]]:
        options = ["--batch-size", "4", "--shuffle-buffer-size", "10", "--decode", "torchrgb"]
        options += ["--auto-save", str(tmp_path), "--every", "4", "--limit", str(limit)]
        ran = subprocess.run([PROGRAM, "run", texts, *options], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line)["keys"] for line in ran.stdout.splitlines()]

    whole = keys(take(loader_of_rank(texts), 14))
    assert run(6) == whole[:6]
    saver = energon.AutoSaver(loader_of_rank(texts), tmp_path, every_batches=4)
    assert saver.step == 4 and keys(take(saver, 5)) == whole[4:9]
    assert run(6) == whole[8:14]


def test_a_failed_save_loses_no_batch(texts: str, tmp_path: pathlib.Path) -> None:
    whole = keys(take(loader_of_rank(texts), 4))
    saver = energon.AutoSaver(loader_of_rank(texts), tmp_path, every_batches=2)
    seen = keys(take(saver, 1))
    (tmp_path / "step_2").write_text("in the way")
    with pytest.raises(energon.StorageError, match="step_2"):
        next(iter(saver))
    (tmp_path / "step_2").unlink()
    assert seen + keys(take(saver, 3)) == whole
    assert sorted(path.name for path in tmp_path.glob("step_*")) == ["step_2", "step_4"]


def test_checkpoints_that_do_not_count(texts: str, tmp_path: pathlib.Path) -> None:
    """Ranks that save at other steps."""
    loaders = [loader_of_rank(texts, rank, 2) for rank in range(2)]
    first, second = (energon.AutoSaver(loader, tmp_path, every_batches=2) for loader in loaders)
    take(first, 2)
    take(second.loader, 1)  # not counted
    with pytest.warns(RuntimeWarning, match=r"no run can continue from .*step_2: .*\n  different"):
        take(second, 2)
    with pytest.raises(energon.NotFoundError, match="start_over"):
        energon.AutoSaver(loader_of_rank(texts, 0, 2), tmp_path)


def test_errors(texts: str, tmp_path: pathlib.Path) -> None:
    loader = loader_of(texts)
    with pytest.raises(TypeError, match="did you mean 'every_batches'"):
        energon.AutoSaver(loader, tmp_path, every_batch=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="option 'keep' cannot be 'all'"):
        energon.AutoSaver(loader, tmp_path, keep="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="every_batches is 0"):
        energon.AutoSaver(loader, tmp_path, every_batches=0)
    energon.AutoSaver(loader_of_rank(texts, 0, 2), tmp_path)
    with pytest.raises(energon.StateMismatchError, match="config.world_size: 1, expected 2"):
        energon.AutoSaver(loader_of(texts), tmp_path)
