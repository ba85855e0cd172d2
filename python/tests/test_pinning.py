"""pin_memory=True: which values are copied to page-locked memory, when, and which are not."""

from __future__ import annotations

import collections
import dataclasses
import os
import warnings
from typing import Any, NamedTuple

import pytest
from conftest import config, loader_of

import energon_cpp as energon
from energon_cpp import _pinning
from energon_cpp._pinning import pinned

torch = pytest.importorskip("torch")


class FakeCuda:
    """Replaces CUDA on a machine without it: copies into plain memory, and records the copies."""

    def __init__(self) -> None:
        self.copies: list[tuple[int, int]] = []  # data pointers of the tensor and of its copy
        self.asked_by: list[int] = []  # process ids

    def is_available(self) -> bool:
        self.asked_by.append(os.getpid())
        return True

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def pinned(self, tensor: Any) -> Any:
        if any(tensor.data_ptr() == copy for _, copy in self.copies):
            return tensor  # as in torch, it is pinned
        copy = tensor.clone()
        self.copies.append((tensor.data_ptr(), copy.data_ptr()))
        return copy


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setattr(_pinning, "Cuda", lambda: fake)
    return fake


class Own:
    """Has its own pin_memory()."""

    def pin_memory(self) -> str:
        return "own"


class Pair(NamedTuple):
    one: Any
    two: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    tensor: Any


@dataclasses.dataclass(kw_only=True)
class Mine(energon.Batch):
    image: Any


@dataclasses.dataclass(kw_only=True)
class PinsItself(energon.Batch):
    image: Any

    def pin_memory(self) -> Any:
        return "of its class"


@dataclasses.dataclass
class OwnDataclass(Own):
    tensor: Any


def test_pinned_values(cuda: FakeCuda) -> None:
    tensors = [torch.full((3,), i) for i in range(8)]
    a, b, c, d, e, f, g, h = tensors
    user_dict = collections.UserDict({"a": g, "text": "x"})  # like batches of tokenizers
    value = {
        "list": [a, 1, None, b"x", "tensor"],
        "tuple": (b, ("deep", c)),
        "named": Pair(d, None),
        "frozen": Frozen(e),
        "batch": Mine(image=f, __key__=["k"]),
        "mapping": user_dict,
        "alone": h,
    }
    made = pinned(value, cuda)
    assert made is value and made["mapping"] is user_dict and type(made["named"]) is Pair
    assert made["list"][1:] == [1, None, b"x", "tensor"] and made["batch"].__key__ == ["k"]
    pins = [made["list"][0], made["tuple"][0], made["tuple"][1][1], made["named"].one]
    pins += [made["frozen"].tensor, made["batch"].image, user_dict["a"], made["alone"]]
    assert [pin.tolist() for pin in pins] == [[i] * 3 for i in range(8)]
    assert [pin.data_ptr() for pin in pins] == [copy for _, copy in cuda.copies]
    assert [tensor.data_ptr() for tensor in tensors] == [source for source, _ in cuda.copies]
    again = pinned(made, cuda)
    assert len(cuda.copies) == 8 and again["named"].one is made["named"].one


def test_objects_with_their_own_pin_memory(cuda: FakeCuda) -> None:
    made = pinned([Own(), OwnDataclass(torch.zeros(1)), PinsItself(image=torch.zeros(1))], cuda)
    assert made == ["own", "own", "of its class"] and cuda.copies == []
    assert pinned(torch.Tensor, cuda) is torch.Tensor, "a class is not a tensor"


def test_tensors_that_cannot_be_pinned() -> None:
    cuda = _pinning.Cuda()
    odd = [torch.eye(3).to_sparse(), torch.empty(2, device="meta")]
    for tensor in odd:
        assert cuda.pinned(tensor) is tensor
    assert not cuda.is_tensor([]) and cuda.is_tensor(odd[0])


