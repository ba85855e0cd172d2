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


def test_cookers_are_for_crude_samples_only(typed: str) -> None:
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
