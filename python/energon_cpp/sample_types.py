"""The sample types that a dataset.yaml may name. Names and fields match Energon's.

Images are tensors in the mode of the decoder. Its `av_decode` sets the type of sound and video, by
default AVDecoder. Without a decoder, all of these are bytes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ._sample import Sample


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class CaptioningSample(Sample):
    image: Any
    caption: str


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ImageSample(Sample):
    image: Any


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ImageClassificationSample(Sample):
    image: Any
    label: int | None = None
    label_name: str | None = None


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class InterleavedSample(Sample):
    sequence: list[Any]


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class MultiChoiceVQASample(Sample):
    image: Any
    context: str
    choices: list[str] | None = None
    correct_choice_idx: int = 0


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class OCRSample(Sample):
    """Boxes have the shape (N, 4) or (N, 5): x, y, width, height[, confidence]."""

    image: Any
    text: str
    block_boxes: Any = None
    block_classes: Any = None
    block_text: list[str] | None = None
    lines_boxes: Any = None
    lines_text: list[str] | None = None
    words_boxes: Any = None
    words_text: list[str] | None = None
    chars_boxes: Any = None
    chars_text: list[str] | None = None


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class SimilarityInterleavedSample(Sample):
    images: list[Any]
    texts: list[str]
    audio: Any = None
    video: Any = None
    similarity_matrix: Any = None
    matched_text_indices: list[int] | None = None


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class TextSample(Sample):
    text: str


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class VidQASample(Sample):
    video: Any
    context: str
    answers: list[str] | None = None
    answer_weights: Any = None


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class VQASample(Sample):
    image: Any
    context: str
    answers: list[str] | None = None
    answer_weights: Any = None


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class VQAOCRSample(Sample):
    image: Any
    context: str
    text: str
    answers: list[str] | None = None
    answer_weights: Any = None
    words_boxes: Any = None
    words_text: list[str] | None = None
