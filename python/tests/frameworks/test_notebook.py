"""A notebook's kernel: an interrupt ends a wait, and the next cell continues without loss."""

from __future__ import annotations

import pathlib
import time
from typing import Any, Iterator

import pytest
from framework_data import points  # noqa: F401

jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")
pytestmark = pytest.mark.timeout(600)  # importing them takes long

BEGIN = """
import sys, time
sys.path.insert(0, {here!r})
import energon_cpp as energon
from framework_data import numbers

class Slow(energon.DefaultTaskEncoder):  # of the notebook
    def encode_sample(self, sample):
        time.sleep(0.05)
        return {{"number": sample["json"]["number"]}}

def make():
    config = energon.WorkerConfig(rank=0, world_size=1, num_workers={num_workers})
    options = {{"worker_config": config, "batch_size": 8, "task_encoder": Slow()}}
    dataset = energon.get_val_dataset({path!r}, **options)
    return energon.get_savable_loader(dataset)
got = []
loader = make()
"""
LOOP = "for batch in loader: got.append(numbers(batch))"


class Notebook:
    def __init__(self, client: Any, manager: Any) -> None:
        self.client = client
        self.manager = manager

    def run(self, code: str, interrupt_after: float | None = None) -> tuple[str, str]:
        """The status or the name of the exception, and the printed text."""
        request = self.client.execute(code)
        if interrupt_after is not None:
            time.sleep(interrupt_after)
            self.manager.interrupt_kernel()
        printed = ""
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                printed += content["text"]
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
        while True:
            message = self.client.get_shell_msg(timeout=60)
            if message["parent_header"].get("msg_id") == request:
                content = message["content"]
                return content.get("ename", content["status"]), printed


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    manager = jupyter_client.KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield Notebook(client, manager)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_interrupts(notebook: Notebook, points: str, num_workers: int) -> None:  # noqa: F811
    here = str(pathlib.Path(__file__).parent)
    begin = BEGIN.format(here=here, path=points, num_workers=num_workers)
    assert notebook.run(begin) == ("ok", "")
    for _ in range(2):
        assert notebook.run(LOOP, interrupt_after=0.7)[0] == "KeyboardInterrupt"
    assert notebook.run("print(0 < len(got) < 12)") == ("ok", "True\n")
    assert notebook.run(LOOP) == ("ok", "")
    assert notebook.run("print(sorted(sum(got, [])) == list(range(96)))") == ("ok", "True\n")
    again = "whole = [numbers(batch) for batch in make()]; print(got == whole)"
    assert notebook.run(again) == ("ok", "True\n")
    assert notebook.run("loader.close()") == ("ok", "")
