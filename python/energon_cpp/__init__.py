"""A native loader of multimodal WebDatasets.

    import energon_cpp as energon

    dataset = energon.get_train_dataset(
        "recipe.yaml", worker_config=energon.WorkerConfig.default_worker_config(2), batch_size=64
    )
    with energon.get_savable_loader(dataset) as loader:
        for batch in loader:
            ...

Names match those of Megatron-Energon where the meaning is the same.
"""

from . import _energon_modules
from ._caches import (
    CachePool,
    DirectLazy,
    FileCacheLazy,
    FileStoreCachePool,
    Lazy,
    MockLazy,
    NoCachePool,
)
from ._core import (
    Buffer,
    DeliveredStep,
    Delivery,
    ExcludedSample,
    JobState,
    LoaderState,
    RestoreKey,
    Sources,
    Tensor,
)
from ._core import version as __version__
from ._errors import (
    CancelledError,
    CorruptDataError,
    EnergonError,
    FatalSampleError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    SkipSample,
    StateMismatchError,
    StorageError,
    UnsupportedError,
    UserFunctionError,
    WaitTimeoutError,
    WorkerDiedError,
)
from ._energon_modules import install_as_megatron_energon
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
from ._file_stores import (
    DecodeFileStore,
    FileStore,
    JsonlFileStore,
    PrimaryFileStore,
    SystemFileStore,
    WebdatasetFileStore,
)
from ._imports import allow_imports
from ._prepare import prepare_metadataset
from ._sample import Batch, CrudeSample, DictBatch, Sample, basic_sample_keys, edataclass
from .av import AVData, AVDecoder
from .batching import (
    ImageBuckets,
    RaggedBatch,
    batch_list,
    batch_pad_stack,
    batch_stack,
    concat_pad,
    generic_batch,
    generic_concat,
    homogeneous_concat_mix,
)
from .cooking import Cooker, cooker, stateless
from .datasets import Dataset, get_train_dataset, get_val_dataset, get_val_datasets
from .datasets import Dataset as SavableDataset
from .decoder import FileStoreDecoder, SampleDecoder, SentencePieceTokenizer
from .energon_states import import_energon_state
from .errors import SampleException, log_exception, reraise_exception
from .loader import get_loader, get_savable_loader
from .loaders import AutoSaver, BasicDataLoader, SavableDataLoader
from .lookup import exclude, get, restore_sample, which_keys, which_step
from .metadataset import DatasetLoader, DatasetSource, load_dataset, traverse_metadataset
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
from .source_info import SourceInfo
from .states import rescale_states
from .task_encoder import AugmentTaskEncoder, DefaultTaskEncoder, TaskEncoder
from .webdataset import WebDataset
from .worker_config import WorkerConfig, default_worker_config
from .wrappers import (
    BaseWrapperDataset,
    BatchDataset,
    BlendDataset,
    ConcatDataset,
    EpochizeDataset,
    FilterDataset,
    GroupBatchDataset,
    LimitDataset,
    MapDataset,
    MixBatchDataset,
    PackingDataset,
    RepeatDataset,
    ShuffleBufferDataset,
)

__all__ = [
    "AVData",
    "AVDecoder",
    "AugmentTaskEncoder",
    "AutoSaver",
    "BaseCoreDatasetFactory",
    "BaseWebdatasetFactory",
    "BaseWrapperDataset",
    "BasicDataLoader",
    "Batch",
    "BatchDataset",
    "BlendDataset",
    "Buffer",
    "CachePool",
    "CancelledError",
    "CaptioningSample",
    "ConcatDataset",
    "Cooker",
    "CorruptDataError",
    "CrudeJsonlDatasetFactory",
    "CrudeSample",
    "CrudeWebdataset",
    "Dataset",
    "DatasetLoader",
    "DatasetSource",
    "DecodeFileStore",
    "DefaultCrudeJsonlDatasetFactory",
    "DefaultDecoderWebdatasetFactory",
    "DefaultGenericWebdatasetFactory",
    "DefaultTaskEncoder",
    "DeliveredStep",
    "Delivery",
    "DictBatch",
    "DirectLazy",
    "EnergonError",
    "EpochizeDataset",
    "ExcludedSample",
    "FatalSampleError",
    "FileCacheLazy",
    "FileStore",
    "FileStoreCachePool",
    "FileStoreDecoder",
    "FilterDataset",
    "GroupBatchDataset",
    "ImageBuckets",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "InternalError",
    "InvalidArgumentError",
    "JobState",
    "JoinedWebdatasetFactory",
    "JsonlFileStore",
    "Lazy",
    "LimitDataset",
    "LoaderState",
    "MapDataset",
    "MixBatchDataset",
    "MockLazy",
    "MultiChoiceVQASample",
    "NoCachePool",
    "NotFoundError",
    "OCRSample",
    "PackingDataset",
    "PrimaryFileStore",
    "RaggedBatch",
    "RepeatDataset",
    "ResourceExhaustedError",
    "RestoreKey",
    "Sample",
    "SampleDecoder",
    "SampleException",
    "SavableDataLoader",
    "SavableDataset",
    "SentencePieceTokenizer",
    "ShuffleBufferDataset",
    "SimilarityInterleavedSample",
    "SkipSample",
    "SourceInfo",
    "Sources",
    "StandardWebdatasetFactory",
    "StateMismatchError",
    "StorageError",
    "SystemFileStore",
    "TaskEncoder",
    "Tensor",
    "TextSample",
    "UnsupportedError",
    "UserFunctionError",
    "VQAOCRSample",
    "VQASample",
    "VidQASample",
    "WaitTimeoutError",
    "WebDataset",
    "WebdatasetFileStore",
    "WorkerConfig",
    "WorkerDiedError",
    "allow_imports",
    "basic_sample_keys",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "concat_pad",
    "cooker",
    "default_worker_config",
    "edataclass",
    "exclude",
    "generic_batch",
    "generic_concat",
    "get",
    "get_loader",
    "get_savable_loader",
    "get_train_dataset",
    "get_val_dataset",
    "get_val_datasets",
    "homogeneous_concat_mix",
    "import_energon_state",
    "install_as_megatron_energon",
    "load_dataset",
    "log_exception",
    "prepare_metadataset",
    "reraise_exception",
    "rescale_states",
    "restore_sample",
    "stateless",
    "traverse_metadataset",
    "which_keys",
    "which_step",
    "__version__",
]

_energon_modules.install()
