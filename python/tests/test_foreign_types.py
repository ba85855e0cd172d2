"""Datasets whose dataset.yaml names classes and functions of the program."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
from typing import Any, Optional

import numpy
import pytest
from conftest import config, loader_of, take, write_tar
from test_cookers import PROGRAM, npy, png, prepare

import energon_cpp as energon
from energon_cpp import _imports
from energon_cpp.epathlib import EPath
from energon_cpp.flavors import (
    BaseWebdatasetFactory,
    CrudeWebdataset,
    DefaultDecoderWebdatasetFactory,
    DefaultGenericWebdatasetFactory,
    StandardWebdatasetFactory,
)

pytestmark = pytest.mark.skipif(not os.path.exists(PROGRAM), reason="no program energon")

HERE = __name__
COUNT = 24


# --- Classes of the program ---


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ChatSample(energon.Sample):
    conversation: str
    imgs: Optional[list[Any]] = None


class Unpickler:
    """The decoder of a program: pickled lists of pictures."""

    def __init__(self, mode: str) -> None:
        self._pictures = energon.SampleDecoder(image_decode=mode)

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        made = dict(sample)
        for name, value in sample.items():
            if name.startswith("__"):
                continue
            assert type(value) is bytes, (name, type(value))
            if name.endswith("jpgs"):
                pictures = [self._pictures.decode("png", data) for data in pickle.loads(value)]
                made[name] = [numpy.array(picture) for picture in pictures]
            elif name.endswith("json"):
                made[name] = value.decode()
        return made


class ChatWebdataset(DefaultDecoderWebdatasetFactory[ChatSample]):
    __sample_type__ = ChatSample

    def __init__(
        self, path: Any, *, auto_decode: bool = True, image_decode_spec: str = "rgb8", **kwargs: Any
    ) -> None:
        kwargs["decoder"] = None
        super().__init__(path, **kwargs)
        if auto_decode:
            self._decoder = Unpickler(image_decode_spec)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class NumberedText(energon.Sample):
    text: str
    number: int
    weight: float = 1.0


@dataclasses.dataclass
class PlainText:
    """No Sample."""

    __key__: str
    text: str


class FailingWebdataset(ChatWebdataset):
    def load_sample(self, sample: dict[str, Any]) -> Any:
        if sample["__key__"] == "0005":
            raise ValueError("no good")
        if sample["__key__"] == "0007":
            raise energon.SkipSample
        return super().load_sample(sample)


class Recipes(CrudeWebdataset):
    """Crude samples of its own, for cookers."""

    def load_sample(self, sample: dict[str, Any]) -> Any:
        crude = super().load_sample(sample)
        assert type(crude) is energon.CrudeSample
        crude["length"] = len(crude["txt"])
        return crude


class NothingWebdataset(DefaultDecoderWebdatasetFactory[ChatSample]):
    __sample_type__ = ChatSample

    def load_sample(self, sample: dict[str, Any]) -> Any:
        return None


class OwnOrder(ChatWebdataset):
    def build(self, worker_rotation_offset: int = 0) -> Any:
        raise AssertionError


# --- Data ---


def number_parts(number: int, base: int) -> dict[str, bytes]:
    pictures = [png(2 + number % 3, 2 + i) for i in range(1 + number % 2)]
    talk = {"conversations": [{"from": "human", "value": f"question {base + number}"}]}
    return {
        "txt": f"text {base + number}".encode(),
        "json": json.dumps({"number": base + number, "words": ["a", "b"]}).encode(),
        "conversation.json": json.dumps(talk).encode(),
        "jpgs": pickle.dumps(pictures),
        "npy": npy(number),
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Two prepared datasets, first and second, of 24 samples in three tars."""
    folder = tmp_path_factory.mktemp("foreign")
    for base, name in ((0, "first"), (100, "second")):
        (folder / name).mkdir()
        for shard in range(3):
            numbers = range(8 * shard, 8 * shard + 8)
            samples = [(f"{number:04}", number_parts(number, base)) for number in numbers]
            write_tar(folder / name / f"shard_{shard}.tar", samples)
        prepare(folder / name)
    return folder


@pytest.fixture
def dataset(data: pathlib.Path) -> Any:
    """Writes the dataset.yaml of a dataset: `dataset("...", name="first")` is its path."""

    def write(text: str, name: str = "first") -> str:
        (data / name / ".nv-meta" / "dataset.yaml").write_text(text)
        return str(data / name)

    return write


def chat(class_name: str = "ChatWebdataset", more: str = "") -> str:
    return (
        f"__module__: {HERE}\n__class__: {class_name}\n"
        f"field_map: {{imgs: jpgs, conversation: conversation.json}}\n{more}"
    )


def crude(part_filter: str) -> str:
    return f"__module__: megatron.energon\n__class__: CrudeWebdataset\npart_filter: {part_filter}\n"


TYPED = f"""
sample_type: {{__module__: {HERE}, __class__: NumberedText}}
field_map: {{text: txt, number: "json[number]"}}
"""


