"""States of all ranks through torch.distributed, if torch is installed."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")

# Three processes, of which the last two form the data-parallel group.
SCRIPT = """
import datetime, sys
import torch.distributed as distributed
import energon_cpp as energon
from energon_cpp.torch import AllRanks

path, store, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
distributed.init_process_group(
    "gloo", init_method=f"file://{store}", rank=rank, world_size=3,
    timeout=datetime.timedelta(seconds=60))
group = distributed.new_group([1, 2])
if rank > 0:
    config = energon.WorkerConfig.default_worker_config(0, group)
    assert (config.rank, config.world_size, config.global_rank()) == (rank - 1, 2, rank)
    assert config.config()["data_parallel_group"] == 2

    def made():
        return energon.get_savable_loader(energon.get_train_dataset(
            path, worker_config=config, batch_size=2, shuffle_buffer_size=5))

    loader = made()
    for number, batch in enumerate(loader):
        if number == 4:
            break
    states = loader.save_state_global(global_dst_rank=2)
    assert (states is not None) == (rank == 2)
    if rank == 2:
        assert len(states) == 2 and states[1] == loader.save_state_rank() != states[0]
    everywhere = AllRanks(loader).state_dict()["energon_cpp.ranks"]
    assert len(everywhere) == 2 and everywhere[config.rank] == bytes(loader.save_state_rank())
    assert states is None or everywhere == [bytes(state) for state in states]
    single = energon.WorkerConfig(rank=0, world_size=1, num_workers=0)
    try:
        AllRanks(energon.get_savable_loader(energon.get_val_dataset(
            path, worker_config=single, batch_size=2))).state_dict()
    except ValueError as error:
        assert f"rank 0 of 1, but this is rank {rank} of 3 in torch.distributed" in str(error), error
    else:
        raise AssertionError("a loader of another job was accepted")
    rest = [batch.__key__ for _, batch in zip(range(5), loader)]
    again = made()
    again.restore_state_global(states, src_rank=1)
    assert [batch.__key__ for _, batch in zip(range(5), again)] == rest
    try:
        loader.save_state_global(global_dst_rank=0)
    except ValueError as error:
        assert "rank 0 is not one of the ranks [1, 2]" in str(error), error
    else:
        raise AssertionError("a rank outside the group was accepted")
    print("ok", rest)
distributed.barrier()
distributed.destroy_process_group()
"""


@pytest.mark.timeout(180)
def test_global_states_of_a_group(texts: str, tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-c", SCRIPT, texts, str(tmp_path / "store")]
    started = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)
        for rank in range(3)
    ]  # fmt: skip
    try:
        ended = [process.communicate(timeout=150) for process in started]
    finally:
        for process in started:
            process.kill()
    for process, (out, err) in zip(started, ended):
        assert process.returncode == 0, out + err
    assert [out[:2] for out, _ in ended] == ["", "ok", "ok"]
    assert ended[1][0] != ended[2][0]  # ranks read different samples
