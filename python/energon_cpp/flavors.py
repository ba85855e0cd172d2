"""Samples, decoders and base classes of datasets, under the name of Energon's package."""

from ._factories import (
    BaseCoreDatasetFactory,
    BaseWebdatasetFactory,
    CrudeJsonlDatasetFactory,
    CrudeWebdataset,
    DefaultCrudeJsonlDatasetFactory,
    DefaultDecoderWebdatasetFactory,
    DefaultGenericWebdatasetFactory,
    JoinedWebdatasetFactory,
    StandardWebdatasetFactory,
)
from ._sample import CrudeSample, Sample
from .av import AVData, AVDecoder
from .datasets import Dataset as SavableDataset
from .decoder import SampleDecoder
from .sample_types import (
    CaptioningSample,
    ImageClassificationSample,
    ImageSample,
    InterleavedSample,
    MultiChoiceVQASample,
    OCRSample,
    SimilarityInterleavedSample,
    TextSample,
    VidQASample,
    VQAOCRSample,
    VQASample,
)

__all__ = [
    "AVData",
    "AVDecoder",
    "BaseCoreDatasetFactory",
    "BaseWebdatasetFactory",
    "CaptioningSample",
    "CrudeJsonlDatasetFactory",
    "CrudeSample",
    "CrudeWebdataset",
    "DefaultCrudeJsonlDatasetFactory",
    "DefaultDecoderWebdatasetFactory",
    "DefaultGenericWebdatasetFactory",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "JoinedWebdatasetFactory",
    "MultiChoiceVQASample",
    "OCRSample",
    "Sample",
    "SampleDecoder",
    "SavableDataset",
    "SimilarityInterleavedSample",
    "StandardWebdatasetFactory",
    "TextSample",
    "VQAOCRSample",
    "VQASample",
    "VidQASample",
]
