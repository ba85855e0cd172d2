"""Samples of the types that a dataset.yaml names, and subflavors."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from typing import Any

import pytest
from conftest import loader_of, take

import energon_cpp as energon
from energon_cpp import sample_types

PROGRAM = os.environ.get("ENERGON_PROGRAM", "")
pytestmark = pytest.mark.skipif(not os.path.exists(PROGRAM), reason="no program energon")


@pytest.fixture(scope="module")
def typed(texts: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The texts, prepared as TextSample, with subflavors."""
    folder = tmp_path_factory.mktemp("typed") / "data"
    shutil.copytree(texts, folder)
    command = [PROGRAM, "prepare", str(folder), "--split-parts", "train:.*", "--no-progress"]
    command += ["--sample-type", "TextSample", "--field-map", "text=txt"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    with open(folder / ".nv-meta" / "dataset.yaml", "a", encoding="utf-8") as file:
        file.write("subflavors: {kind: text, level: 3}\n")
    return str(folder)


def test_functions_and_loops_get_typed_samples(typed: str, num_workers: int) -> None:
    class Sees(energon.DefaultTaskEncoder):
        def encode_sample(self, sample: Any) -> Any:
            assert type(sample) is energon.TextSample
            assert sample.__key__ == f"{int(sample.text[5:]):04}"
            assert sample.__subflavors__ == {"kind": "text", "level": 3}
            sample.text = sample.text.upper()
            return sample

    options: dict[str, Any] = {"num_workers": num_workers, "split_part": "train"}
    with loader_of(typed, Sees(), **options) as loader:
        batch = take(loader, 1)[0]
    assert type(batch) is energon.TextSample  # the standard batch keeps the class
    assert batch.text == ["TEXT 0", "TEXT 1", "TEXT 2", "TEXT 3"]
    with loader_of(typed, batch_size=None, **options) as loader:
        sample = take(loader, 1)[0]
    assert type(sample) is energon.TextSample and sample.text == "text 0"
    assert sample.__subflavors__ == {"kind": "text", "level": 3}


def test_cookers_are_only_for_crude_samples(typed: str) -> None:
    class Cooks(energon.DefaultTaskEncoder):
        cookers = [energon.Cooker(lambda sample: 1 / 0)]

    with loader_of(typed, Cooks(), split_part="train") as loader:
        assert take(loader, 1)[0].text[0] == "text 0"


def test_every_type_of_the_library_has_a_class() -> None:
    names = ["Captioning", "Image", "ImageClassification", "Interleaved", "MultiChoiceVQA", "OCR"]
    names += ["SimilarityInterleaved", "Text", "VidQA", "VQA", "VQAOCR"]
    for name in names:
        made = getattr(sample_types, f"{name}Sample")
        assert issubclass(made, energon.Sample) and made is getattr(energon, f"{name}Sample")


def test_without_a_decoder_typed_samples_have_bytes(typed: str, num_workers: int) -> None:
    class Undecoded(energon.DefaultTaskEncoder):
        decoder = None
        cookers = [energon.Cooker(lambda sample: 1 / 0)]  # not for typed samples

        def encode_sample(self, sample: Any) -> Any:
            assert type(sample) is energon.TextSample and isinstance(sample.text, bytes)
            return sample

    with loader_of(typed, Undecoded(), num_workers=num_workers, split_part="train") as loader:
        assert take(loader, 1)[0].text == [b"text 0", b"text 1", b"text 2", b"text 3"]


def test_numbers_of_samples_are_listed_as_in_energon(typed: str, num_workers: int) -> None:
    class Numbers(energon.DefaultTaskEncoder):
        def encode_sample(self, sample: Any) -> Any:
            number = int(sample.__key__)
            nested = {"half": number / 2, "odd": number % 2 == 1}
            return {"number": number, "nested": nested, "big": number + 2**40}

    with loader_of(typed, Numbers(), num_workers=num_workers, split_part="train") as loader:
        batch = take(loader, 1)[0]
    assert batch["number"] == [0, 1, 2, 3] and batch["big"] == [2**40 + i for i in range(4)]
    assert batch["nested"] == {"half": [0.0, 0.5, 1.0, 1.5], "odd": [False, True, False, True]}


JOIN = """
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    join:
    - {path: data}
    - {path: other, subflavors: {other: true}}
    joiner: {__module__: nowhere, __class__: Joined}
"""


def joined(typed: str, *kind: str) -> str:
    """A metadataset that joins `typed` with a copy whose samples have another type."""
    folder = pathlib.Path(typed).parent
    shutil.copytree(typed, folder / "other", dirs_exist_ok=True)
    command = [PROGRAM, "prepare", str(folder / "other"), "--split-parts", "train:.*"]
    (folder / "other" / ".nv-meta" / "dataset.yaml").unlink()
    command += ["--force-overwrite", "--no-progress", *kind]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (folder / "joined.yaml").write_text(JOIN, encoding="utf-8")
    command = [PROGRAM, "prepare", str(folder / "joined.yaml")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return str(folder / "joined.yaml")


def test_joined_typed_samples_have_the_fields_of_both(typed: str, num_workers: int) -> None:
    fields = ("--field-map", "image=txt", "--field-map", "label=json[number]")
    path = joined(typed, "--sample-type", "ImageClassificationSample", *fields)

    class Sees(energon.DefaultTaskEncoder):
        cookers = [energon.Cooker(lambda sample: 1 / 0)]  # not for typed samples

        def encode_sample(self, sample: Any) -> Any:
            assert isinstance(sample, energon.Sample)
            assert sample.text == sample.image == f"text {sample.label}"
            assert sample.__subflavors__ == {"kind": "text", "level": 3}
            return sample

    with loader_of(path, Sees(), num_workers=num_workers, split_part="train") as loader:
        batch = take(loader, 1)[0]
        again = loader.restore_sample(batch.__restore_key__)
    assert batch.text == [f"text {i}" for i in range(4)] == again.text
    assert batch.label == [0, 1, 2, 3] == again.label
    assert len(batch.__sources__) == 8


def test_a_join_of_typed_and_crude_samples_is_refused(typed: str) -> None:
    path = joined(typed)
    with pytest.raises(energon.UnsupportedError, match="sample type.*other"):
        loader_of(path, split_part="train")


def test_samples_as_text() -> None:
    pytest.importorskip("yaml")
    import numpy

    from energon_cpp.sample_utils import format_sample_detailed

    sample = energon.TextSample(__key__="a", text="two\nlines")
    shown = format_sample_detailed(sample, "  ").split("\n")
    assert shown[0] == "  __key__: a" and "  text: 'two" in shown
    values = {"none": None, "list": [1, (True, 2.5)], "bytes": b"x" * 200}
    values["array"] = numpy.arange(20)
    assert format_sample_detailed(values).split("\n") == [
        "none: null",
        "list:",
        "- 1",
        "- - true",
        "  - 2.5",
        "bytes: b'" + "x" * 100 + "'... 200 bytes",
        "array: np.ndarray(shape=(20,), dtype=int64, min=0, max=19, values=["
        + "".join(f"np.int64({i}), " for i in range(10))
        + "...])",
    ]
    nested = {"sample": energon.TextSample(__key__="b", text="t")}
    assert "  TextSample:" in format_sample_detailed(nested).split("\n")