class Encode(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
    """Shows the samples to the loop."""

    def encode_sample(self, sample: Any) -> Any:
        shape = [list(picture.shape) for picture in sample.imgs]
        assert isinstance(sample, ChatSample) and type(sample.conversation) is str
        return {"talk": sample.conversation, "shapes": shape, "labels": sample.__subflavors__}


def opened(path: str, encoder: Any = None, **options: Any) -> energon.SavableDataLoader:
    return loader_of(path, encoder, split_part="train", **options)


# --- The forms ---


@pytest.mark.parametrize("how", ["sample_types", "allow_imports"])
def test_a_class_of_the_program_makes_the_samples(
    dataset: Any, how: str, num_workers: int
) -> None:
    path = dataset(chat(more="subflavors: {kind: chat}\n"))
    given: dict[str, Any] = {"sample_types": {"ChatWebdataset": ChatWebdataset}}
    if how == "allow_imports":
        given = {"allow_imports": [HERE]}
    with opened(path, Encode(), num_workers=num_workers, **given) as loader:
        batches = list(loader)
        again = loader.restore_sample(batches[1].__restore_key__)
        one = loader.restore_sample(batches[1].__restore_key__, index=2)
    talks = [json.loads(talk) for batch in batches for talk in batch["talk"]]
    numbers = [int(talk["conversations"][0]["value"].split()[1]) for talk in talks]
    keys = [key for batch in batches for key in batch.__key__]
    assert sorted(numbers) == list(range(COUNT)) and [int(key) for key in keys] == numbers
    shapes = [shape for batch in batches for shape in batch["shapes"]]
    assert shapes == [[[2 + i, 2 + n % 3, 3] for i in range(1 + n % 2)] for n in numbers]
    assert batches[0]["labels"] == {"kind": ["chat"] * 4}
    assert batches[0].__subflavors__ == [{"kind": "chat"}] * 4
    assert again["talk"] == batches[1]["talk"] and one["talk"] == batches[1]["talk"][2]
    assert batches[0].__sources__[0].shard_name == "shard_0.tar"


def test_samples_stay_objects_of_their_class_without_functions(
    dataset: Any, num_workers: int
) -> None:
    path = dataset(chat())
    allowed: dict[str, Any] = {"allow_imports": HERE, "num_workers": num_workers}
    with opened(path, batch_size=None, **allowed) as loader:
        sample = take(loader, 1)[0]
    assert type(sample) is ChatSample and sample.imgs[0].shape == (2, 2, 3)
    assert sample.__key__ == "0000" and sample.__subflavors__ == {}
    assert json.loads(sample.conversation)["conversations"][0]["value"] == "question 0"
    with opened(path, **allowed) as loader:
        batch = take(loader, 1)[0]
    assert type(batch) is ChatSample and len(batch.imgs) == 4
    assert batch.__key__ == ["0000", "0001", "0002", "0003"]


def test_a_sample_type_of_the_program_with_a_field_map(dataset: Any, num_workers: int) -> None:
    path = dataset(TYPED)
    for given in ({"sample_types": {f"{HERE}.NumberedText": NumberedText}},
                  {"allow_imports": [HERE]}):  # fmt: skip
        with opened(path, num_workers=num_workers, **given) as loader:  # type: ignore[arg-type]
            batch = take(loader, 1)[0]
        assert type(batch) is NumberedText
        assert batch.text == [f"text {i}" for i in range(4)] and batch.number == [0, 1, 2, 3]
        assert list(batch.weight) == [1.0] * 4


def test_a_sample_class_for_the_class_of_a_dataset(dataset: Any) -> None:
    path = dataset("__class__: TextWebset\nfield_map: {text: txt}\n")
    with opened(path, batch_size=None, sample_types={"TextWebset": PlainText}) as loader:
        sample = take(loader, 1)[0]
    assert type(sample) is PlainText and (sample.text, sample.__key__) == ("text 0", "0000")


LOADER = """
CALLS = []

def sample_loader(raw):
    assert "txt" not in raw and "jpgs" not in raw, sorted(raw)
    return {"__key__": "L" + raw["__key__"], "text": "<" + str(raw["json"]["number"]) + ">",
            "number": raw["json"]["number"]}

def part_filter(part):
    CALLS.append(part)
    return part == "json"
"""


def test_a_sample_loader_in_the_folder_of_the_data(dataset: Any, num_workers: int) -> None:
    path = dataset(
        "sample_type: {__module__: megatron.energon, __class__: TextSample}\n"
        "sample_loader: loader.py:sample_loader\npart_filter: loader.py\n"
    )
    (pathlib.Path(path) / ".nv-meta" / "loader.py").write_text(LOADER.replace(
        ',\n            "number": raw["json"]["number"]', ""))  # fmt: skip
    with opened(path, num_workers=num_workers, allow_imports=[pathlib.Path(path)]) as loader:
        batch = take(loader, 1)[0]
    assert type(batch) is energon.TextSample and batch.text == ["<0>", "<1>", "<2>", "<3>"]
    assert batch.__key__ == ["L0000", "L0001", "L0002", "L0003"]


def test_functions_instead_of_files(dataset: Any) -> None:
    path = dataset(TYPED.partition("field_map")[0] + "sample_loader: a.py:f\npart_filter: [txt]\n")
    seen: list[list[str]] = []

    def load(raw: dict[str, Any]) -> dict[str, Any]:
        seen.append(sorted(name for name in raw if not name.startswith("__")))
        return {"text": raw["txt"].upper(), "number": int(raw["__key__"])}

    given = {"a.py:f": load, "NumberedText": NumberedText}
    with opened(path, sample_types=given) as loader:
        assert take(loader, 1)[0].text == ["TEXT 0", "TEXT 1", "TEXT 2", "TEXT 3"]
    assert seen[0] == ["txt"]


def test_a_part_filter_of_crude_samples(dataset: Any) -> None:
    path = dataset(
        "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
        "part_filter: loader.py:part_filter\n"
    )
    (pathlib.Path(path) / ".nv-meta" / "loader.py").write_text(LOADER)
    with opened(path, batch_size=None, allow_imports=[path]) as loader:
        sample = take(loader, 1)[0]
    assert type(sample) is energon.CrudeSample and sample["json"]["number"] == 0
    assert [name for name in sample if not name.startswith("__")] == ["json"]
    with pytest.warns(UserWarning, match="not applied: part_filter"):
        loader = opened(path, batch_size=None)
    with loader:
        assert "txt" in take(loader, 1)[0]


def test_crude_samples_of_a_class_go_to_cookers(dataset: Any, num_workers: int) -> None:
    path = dataset(f"__module__: {HERE}\n__class__: Recipes\npart_filter: [txt]\n")

    class Cooks(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = [
            energon.Cooker(
                lambda sample: energon.TextSample(
                    **energon.basic_sample_keys(sample), text=f"{sample['txt']}: {sample['length']}"
                )
            )
        ]

    with opened(path, Cooks(), num_workers=num_workers, allow_imports=[HERE]) as loader:
        assert take(loader, 1)[0].text[:2] == ["text 0: 6", "text 1: 6"]


# --- Metadatasets ---

BLEND = """
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    blend:
    - {weight: 1, path: first, subflavors: {from: first}, aux: {files: filesystem://.}}
    - {weight: 1, path: second, subflavors: {from: second}}
    - {weight: 1, path: second, dataset_config: text.yaml}
    - {weight: 1, path: second, dataset_config: crude.yaml, aux: {files: filesystem://.}}
  val:
    blend:
    - {path: first, split_part: train}
    - {path: second, split_part: train}
"""


@pytest.fixture
def blend(data: pathlib.Path, dataset: Any) -> str:
    dataset(chat())
    dataset(TYPED, "second")
    meta = data / "second" / ".nv-meta"
    (meta / "text.yaml").write_text(
        "sample_type: {__module__: megatron.energon, __class__: TextSample}\n"
        "field_map: {text: txt}\n"
    )
    (meta / "crude.yaml").write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")
    (data / "blend.yaml").write_text(BLEND)
    return str(data / "blend.yaml")


class Names(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
    def cook(sample: Any, files: Any) -> Any:  # type: ignore[misc] # noqa: N805
        assert "splits" in bytes(files.get("blend.yaml", sample)).decode()
        return {**energon.basic_sample_keys(sample), "cooked": sample["txt"]}

    cookers = [energon.Cooker(cook)]

    def encode_sample(self, sample: Any) -> Any:
        kind = type(sample).__name__
        labels = sample["__subflavors__"] if kind == "dict" else sample.__subflavors__
        text = sample["cooked"] if kind == "dict" else getattr(sample, "text", "chat")
        return {"kind": kind, "text": text, "label": (labels or {}).get("from")}


def test_several_classes_in_a_blend(blend: str, num_workers: int) -> None:
    options: dict[str, Any] = {"training": True, "shuffle_buffer_size": 5, "batch_size": 4}
    options |= {"num_workers": num_workers, "allow_imports": [HERE]}
    with opened(blend, Names(), **options) as loader:
        batches = take(loader, 40)
    rows = {
        (kind, text.split()[0], label)
        for batch in batches
        for kind, text, label in zip(batch["kind"], batch["text"], batch["label"])
    }
    assert rows == {
        ("ChatSample", "chat", "first"),
        ("NumberedText", "text", "second"),
        ("TextSample", "text", None),
        ("dict", "text", None),
    }


def test_get_val_datasets(blend: str) -> None:
    made = energon.get_val_datasets(
        blend, worker_config=config(), batch_size=4, allow_imports=[HERE]
    )
    kinds = []
    for dataset, _ in made:
        with energon.get_savable_loader(dataset) as loader:
            kinds.append(type(take(loader, 1)[0]))
    assert kinds == [ChatSample, NumberedText]


def test_states_continue_and_know_the_class(
    blend: str, data: pathlib.Path, dataset: Any, num_workers: int
) -> None:
    options: dict[str, Any] = {"training": True, "shuffle_buffer_size": 5, "batch_size": 4}
    options |= {"num_workers": num_workers, "allow_imports": [HERE]}

    def shown(batches: list[Any]) -> list[Any]:
        return [(batch.__key__, batch["kind"], batch["text"]) for batch in batches]

    with opened(blend, Names(), **options) as loader:
        whole = shown(take(loader, 12))
    with opened(blend, Names(), **options) as loader:
        before = shown(take(loader, 5))
        state = loader.save_state_rank()
    with opened(blend, Names(), **options) as loader:
        loader.restore_state_rank(state)
        assert before + shown(take(loader, 7)) == whole
    made = energon.get_train_dataset(
        blend, worker_config=config(num_workers), batch_size=4, shuffle_buffer_size=5,
        task_encoder=Names(), allow_imports=[HERE])  # fmt: skip
    found = energon.which_keys(made, state, 3)
    assert list(found[0].keys) == whole[3][0]
    # With another class.
    options["sample_types"] = {"ChatWebdataset": Renamed}
    with opened(blend, Names(), **options) as loader:
        with pytest.raises(energon.StateMismatchError, match="loaded_by.*Renamed"):
            loader.restore_state_rank(state)


class Renamed(ChatWebdataset):
    pass


# --- Joins ---

JOIN = """
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    join:
    {columns}
    joiner: {{__module__: {module}, {joiner}}}
"""


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Joined(energon.Sample):
    text: str
    number: int
    weight: float
    imgs: Any
    conversation: str


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Pair(energon.Sample):
    chat: Any
    text: str

    @classmethod
    def from_joined(cls, talk: Any, words: Any) -> Any:
        assert isinstance(talk, ChatSample) and isinstance(words, NumberedText)
        assert talk.__sources__[0].dataset_path.endswith("first")
        assert words.__sources__[0].dataset_path.endswith("second")
        assert words.__subflavors__ == {"column": 2}
        return cls.derive_from(talk, chat=talk.conversation, text=words.text)


def join_by_function(talk: Any, words: Any) -> Any:
    return Pair.derive_from(talk, chat=talk.conversation, text=f"joined {words.text}")


def joined_path(data: pathlib.Path, columns: str, joiner: str) -> str:
    path = data / "join.yaml"
    path.write_text(JOIN.format(columns=columns, module=HERE, joiner=joiner))
    subprocess.run([PROGRAM, "prepare", str(path)], check=True, capture_output=True, timeout=60)
    return str(path)


LISTED = "[{path: first}, {path: second, subflavors: {column: 2}}]"
NAMED = "{talk: {path: first}, words: {path: second, subflavors: {column: 2}}}"


def test_joins_with_classes_of_the_program(
    data: pathlib.Path, dataset: Any, num_workers: int
) -> None:
    dataset(chat())
    dataset(TYPED, "second")
    options: dict[str, Any] = {"num_workers": num_workers, "allow_imports": [HERE]}
    with opened(joined_path(data, LISTED, "__class__: Joined"), **options) as loader:
        batch = take(loader, 1)[0]
        assert type(batch) is Joined and batch.number == [100, 101, 102, 103]
        assert "question 0" in batch.conversation[0] and len(batch.__sources__) == 8
        assert loader.restore_sample(batch.__restore_key__).text == batch.text
    with opened(joined_path(data, NAMED, "__class__: Pair"), **options) as loader:
        batch = take(loader, 1)[0]
        assert type(batch) is Pair and batch.text[0] == "text 100"
    with opened(joined_path(data, NAMED, "__function__: join_by_function"), **options) as loader:
        assert take(loader, 1)[0].text[0] == "joined text 100"
    path = joined_path(data, LISTED, "__class__: Pair")
    given = {"Pair": Pair, "ChatWebdataset": ChatWebdataset, "NumberedText": NumberedText}
    with opened(path, sample_types=given) as loader:
        assert type(take(loader, 1)[0]) is Pair


def test_a_joiner_that_is_not_allowed(data: pathlib.Path, dataset: Any) -> None:
    for name in ("first", "second"):
        dataset("sample_type: {__class__: TextSample}\nfield_map: {text: txt}\n", name)
    with opened(joined_path(data, LISTED, "__class__: Joined")) as loader:
        assert take(loader, 1)[0].text[0] == "text 100"  # merged natively
    path = joined_path(data, LISTED, "__function__: join_by_function")
    with pytest.raises(energon.InvalidArgumentError) as refused:
        opened(path)
    assert str(refused.value) == (
        f"{path} names the function join_by_function of the module '{HERE}', which must not be "
        f"imported without your permission: pass allow_imports=['{HERE}'], or pass the function "
        "itself as sample_types={'join_by_function': join_by_function}"
    )


# --- What is refused ---


def refusal(path: str, **options: Any) -> str:
    with pytest.raises(energon.InvalidArgumentError) as refused:
        opened(path, **options)
    return str(refused.value)


def test_classes_that_are_not_allowed_are_not_imported(dataset: Any) -> None:
    path = dataset("__module__: nowhere.at_all\n__class__: Chat\nfield_map: {a: b}\n")
    yaml = f"{path}/.nv-meta/dataset.yaml"
    assert refusal(path) == (
        f"{yaml} names the class Chat of the module 'nowhere.at_all', which must not be imported "
        "without your permission: pass allow_imports=['nowhere.at_all'], or pass the class itself "
        "as sample_types={'Chat': Chat}"
    )
    assert refusal(path, allow_imports=["nowhere.at_al", "where"]) == refusal(path)
    assert "cannot be imported: No module named 'nowhere'" in refusal(path, allow_imports="*")
    path = dataset("__class__: Chat\nfield_map: {a: b}\n")
    assert refusal(path) == (
        f"{yaml} names the class Chat without a module: pass the class itself as "
        "sample_types={'Chat': Chat}"
    )
    assert refusal(dataset(TYPED)).startswith(f"{yaml} names the class NumberedText of the module")
    path = dataset(f"__module__: {HERE}\n__class__: Nothing\n")
    assert refusal(path, allow_imports=[HERE]) == (
        f"{yaml}: the module '{HERE}' has no class 'Nothing'"
    )


def test_metadata_cannot_call_functions_of_the_package(
    dataset: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_imports, "_everywhere", [])
    own = "{__module__: megatron.energon, __class__: allow_imports, allowed: '*'}"
    for text in (f"decoder: {own}\n", f"sample_type: {own}\n"):
        path = dataset(chat(more=text))
        given = {"sample_types": {"ChatWebdataset": ChatWebdataset}}
        assert "allow_imports, which energon_cpp does not have" in refusal(path, **given)
    assert _imports._everywhere == []


@pytest.fixture
def module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module that can be imported: `module("name", "code")` is its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, code: str) -> str:
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
        for known in [one for one in sys.modules if one.split(".")[0] == name.split(".")[0]]:
            monkeypatch.delitem(sys.modules, known)
        importlib.invalidate_caches()
        return name

    return write


def test_metadata_cannot_call_what_an_allowed_module_imports(
    dataset: Any, module: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_imports, "_everywhere", [])
    name = module(
        "imports_os",
        "import functools\nimport os\nimport subprocess\nfrom subprocess import Popen\n"
        "from os import system\nfrom energon_cpp import allow_imports\n"
        "part = functools.partial(system)\nclass Own:\n    run = system\n    os = os\n",
    )
    mark = tmp_path / "was run"
    names = ["os.system", "system", "subprocess.Popen", "Popen", "Own.run", "Own.os.system", "part"]
    names += ["__builtins__.eval", "__loader__.load_module", "__class__", "allow_imports"]
    names += ["os", "Own.__init__", "Own.__class__", "Own.__subclasses__", "Own.mro"]
    for kind in ("class", "function"):
        for found in names:
            text = f"{{__module__: {name}, __{kind}__: {found}, command: touch '{mark}'}}"
            for key in ("decoder", "sample_type"):
                yaml = dataset(chat(more=f"{key}: {text}\n"))
                given: dict[str, Any] = {"sample_types": {"ChatWebdataset": ChatWebdataset}}
                text_of_error = refusal(yaml, allow_imports=[name], **given)
                assert text_of_error.startswith(f"{yaml}/.nv-meta/dataset.yaml"), text_of_error
                assert "cannot be made" not in text_of_error, text_of_error
    assert not mark.exists() and _imports._everywhere == []
    yaml = dataset(chat().replace(f"{HERE}", name).replace("ChatWebdataset", "Popen"))
    assert refusal(yaml, allow_imports=[name]) == (
        f"{yaml}/.nv-meta/dataset.yaml names the class Popen of the module '{name}', which imports "
        "it from 'subprocess', whose code must not be called without your permission: pass "
        f"allow_imports=['{name}', 'subprocess'], or pass the class itself as "
        "sample_types={'Popen': Popen}"
    )
    yaml = dataset(chat().replace(f"{HERE}", name).replace("ChatWebdataset", "os.system"))
    assert "but 'os' is a module: write __module__: os" in refusal(yaml, allow_imports="*")


def test_files_cannot_pass_functions_that_they_import(dataset: Any) -> None:
    path = dataset(crude("imports.py:system"))
    file = pathlib.Path(path) / ".nv-meta" / "imports.py"
    file.write_text("from os import system\n")
    assert "which imports it from 'posix', whose code must not" in refusal(
        path, allow_imports=[path]
    )
    file.with_name("other.py").write_text(
        "import functools\ndef keeps(all, part): return all\n"
        "system = functools.partial(keeps, True)\n"
    )
    path = dataset(crude("other.py:system"))
    with opened(path, batch_size=None, allow_imports=[path]) as loader:
        assert "txt" in take(loader, 1)[0]


def test_allowed_packages_may_import_from_themselves(dataset: Any, module: Any) -> None:
    module(
        "reexports.inner",
        f"from {HERE} import ChatWebdataset\nclass Chat(ChatWebdataset):\n    pass\n",
    )
    module(
        "reexports.__init__",
        "from .inner import Chat, ChatWebdataset\n"
        "from energon_cpp.flavors import CrudeWebdataset\n"
        "class Outer:\n    Inner = Chat\n",
    )

    def text(name: str) -> str:
        return chat(name).replace(HERE, "reexports")

    for name in ("Chat", "Outer.Inner"):
        with opened(dataset(text(name)), allow_imports=["reexports"]) as loader:
            assert type(take(loader, 1)[0]) is ChatSample
    path = dataset("__module__: reexports\n__class__: CrudeWebdataset\n")
    with opened(path, batch_size=None, allow_imports=["reexports"]) as loader:
        assert type(take(loader, 1)[0]) is energon.CrudeSample
    path = dataset(text("ChatWebdataset"))
    assert f"which imports it from '{HERE}'" in refusal(path, allow_imports=["reexports"])
    with opened(path, allow_imports=["reexports", HERE]) as loader:
        assert type(take(loader, 1)[0]) is ChatSample
    path = dataset(text("inner.Chat"))
    assert "'inner' is a module: write __module__: reexports.inner" in refusal(
        path, allow_imports=["reexports"]
    )


def test_modules_and_files_that_fail(dataset: Any, module: Any) -> None:
    name = module("raises_key_error", "{}['missing']\n")
    path = dataset(chat().replace(HERE, name))
    yaml = f"{path}/.nv-meta/dataset.yaml"
    assert refusal(path, allow_imports=[name]) == (
        f"{yaml} names the class ChatWebdataset of the module '{name}', which cannot be imported: "
        "KeyError: 'missing'"
    )
    path = dataset(chat().replace(HERE, "../okmod"))
    assert refusal(path, allow_imports="*") == (
        f"{yaml} names the class ChatWebdataset of the module '../okmod', which is not the name of "
        "a module, such as 'package.module'"
    )
    path = dataset(crude("fails.py:f"))
    file = pathlib.Path(path) / ".nv-meta" / "fails.py"
    file.write_text("{}['missing']\n")
    assert refusal(path, allow_imports=[path]) == (
        f"{yaml} names the file '{file}', which cannot be run: KeyError: 'missing'"
    )
    file.write_text("def f(:\n")
    assert refusal(path, allow_imports=[path]).startswith(f"{yaml} names the file '{file}': ")


def test_arguments_may_be_objects(dataset: Any) -> None:
    decoder = "{__module__: megatron.energon, __class__: SampleDecoder, image_decode: rgb8}"
    path = dataset(TYPED + f"decoder: {decoder}\n")
    with opened(path, allow_imports=[HERE]) as loader:
        assert take(loader, 1)[0].text[0] == "text 0"
    made: list[Any] = []

    class Keeps(ChatWebdataset):
        def __init__(self, path: Any, *, kind: type[Any], first: Any, **kwargs: Any) -> None:
            made.extend([kind, first])
            super().__init__(path, **kwargs)

    more = f"kind: {{__module__: {HERE}, __class__: PlainText}}\nfirst: {decoder}\n"
    given = {"Keeps": Keeps, "PlainText": PlainText}
    with opened(dataset(chat("Keeps", more)), sample_types=given):
        assert made == [PlainText, energon.SampleDecoder(image_decode="rgb8")]


def test_files_that_are_not_allowed_are_not_run(dataset: Any, tmp_path: pathlib.Path) -> None:
    text = "sample_type: {__class__: TextSample}\nsample_loader: evil.py:f\npart_filter: [txt]\n"
    path = dataset(text)
    mark = tmp_path / "was run"
    (pathlib.Path(path) / ".nv-meta" / "evil.py").write_text(f"open({str(mark)!r}, 'w')\n")
    assert refusal(path, allow_imports=[HERE, tmp_path]) == (
        f"{path}/.nv-meta/dataset.yaml names the function f of the file '{path}/.nv-meta/evil.py', "
        f"which must not be run without your permission: pass allow_imports=['{path}'], or pass "
        "the function itself as sample_types={'evil.py:f': f}"
    )
    assert not mark.exists()
    (tmp_path / "elsewhere.py").write_text("def f(raw):\n    return {}\n")
    where = os.path.relpath(tmp_path, pathlib.Path(path) / ".nv-meta")
    path = dataset(text.replace("evil.py", f"{where}/elsewhere.py"))
    assert f"pass allow_imports=['{tmp_path}']" in refusal(path, allow_imports=[path])
    path = dataset(text.replace("evil.py:f", "elsewhere.py:g"))
    (pathlib.Path(path) / ".nv-meta" / "elsewhere.py").write_text("f = 1\n")
    assert "has no function 'g'" in refusal(path, allow_imports=[path])


def test_classes_that_cannot_be_used(dataset: Any) -> None:
    allowed = {"allow_imports": [HERE]}
    text = chat("ChatWebdataset", "no_argument: 3\n")
    assert "ChatWebdataset cannot be made: TypeError" in refusal(dataset(text), **allowed)
    assert "overrides build, which nothing calls" in refusal(dataset(chat("OwnOrder")), **allowed)
    text = chat().replace("imgs:", "pictures:")
    assert "'pictures', which is not a field of ChatSample" in refusal(dataset(text), **allowed)
    with opened(dataset(chat("NothingWebdataset")), **allowed) as loader:  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="NothingWebdataset returned None; raise SkipSample"):
            take(loader, 1)
    with pytest.raises(TypeError, match="sample_types must map names to classes"):
        opened(dataset(chat()), sample_types={"ChatWebdataset": 3})
    with pytest.raises(TypeError, match="allow_imports must list names"):
        opened(dataset(chat()), allow_imports=[3])


REFUSED = {
    "subset: {range: [0%, 50%]}": "set it for the dataset in a metadataset",
    "split_part: val": (
        "pass split_part to get_train_dataset() or get_val_dataset(), or set it in a metadataset"
    ),
    "path: elsewhere": "it is the folder of the dataset",
    "training: false": "get_train_dataset() and get_val_dataset() determine it",
    "worker_config: 3": "pass it to get_train_dataset() or get_val_dataset()",
}


@pytest.mark.parametrize("entry", REFUSED)
def test_entries_without_effect(dataset: Any, entry: str) -> None:
    path = dataset(chat(more=f"{entry}\n"))
    name = entry.partition(":")[0]
    assert refusal(path, allow_imports=[HERE]) == (
        f"{path}/.nv-meta/dataset.yaml: '{name}' has no effect here; remove it: {REFUSED[entry]}"
    )
    path = dataset(f"{TYPED}{entry}\n")  # refused natively
    assert f"{name} is not a known key" in refusal(path, allow_imports=[HERE])


def test_tags_are_subflavors(dataset: Any) -> None:
    for text in (chat(), TYPED):
        path = dataset(text + "tags: {kind: tagged}\n")
        with opened(path, batch_size=None, allow_imports=[HERE]) as loader:
            assert take(loader, 1)[0].__subflavors__ == {"kind": "tagged"}
            state = loader.save_state_rank()
        path = dataset(text + "subflavors: {kind: tagged}\n")
        with opened(path, batch_size=None, allow_imports=[HERE]) as loader:
            loader.restore_state_rank(state)


def test_the_decoder_is_passed_to_classes_that_take_it(dataset: Any) -> None:
    class Generic(DefaultGenericWebdatasetFactory[PlainText]):
        __sample_type__ = PlainText

    class Passes(BaseWebdatasetFactory[PlainText]):
        __sample_type__ = PlainText

        def __init__(self, path: Any, **kwargs: Any) -> None:
            kwargs.pop("field_map")
            super().__init__(path, **kwargs)
            assert self.split_part == "train" and self.worker_config is not None

        def load_sample(self, sample: dict[str, Any]) -> PlainText:
            return PlainText(sample["__key__"], sample["txt"].decode())

    class Alone:
        __sample_type__ = PlainText

        def __init__(self, path: Any, **kwargs: Any) -> None:
            assert isinstance(kwargs["decoder"], energon.SampleDecoder)

        def load_sample(self, sample: dict[str, Any]) -> PlainText:
            return PlainText(sample["__key__"], sample["txt"].decode())

    class Takes(DefaultDecoderWebdatasetFactory[PlainText]):
        __sample_type__ = PlainText

        def __init__(self, path: Any, *, decoder: Any, **kwargs: Any) -> None:
            super().__init__(path, decoder=None, **kwargs)

    class Pops(Passes):
        def __init__(self, path: Any, **kwargs: Any) -> None:
            assert isinstance(kwargs.pop("decoder"), energon.SampleDecoder)
            super().__init__(path, **kwargs)

    found = {}
    for kind in (Generic, Passes, Alone, Takes, Pops):
        path = dataset("__class__: Kind\nfield_map: {text: txt}\n")
        with opened(path, batch_size=None, sample_types={"Kind": kind}) as loader:
            found[kind.__name__] = take(loader, 1)[0].text
    assert found == {
        **{"Generic": b"text 0", "Takes": b"text 0"},
        **dict.fromkeys(["Passes", "Alone", "Pops"], "text 0"),
    }


def test_classes_get_an_epath(dataset: Any) -> None:
    seen: list[Any] = []

    class Looks(ChatWebdataset):
        def __init__(self, path: Any, **kwargs: Any) -> None:
            super().__init__(path, **kwargs)
            seen.extend([path, self.path, self.paths[0]])

    path = dataset(chat("Looks"))
    with opened(path, sample_types={"Looks": Looks}):
        assert seen == [EPath(path)] * 3
        assert [str(one.local_path()) for one in seen] == [one.url for one in seen] == [path] * 3
        assert seen[1].display_name == "first"


class Plain:
    def load_sample(self, sample: dict[str, Any]) -> Any:
        return sample


NUMBER = 3


def test_things_that_are_no_classes_of_datasets(dataset: Any) -> None:
    path = dataset(f"__module__: {HERE}\n__class__: NumberedText\n")
    yaml = f"{path}/.nv-meta/dataset.yaml"
    assert refusal(path, allow_imports=[HERE]) == (
        f"{yaml}: {HERE}.NumberedText has no load_sample(): define it for a dataset class; for a "
        "class of samples add a field_map, or a sample_loader"
    )
    path = dataset(f"__module__: {HERE}\n__class__: Plain\n")
    assert refusal(path, allow_imports=[HERE]) == (
        f"{yaml}: {HERE}.Plain has no __init__(), which gets the path of the dataset and the "
        "entries of dataset.yaml"
    )
    path = dataset(chat("NUMBER"))
    assert refusal(path, allow_imports=[HERE]) == (
        f"{yaml}: expected a class, found NUMBER of the module '{HERE}', which is of type int"
    )
    path = dataset(chat("join").replace(HERE, "os.path"))
    assert refusal(path, allow_imports="*") == (
        f"{yaml}: expected a class, found join of the module 'os.path', which is of type function"
    )
    path = dataset(chat("NUMBER"))
    assert refusal(path, sample_types={"NUMBER": len}) == (
        f"{yaml}: expected NUMBER to be a dataset class with load_sample(), or a class of samples, "
        "found <built-in function len>"
    )


def test_failures_name_the_sample(dataset: Any, num_workers: int) -> None:
    path = dataset(chat("FailingWebdataset"))
    options: dict[str, Any] = {"num_workers": num_workers, "allow_imports": [HERE]}
    with opened(path, Encode(), **options) as loader:
        with pytest.raises(ValueError, match="no good") as failed:
            list(loader)
    cause = failed.value.__cause__
    assert isinstance(cause, energon.UserFunctionError) and cause.sample_key == "0005"
    assert "shard_0.tar" in str(cause) and "load_sample" in str(cause)
    with opened(path, Encode(), on_error="skip", **options) as loader:
        keys = [key for batch in loader for key in batch.__key__]
        stats = loader.stats()
    assert keys == [f"{i:04}" for i in range(COUNT) if i not in (5, 7)] or num_workers
    assert sorted(keys) == [f"{i:04}" for i in range(COUNT) if i not in (5, 7)]
    assert "load_sample" in json.dumps(stats)


def test_a_handler_gets_failures(dataset: Any) -> None:
    seen: list[Any] = []

    def handler(error: Exception, sample: Any, sources: Any) -> None:
        seen.append((str(error), sample["__key__"], sources[0].shard_name))

    made = energon.get_val_dataset(
        dataset(chat("FailingWebdataset")), split_part="train", batch_size=4,
        worker_config=config(global_error_handler=handler), allow_imports=[HERE])  # fmt: skip
    with energon.get_savable_loader(made) as loader:
        assert sum(len(batch.__key__) for batch in loader) == COUNT - 2
    assert seen == [("no good", "0005", "shard_0.tar")]


def test_permissions_of_the_process(dataset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_imports, "_everywhere", [])
    path = dataset(chat())
    refusal(path)
    energon.allow_imports(HERE)
    with opened(path) as loader:
        assert type(take(loader, 1)[0]) is ChatSample
    with pytest.raises(TypeError, match="allow_imports must list"):
        energon.allow_imports([3])  # type: ignore[list-item]


def test_the_program_says_how_to_read_the_data(dataset: Any) -> None:
    path = dataset(chat())
    command = [PROGRAM, "run", path, "--split", "train", "--typed", "--limit", "1"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode != 0
    assert f"unknown sample type '{HERE}.ChatWebdataset'" in run.stderr
    assert "Python reads it with sample_types= or allow_imports=" in run.stderr


# --- The classes by themselves ---


def test_base_classes() -> None:
    made = ChatWebdataset("/data", field_map={"imgs": "jpgs", "conversation": "a.json[x][0],txt"})
    assert isinstance(made, BaseWebdatasetFactory) and made.path == pathlib.Path("/data")
    raw = {"__key__": "k", "jpgs": pickle.dumps([]), "txt": b"talk"}
    sample = made.load_sample(raw)
    assert type(sample) is ChatSample and sample.imgs == [] and sample.__key__ == "k"
    with pytest.raises(energon.SampleException, match="none of 'a.json.x..0.' .no 'a.json' among"):
        made.load_sample({"__key__": "k", "jpgs": pickle.dumps([])})
    with pytest.raises(ValueError, match="either field_map or sample_loader"):
        ChatWebdataset("/data")
    with pytest.raises(ValueError, match="sample_loader needs a part_filter"):
        StandardWebdatasetFactory("/data", sample_type=ChatSample, sample_loader=dict)
    old = StandardWebdatasetFactory(
        "/data", sample_type=NumberedText, image_decode="rgb8", field_map={"text": "txt"}
    )
    assert old._decoder == energon.SampleDecoder(image_decode="rgb8")
    assert old.config()["image_decode"] == "rgb8"
    raw_only = DefaultDecoderWebdatasetFactory.__new__(StandardWebdatasetFactory)
    assert isinstance(raw_only, DefaultGenericWebdatasetFactory)
    with pytest.raises(NotImplementedError, match="get_train_dataset"):
        old.build()


def test_classes_of_jsonl_files_and_joins(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "one"}\n{"text": "two"}\n')
    energon.CrudeJsonlDatasetFactory.prepare_dataset(file)
    for kind in (energon.CrudeJsonlDatasetFactory, energon.DefaultCrudeJsonlDatasetFactory):
        made = kind(file, training=True, worker_config=config())
        store = made.as_file_store()
        assert isinstance(store, energon.cache.JsonlFileStore) and store.get_path() == str(file)
        assert json.loads(bytes(store.get("1.json"))) == {"text": "two"}
        assert repr(made) == f"{kind.__name__}({str(file)!r})" and made.path.name == "a.jsonl"
    labeled = energon.DefaultCrudeJsonlDatasetFactory(file, subflavors={"a": 1}, decoder=None)
    assert labeled.config()["subflavors"] == {"a": 1}
    join = energon.JoinedWebdatasetFactory[Any]()
    assert repr(join) == "JoinedWebdatasetFactory()"
    with pytest.raises(NotImplementedError, match="a join has no file store"):
        join.as_file_store()


def test_large_parts_are_bytes(tmp_path: pathlib.Path) -> None:
    write_tar(tmp_path / "a.tar", [("one", {"bin": bytes(50000), "txt": b"a"})])
    prepare(tmp_path)
    (tmp_path / ".nv-meta" / "dataset.yaml").write_text(
        "__class__: Bin\nfield_map: {text: txt, number: bin}\n"
    )
    with opened(str(tmp_path), batch_size=None, sample_types={"Bin": NumberedText}) as loader:
        sample = next(iter(loader))
    assert sample.text == "a" and bytes(sample.number) == bytes(50000)


def test_the_data_may_be_moved(dataset: Any, tmp_path: pathlib.Path, data: pathlib.Path) -> None:
    dataset(chat())
    shutil.copytree(data / "first", tmp_path / "copy")
    with opened(str(data / "first"), Encode(), allow_imports=[HERE]) as loader:
        take(loader, 2)
        state = loader.save_state_rank()
        rest = list(loader)
    with opened(str(tmp_path / "copy"), Encode(), allow_imports=[HERE]) as loader:
        loader.restore_state_rank(state)
        assert [batch.__key__ for batch in loader] == [batch.__key__ for batch in rest]
