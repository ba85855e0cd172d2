"""Tests with torch, if it is installed."""

from __future__ import annotations

import dataclasses
import io
import random
from typing import Any

import pytest
from conftest import loader_of, take

import energon_cpp as energon

torch = pytest.importorskip("torch")


class Returns(energon.TaskEncoder):
    def __init__(self, value: Any) -> None:
        self.value = value

    def batch(self, samples: list[Any]) -> Any:
        return {"tensors": self.value}


def tensors() -> list[Any]:
    base = torch.arange(24).reshape(2, 3, 4)
    kinds = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16]
    kinds += [torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.complex64]
    made = [base.to(kind) for kind in kinds]
    made += [base.permute(2, 0, 1), base[:, ::2], base[:0], torch.tensor(3.5)]
    made += [torch.ones(3).expand(4, 3), torch.ones(2, requires_grad=True) * 2]
    made += [torch.arange(4).to(torch.complex64).conj().imag]
    made += [torch.eye(3).to_sparse()]
    return made


def test_states_are_read_with_weights_only(texts: str) -> None:
    with loader_of(texts) as loader:
        take(loader, 2)
        state = loader.save_state_rank()
    file = io.BytesIO()
    torch.save({"dataloader_state_dict": state}, file)
    file.seek(0)
    assert torch.load(file, weights_only=True) == {"dataloader_state_dict": state}


def test_tensors_arrive_unchanged(texts: str, num_workers: int) -> None:
    with loader_of(texts, Returns(tensors()), num_workers=num_workers) as loader:
        arrived = take(loader, 1)[0]["tensors"]
    for tensor, got in zip(tensors(), arrived, strict=True):
        assert type(got) is torch.Tensor
        assert got.dtype == tensor.dtype and got.layout == tensor.layout
        assert not got.requires_grad
        assert torch.equal(got.to_dense(), tensor.detach().to_dense())


def rare_tensors() -> list[Any]:
    names = ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "complex32"]
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    made = [base.to(getattr(torch, name)) for name in names if hasattr(torch, name)]
    made += [tensor.t() for tensor in made[:1]]
    return made + [torch.empty((0, 3), dtype=torch.uint16), torch.tensor(7).to(torch.uint16)]


@dataclasses.dataclass
class Holds:
    tensor: Any

    def __reduce__(self) -> Any:
        return Holds, (self.tensor,)


def test_tensors_of_rare_types_arrive(texts: str, num_workers: int) -> None:
    def check(arrived: list[Any]) -> None:
        for tensor, got in zip(rare_tensors(), arrived, strict=True):
            assert type(got) is torch.Tensor and got.dtype == tensor.dtype
            assert got.shape == tensor.shape
            same = got.contiguous().view(torch.uint8) if got.dim() else got
            assert torch.equal(same, tensor.contiguous().view(torch.uint8) if got.dim() else tensor)

    with loader_of(texts, Returns(rare_tensors()), num_workers=num_workers) as loader:
        check(take(loader, 1)[0]["tensors"])
    held = [Holds(tensor) for tensor in rare_tensors()]
    with loader_of(texts, Returns(held), num_workers=num_workers) as loader:
        check([value.tensor for value in take(loader, 1)[0]["tensors"]])

    class Encodes(energon.TaskEncoder):
        def encode_sample(self, sample: Any) -> Any:
            return {"ids": torch.tensor([sample["json"]["number"]], dtype=torch.uint16)}

    with loader_of(texts, Encodes(), num_workers=num_workers) as loader:
        batch = take(loader, 1)[0]
    assert [ids.tolist() for ids in batch["ids"]] == [[0], [1], [2], [3]]
    assert all(ids.dtype == torch.uint16 for ids in batch["ids"])


def test_other_tensors_arrive(texts: str, num_workers: int) -> None:
    values = torch.ones(2).to(torch.uint16)
    made = [
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        torch.ones(2, device="meta"),
        torch.sparse_coo_tensor([[0, 2]], values, (4,)),
        torch.nn.Parameter(torch.ones(2)),
    ]
    with loader_of(texts, Returns(made), num_workers=num_workers) as loader:
        arrived = take(loader, 1)[0]["tensors"]
    for tensor, got in zip(made, arrived, strict=True):
        assert type(got) is type(tensor) and got.dtype == tensor.dtype
        assert got.layout == tensor.layout and got.device == tensor.device
    assert torch.equal(arrived[0].int_repr(), made[0].int_repr())
    assert torch.equal(arrived[2]._values(), values)
    assert torch.equal(arrived[3], made[3])


def test_native_tensors_are_torch_tensors(arrays: str, num_workers: int) -> None:
    with loader_of(arrays, num_workers=num_workers) as loader:
        batches = list(loader)
    numbers = torch.cat([batch.npy for batch in batches])
    assert sorted(numbers.tolist()) == list(range(60))
    moved = batches[0].to(torch.float32)
    assert moved.npy.dtype == torch.float32 and moved.txt == batches[0].txt
    batches[0].npy += 1  # writable
    assert type(batches[0]) is type(moved)


def test_states_in_checkpoints_of_torch(texts: str) -> None:
    with loader_of(texts) as loader:
        take(loader, 3)
        state = loader.state_dict()
        rest = [batch.__key__ for batch in loader]
        file = io.BytesIO()
        torch.save({"loader": state}, file)
        file.seek(0)
        loader.load_state_dict(torch.load(file, weights_only=True)["loader"])
        assert [batch.__key__ for batch in loader] == rest


def test_random_numbers_of_torch(texts: str) -> None:
    class Draws(energon.TaskEncoder):
        def encode_sample(self, sample: Any) -> Any:
            return {"number": sample["json"]["number"], "drawn": torch.rand(2)}

    def run(num_workers: int) -> dict[int, list[float]]:
        with loader_of(texts, Draws(), num_workers=num_workers, training=True, repeat=False) as loader:
            batches = list(loader)
        return {
            int(number): drawn.tolist()
            for batch in batches
            for number, drawn in zip(batch["number"], batch["drawn"])
        }

    drawn = run(2)
    assert drawn == run(2)
    assert len({tuple(pair) for pair in drawn.values()}) == 60
    torch.manual_seed(1)
    random.seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    run(0)
    assert torch.equal(torch.rand(3), expected)


def test_ragged_fields_are_jagged_tensors() -> None:
    rows = [{"ids": torch.arange(n), "name": str(n), "number": n} for n in (2, 0, 3)]
    batch = energon.RaggedBatch()(rows)
    assert type(batch) is dict and batch["ids"]["offsets"].tolist() == [0, 2, 2, 5]
    assert batch["name"] == ["2", "0", "3"] and batch["number"].tolist() == [2, 0, 3]
    nested = torch.nested.nested_tensor_from_jagged(**batch["ids"])
    assert [one.tolist() for one in nested.unbind()] == [[0, 1], [], [0, 1, 2]]