class Big(energon.TaskEncoder[Any, Any, Any, Any]):
    """Tensors of 1 MiB, filled with the number of the sample."""

    def encode_sample(self, sample: Any) -> Any:
        return {"x": torch.full((1 << 18,), sample["json"]["number"], dtype=torch.int32)}


def test_the_trainer_checks_for_cuda_once_after_the_fork(
    texts: str, num_workers: int, cuda: FakeCuda
) -> None:
    with loader_of(texts, Big(), num_workers=num_workers, loader={"pin_memory": True}) as loader:
        assert loader.pin_memory is True and cuda.asked_by == []
        got = [batch["x"] for _ in range(2) for batch in loader]
        assert cuda.asked_by == [os.getpid()]
        assert len(cuda.copies) == len(got) == 2 * len(loader) >= 30
        assert {x.data_ptr() for x in got} == {copy for _, copy in cuda.copies}
        numbers = sorted(int(n) for x in got for n in x[:, -1])
        assert numbers == sorted(2 * list(range(60)))


def test_a_loader_without_a_position_pins_too(texts: str, cuda: FakeCuda) -> None:
    dataset = energon.get_val_dataset(
        texts, worker_config=config(1), batch_size=4, task_encoder=Big()
    )
    loader = energon.get_loader(dataset, pin_memory=True)
    assert cuda.asked_by == []
    assert [len(list(loader)) for _ in range(2)] == [15, 15]
    assert len(cuda.copies) == 30 and cuda.asked_by == [os.getpid()]


def test_kept_batches_hold_nothing_of_the_workers(texts: str, cuda: FakeCuda) -> None:
    limit = 16 << 20
    options: dict[str, Any] = {"arena_limit_bytes": limit, "timeout": 20}
    with loader_of(texts, Big(), num_workers=1, loader=options) as loader:
        with pytest.raises(energon.EnergonError, match="arena_limit_bytes"):
            kept = list(loader)
    with loader_of(texts, Big(), num_workers=1, loader=options | {"pin_memory": True}) as loader:
        kept = list(loader)
        loader.close()
        total = sum(batch["x"].nbytes for batch in kept)
        assert total > 3 * limit and len(kept) == 15
        assert sorted(int(x[0]) for batch in kept for x in batch["x"]) == list(range(60))


def test_without_cuda_there_is_one_warning(
    texts: str, num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with loader_of(texts, num_workers=num_workers, loader={"pin_memory": True}) as loader:
        with pytest.warns(UserWarning, match="finds no CUDA") as seen:
            assert len(list(loader)) == len(list(loader)) == len(loader)
        assert len(seen) == 1 and seen[0].filename == __file__


def needs_cuda() -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")


def test_on_a_device_all_tensors_are_pinned(texts: str, num_workers: int) -> None:
    needs_cuda()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = loader_of(texts, Big(), num_workers=num_workers, loader={"pin_memory": True})
        with loader:
            assert all(batch["x"].is_pinned() for batch in loader)


def test_bytes_are_intact_if_batches_are_dropped_before_their_copy(texts: str) -> None:
    """The device is kept busy, so that asynchronous copies on two streams start long after their
    batch was dropped. The arena is small, so that workers overwrite its memory at once."""
    needs_cuda()
    options: dict[str, Any] = {"pin_memory": True, "arena_limit_bytes": 32 << 20}
    side = torch.cuda.Stream()
    with loader_of(texts, Big(), num_workers=2, loader=options) as loader:
        for epoch in range(10):
            copied = []
            for i, batch in enumerate(loader):
                stream = side if i % 2 else torch.cuda.current_stream()
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(20_000_000)  # cycles: about 10 ms
                    copied.append(batch["x"].to("cuda", non_blocking=True))
                del batch
            torch.cuda.synchronize()
            numbers = []
            for x in copied:
                assert bool((x == x[:, :1]).all()), f"epoch {epoch}: a batch was written over"
                numbers += x[:, 0].tolist()
            assert sorted(numbers) == list(range(60))
