"""The modules of Megatron-Energon 7.4.1, and the names that each of them has here.

By module, then by the module of this package that defines the names; "" is the package itself.
NAME=OTHER is called OTHER where it is defined.
Written by python/tools/make_energon_compat.py.
"""

NAMES: dict[str, dict[str, str]] = {
    "av": {
        "": "AVData AVDecoder",
        "av": "get_clips_uniform get_single_frames_uniform",
    },
    "av.av_data": {
        "": "AVData edataclass",
    },
    "av.av_decoder": {
        "": "AVData AVDecoder",
        "media": "AVMetadata",
    },
    "av.av_reader": {
        "av": "AVProbeIndex AVProbeIndexEntry",
    },
    "av.utils": {
        "": "AVData AVDecoder",
        "av": "get_clips_uniform get_single_frames_uniform",
    },
    "cache": {
        "": (
            "CachePool DecodeFileStore DirectLazy FileCacheLazy FileStore FileStoreCachePool "
            "FileStoreDecoder JsonlFileStore Lazy MockLazy NoCachePool PrimaryFileStore "
            "SystemFileStore WebdatasetFileStore"
        ),
    },
    "cache.base": {
        "": (
            "CachePool edataclass FileStore FileStoreDecoder Lazy MockLazy PrimaryFileStore "
            "SourceInfo"
        ),
        "media": "MediaMetadataBase",
        "source_info": "add_source_info",
    },
    "cache.file_cache_pool": {
        "": "CachePool edataclass FileCacheLazy FileStore FileStoreCachePool Lazy SourceInfo",
        "fork_hook": "ForkMixin",
        "source_info": "add_source_info",
    },
    "cache.file_store": {
        "": (
            "DecodeFileStore FileStore FileStoreDecoder JsonlFileStore SourceInfo "
            "SystemFileStore WebdatasetFileStore"
        ),
        "_epath": "EPath",
        "_prepare": "INDEX_SQLITE_FILENAME MAIN_FOLDER_NAME",
        "media": "deserialize_media_metadata MediaMetadataBase",
    },
    "cache.no_cache": {
        "": "CachePool DirectLazy edataclass FileStore Lazy MockLazy NoCachePool SourceInfo",
        "source_info": "add_source_info",
    },
    "dataset_config": {
        "": (
            "BaseCoreDatasetFactory CrudeSample DefaultCrudeJsonlDatasetFactory "
            "StandardWebdatasetFactory WorkerConfig"
        ),
        "_epath": "EPath",
        "_prepare": "MAIN_FOLDER_NAME",
        "dataset_config": "get_dataset_from_config",
        "task_encoder": "T_sample",
    },
    "edataclass": {
        "": "edataclass",
    },
    "epathlib": {
        "_epath": "DEFAULT_PROFILE_NAME EPath",
    },
    "epathlib.epath": {
        "_epath": "DEFAULT_PROFILE_NAME EPath NVDATASET_CACHE_DIR",
    },
    "errors": {
        "": (
            "FatalSampleError log_exception reraise_exception SampleException SkipSample "
            "SourceInfo"
        ),
        "sample_utils": "format_sample_detailed",
        "source_info": "get_source_info",
    },
    "flavors": {
        "": (
            "AVData AVDecoder BaseCoreDatasetFactory BaseWebdatasetFactory CaptioningSample "
            "CrudeJsonlDatasetFactory CrudeSample CrudeWebdataset "
            "DefaultCrudeJsonlDatasetFactory DefaultDecoderWebdatasetFactory "
            "DefaultGenericWebdatasetFactory ImageClassificationSample ImageSample "
            "InterleavedSample JoinedWebdatasetFactory MultiChoiceVQASample OCRSample Sample "
            "SampleDecoder SavableDataset SimilarityInterleavedSample StandardWebdatasetFactory "
            "TextSample VidQASample VQAOCRSample VQASample"
        ),
    },
    "flavors.base_dataset": {
        "": (
            "BaseCoreDatasetFactory edataclass FileStore Sample SavableDataset SourceInfo "
            "WorkerConfig"
        ),
        "_epath": "EPath",
        "state": "FlexState",
        "task_encoder": "T_sample",
    },
    "flavors.captioning": {
        "": "CaptioningSample DefaultDecoderWebdatasetFactory edataclass Sample",
        "_epath": "EPath",
    },
    "flavors.crude": {
        "": "CrudeSample CrudeWebdataset DefaultDecoderWebdatasetFactory",
        "_epath": "EPath",
    },
    "flavors.image": {
        "": "DefaultDecoderWebdatasetFactory edataclass ImageSample Sample",
        "_epath": "EPath",
    },
    "flavors.image_classification": {
        "": "DefaultDecoderWebdatasetFactory edataclass ImageClassificationSample Sample",
        "_epath": "EPath",
    },
    "flavors.interleaved": {
        "": "DefaultDecoderWebdatasetFactory edataclass InterleavedSample Sample",
        "_epath": "EPath",
    },
    "flavors.jsonl": {
        "": "CrudeJsonlDatasetFactory DefaultCrudeJsonlDatasetFactory",
    },
    "flavors.jsonl.crude_jsonl_dataset": {
        "": (
            "BaseCoreDatasetFactory CrudeJsonlDatasetFactory CrudeSample "
            "DefaultCrudeJsonlDatasetFactory FileStore MapDataset SavableDataset WorkerConfig"
        ),
        "_epath": "EPath",
        "_prepare": "JsonlPreparator",
    },
    "flavors.jsonl.jsonl_prepare": {
        "_epath": "EPath",
        "_prepare": "JsonlPreparator",
    },
    "flavors.multichoice_vqa": {
        "": "DefaultDecoderWebdatasetFactory edataclass MultiChoiceVQASample Sample",
        "_epath": "EPath",
    },
    "flavors.ocr": {
        "": "DefaultDecoderWebdatasetFactory edataclass OCRSample Sample",
        "_epath": "EPath",
    },
    "flavors.similarity_interleaved": {
        "": "DefaultDecoderWebdatasetFactory edataclass Sample SimilarityInterleavedSample",
        "_epath": "EPath",
    },
    "flavors.text": {
        "": "DefaultDecoderWebdatasetFactory edataclass Sample TextSample",
        "_epath": "EPath",
    },
    "flavors.vid_qa": {
        "": "AVDecoder DefaultDecoderWebdatasetFactory edataclass Sample VidQASample",
        "_epath": "EPath",
    },
    "flavors.vqa": {
        "": "DefaultDecoderWebdatasetFactory edataclass Sample VQASample",
        "_epath": "EPath",
    },
    "flavors.vqa_and_ocr": {
        "": "DefaultDecoderWebdatasetFactory edataclass Sample VQAOCRSample",
        "_epath": "EPath",
    },
    "flavors.webdataset": {
        "": (
            "AVData AVDecoder BaseWebdatasetFactory DefaultDecoderWebdatasetFactory "
            "DefaultGenericWebdatasetFactory JoinedWebdatasetFactory SampleDecoder "
            "StandardWebdatasetFactory"
        ),
    },
    "flavors.webdataset.base_webdataset": {
        "": (
            "BaseCoreDatasetFactory BaseWebdatasetFactory FileStore MapDataset SavableDataset "
            "WorkerConfig"
        ),
        "_epath": "EPath",
        "_prepare": "WebdatasetPreparator",
        "task_encoder": "T_sample",
    },
    "flavors.webdataset.config": {
        "_prepare": (
            "INDEX_SQLITE_FILENAME INDEX_UUID_FILENAME INFO_JSON_FILENAME INFO_YAML_FILENAME "
            "MAIN_FOLDER_NAME SPLIT_YAML_FILENAME"
        ),
    },
    "flavors.webdataset.default_decoder_webdataset": {
        "": "DefaultDecoderWebdatasetFactory DefaultGenericWebdatasetFactory SampleDecoder",
        "_epath": "EPath",
        "_factories": "DEFAULT_DECODER",
        "task_encoder": "T_sample",
    },
    "flavors.webdataset.default_generic_webdataset": {
        "": "BaseWebdatasetFactory DefaultGenericWebdatasetFactory SavableDataset",
        "_epath": "EPath",
        "_prepare": "MAIN_FOLDER_NAME",
        "task_encoder": "T_sample",
    },
    "flavors.webdataset.joined_webdataset": {
        "": (
            "BaseCoreDatasetFactory BaseWebdatasetFactory FileStore JoinedWebdatasetFactory "
            "MapDataset Sample SavableDataset WorkerConfig"
        ),
        "_epath": "EPath",
        "task_encoder": "T_sample",
    },
    "flavors.webdataset.prepare": {
        "": "edataclass",
        "_epath": "EPath",
        "_prepare": (
            "INDEX_SQLITE_FILENAME INDEX_UUID_FILENAME INFO_JSON_FILENAME INFO_YAML_FILENAME "
            "MAIN_FOLDER_NAME WebdatasetPreparator"
        ),
        "media": "MediaFilterConfig serialize_media_metadata",
    },
    "flavors.webdataset.sample_decoder": {
        "": "FileStoreDecoder SampleDecoder",
        "_factories": "DEFAULT_DECODER",
    },
    "flavors.webdataset.standard_webdataset": {
        "": "DefaultDecoderWebdatasetFactory Sample StandardWebdatasetFactory",
        "_epath": "EPath",
        "task_encoder": "T_sample",
    },
    "fork_hook": {
        "fork_hook": (
            "after_in_child_fork_hook after_in_parent_fork_hook before_fork_hook "
            "DataclassForkMixin ForkMixin WeakCallbacks"
        ),
    },
    "loader": {
        "": (
            "BasicDataLoader CachePool get_loader get_savable_loader SavableDataLoader "
            "SavableDataset WorkerConfig"
        ),
    },
    "media": {
        "media": (
            "AVMetadata deserialize_media_metadata ImageMetadata MediaMetadataBase "
            "MediaMetadataType serialize_media_metadata"
        ),
    },
    "media.extractor": {
        "": "AVDecoder",
        "_epath": "EPath",
        "media": (
            "ImageMetadata MediaFilterConfig MediaFilterStrategy MediaMetadataBase "
            "MediaMetadataType"
        ),
    },
    "media.filesystem_prepare": {
        "_epath": "EPath",
        "_prepare": "INDEX_SQLITE_FILENAME MAIN_FOLDER_NAME prepare_filesystem_dataset",
        "media": "MediaFilterConfig serialize_media_metadata",
    },
    "media.metadata": {
        "": "edataclass",
        "media": (
            "AVMetadata deserialize_media_metadata ImageMetadata MediaMetadataBase "
            "MediaMetadataType serialize_media_metadata"
        ),
    },
    "metadataset": {
        "": "DatasetLoader load_dataset prepare_metadataset traverse_metadataset",
    },
    "metadataset.dataset_loader": {
        "": "BaseCoreDatasetFactory DatasetLoader edataclass WorkerConfig",
        "_epath": "EPath",
        "dataset_config": "get_dataset_from_config",
        "metadataset": "DatasetBlendMode LoadedDataset LoadedDatasetList",
    },
    "metadataset.loader": {
        "": "DatasetLoader load_dataset prepare_metadataset traverse_metadataset",
        "_epath": "EPath",
    },
    "metadataset.loader_interface": {
        "": "BaseCoreDatasetFactory edataclass FileStore WorkerConfig",
        "_epath": "EPath",
        "metadataset": "DatasetBlendMode LoadedDataset LoadedDatasetList",
    },
    "rng": {
        "": "edataclass WorkerConfig",
        "rng": "SystemRng SystemRngState",
        "state": "FlexState",
    },
    "sample_utils": {
        "sample_utils": "format_sample_detailed",
    },
    "savable_loader": {
        "": (
            "BaseWrapperDataset BasicDataLoader BatchDataset CachePool edataclass "
            "SavableDataLoader SavableDataset WorkerConfig"
        ),
        "rng": "SystemRng",
        "savable_loader": (
            "FlexState SavableCheckpoint SavableDataLoaderState SavableDatasetCheckpoint "
            "SavableDatasetState SystemRngState"
        ),
    },
    "source_info": {
        "": "SourceInfo",
        "_epath": "EPath",
        "source_info": "add_source_info get_source_info",
    },
    "state": {
        "state": "FlexState",
    },
    "task_encoder": {
        "": (
            "AugmentTaskEncoder basic_sample_keys Batch batch_list batch_pad_stack batch_stack "
            "Cooker cooker DefaultTaskEncoder generic_batch get_train_dataset get_val_dataset "
            "get_val_datasets stateless TaskEncoder"
        ),
    },
    "task_encoder.base": {
        "": (
            "AugmentTaskEncoder Batch batch_list batch_pad_stack batch_stack BatchDataset "
            "BlendDataset CachePool ConcatDataset Cooker CrudeSample CrudeWebdataset "
            "DecodeFileStore DefaultTaskEncoder edataclass EpochizeDataset FileStore "
            "generic_batch GroupBatchDataset LimitDataset MapDataset PackingDataset "
            "PrimaryFileStore RepeatDataset Sample SampleDecoder SavableDataset "
            "ShuffleBufferDataset SourceInfo stateless TaskEncoder WorkerConfig"
        ),
        "cooking": "get_failure_tolerance get_stateless",
        "metadataset": "DatasetBlendMode LoadedDataset",
        "rng": "SystemRng",
        "task_encoder": "T_batch T_encoded_sample T_raw_batch T_sample",
    },
    "task_encoder.cooking": {
        "": "basic_sample_keys Cooker cooker Sample SourceInfo",
        "task_encoder": "T_sample",
    },
    "task_encoder.loader": {
        "": (
            "BaseCoreDatasetFactory DefaultTaskEncoder get_train_dataset get_val_dataset "
            "get_val_datasets load_dataset SampleDecoder SavableDataset TaskEncoder "
            "WorkerConfig"
        ),
        "_epath": "EPath",
    },
    "tools": {},
    "tools.analyze_debug": {
        "_program": "command=analyze_debug_command",
    },
    "tools.checkpoint": {
        "_epath": "EPath",
        "_program": "command_redist=redistribute_command",
        "savable_loader": "SavableDataLoaderState",
    },
    "tools.info": {
        "": "BaseCoreDatasetFactory",
        "_epath": "EPath",
        "_prepare": "MAIN_FOLDER_NAME",
        "_program": "command=info_command",
    },
    "tools.lint": {
        "": "get_loader get_val_dataset WorkerConfig",
        "_epath": "EPath",
        "_program": "command=lint_command",
    },
    "tools.prepare": {
        "": (
            "BaseWebdatasetFactory CrudeJsonlDatasetFactory CrudeWebdataset prepare_metadataset "
            "Sample"
        ),
        "_epath": "EPath",
        "_prepare": "MAIN_FOLDER_NAME",
        "_program": "command=prepare_command",
        "media": "MediaFilterConfig",
    },
    "tools.prepare_media": {
        "_epath": "EPath",
        "_prepare": "prepare_filesystem_dataset WebdatasetPreparator",
        "_program": "command=prepare_media_command",
        "media": "MediaFilterConfig",
    },
    "tools.preview": {
        "": "get_loader Sample StandardWebdatasetFactory WorkerConfig",
        "_epath": "EPath",
        "_prepare": "MAIN_FOLDER_NAME",
        "_program": "command=preview_command",
    },
    "transforms": {
        "_merged_transforms": "CustomTransform MergeTransform TransformMapper",
    },
    "transforms.custom": {
        "_merged_transforms": "CustomTransform TransformMapper",
    },
    "transforms.mappers": {
        "_merged_transforms": "TransformMapper",
    },
    "transforms.merge": {
        "_merged_transforms": "CustomTransform MergeTransform TransformMapper",
    },
    "worker": {
        "": "CachePool log_exception reraise_exception SourceInfo WorkerConfig",
    },
    "wrappers": {
        "": (
            "BatchDataset BlendDataset concat_pad ConcatDataset EpochizeDataset FilterDataset "
            "generic_concat GroupBatchDataset homogeneous_concat_mix LimitDataset MapDataset "
            "MixBatchDataset PackingDataset RepeatDataset ShuffleBufferDataset"
        ),
    },
    "wrappers.base": {
        "": "BaseWrapperDataset Sample SavableDataset WorkerConfig",
        "state": "FlexState",
        "task_encoder": "T_sample",
    },
    "wrappers.batch_dataset": {
        "": "BaseWrapperDataset BatchDataset SavableDataset WorkerConfig",
        "task_encoder": "T_batch",
    },
    "wrappers.blend_dataset": {
        "": "BaseWrapperDataset BlendDataset SavableDataset WorkerConfig",
        "task_encoder": "T_sample",
    },
    "wrappers.concat_dataset": {
        "": "BaseWrapperDataset ConcatDataset SavableDataset WorkerConfig",
        "task_encoder": "T_sample",
    },
    "wrappers.epochize_dataset": {
        "": "BaseWrapperDataset EpochizeDataset SavableDataset WorkerConfig",
        "task_encoder": "T_sample",
    },
    "wrappers.filter_dataset": {
        "": "BaseWrapperDataset FilterDataset SavableDataset WorkerConfig",
        "task_encoder": "T_sample",
    },
    "wrappers.group_batch_dataset": {
        "": "BaseWrapperDataset edataclass GroupBatchDataset SavableDataset WorkerConfig",
        "state": "FlexState",
        "task_encoder": "T_batch",
    },
    "wrappers.limit_dataset": {
        "": "BaseWrapperDataset LimitDataset SavableDataset WorkerConfig",
        "task_encoder": "T_sample",
    },
    "wrappers.map_dataset": {
        "": "BaseWrapperDataset MapDataset SavableDataset WorkerConfig",
        "task_encoder": "T_sample",
    },
    "wrappers.mix_batch_dataset": {
        "": (
            "BaseWrapperDataset BatchDataset BlendDataset concat_pad generic_concat "
            "homogeneous_concat_mix MixBatchDataset SavableDataset WorkerConfig"
        ),
        "task_encoder": "T_batch",
    },
    "wrappers.packing_dataset": {
        "": "BaseWrapperDataset PackingDataset SavableDataset WorkerConfig",
        "task_encoder": "T_encoded_sample T_sample",
    },
    "wrappers.repeat_dataset": {
        "": "BaseWrapperDataset RepeatDataset SavableDataset WorkerConfig",
        "task_encoder": "T_sample",
    },
    "wrappers.shuffle_buffer_dataset": {
        "": "BaseWrapperDataset SavableDataset ShuffleBufferDataset WorkerConfig",
        "task_encoder": "T_sample",
    },
}
