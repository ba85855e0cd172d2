"""The settings of a dataset, from which it can be opened, also with other options."""

from __future__ import annotations

import os
import sys
from typing import Any

from . import _core
from ._foreign import ForeignSamples
from ._handlers import calls_handler, for_native_stages
from ._imports import Permissions
from ._shard_paths import path_text
from ._stages import Encoder, loader_spec, stages_of
from .decoder import SampleDecoder
from .errors import reraise_exception
from .task_encoder import DefaultTaskEncoder
from .worker_config import WorkerConfig


class DatasetRecipe:
    """Path, configuration, functions and options. Immutable. The native part borrows the functions
    in `options` and `stages`."""

    def __init__(
        self,
        path: str,
        training: bool,
        worker_config: WorkerConfig,
        task_encoder: Encoder,
        options: dict[str, Any],
        stages: dict[str, Any] | None = None,
        permissions: Permissions = Permissions(),
    ) -> None:
        self.path = path
        self.training = training
        self.worker_config = worker_config
        self.task_encoder = task_encoder
        self.options = options
        self.permissions = permissions
        handler = worker_config.global_error_handler
        if stages is None:
            stages = stages_of(
                task_encoder,
                packs=options.get("packing_buffer_size") is not None,
                batched=options.get("batch_size") is not None,
                handler=handler if calls_handler(handler) else None,
            )
        self.stages = stages
        self.foreign = self._foreign_samples()

    def _foreign_samples(self) -> ForeignSamples:
        handler = self.worker_config.global_error_handler
        arguments = {
            "training": self.training,
            "worker_config": self.worker_config,
            "decoder": self.task_encoder.decoder,
        }
        return ForeignSamples(
            self.permissions,
            arguments,
            lambda load, is_crude: loader_spec(
                load,
                self.stages,
                is_crude=is_crude,
                batched=self.options.get("batch_size") is not None,
                handler=handler if calls_handler(handler) else None,
            ),
        )

    def open(self) -> _core.Pipeline:
        """Opens the pipeline, which borrows functions of this object."""
        options = {**self.options, "foreign": self.foreign}
        return _core.open_pipeline(self.path, self.training, options, self.stages)

    def open_leaves(self) -> list[_core.Pipeline]:
        """Opens one validation pipeline for each dataset of the metadataset."""
        options = {**self.options, "foreign": self.foreign}
        return _core.open_leaf_pipelines(self.path, options, self.stages)

    def changed(
        self, *, options: dict[str, Any] | None = None, stages: dict[str, Any] | None = None
    ) -> "DatasetRecipe":
        """Returns the same recipe with these options or stages."""
        return DatasetRecipe(
            self.path,
            self.training,
            self.worker_config,
            self.task_encoder,
            {**self.options, **(options or {})},
            self.stages if stages is None else stages,
            self.permissions,
        )


def make_recipe(
    path: str | os.PathLike[str],
    training: bool,
    worker_config: WorkerConfig,
    task_encoder: Encoder | None,
    options: dict[str, Any],
    permissions: Permissions,
) -> DatasetRecipe:
    """Returns the recipe for options of get_train_dataset() or get_val_dataset()."""
    if isinstance(path, dict):
        raise TypeError("a metadataset cannot be a dict: write it to a YAML file and pass its path")
    encoder = task_encoder or DefaultTaskEncoder()
    decoder: Any = encoder.decoder
    if decoder is not None and not isinstance(decoder, SampleDecoder):
        raise TypeError(f"decoder must be a SampleDecoder or None, not a {type(decoder).__name__}")
    _check_hooks(encoder)
    options = {**options, **_decoding(encoder)}
    if options["cache_dir"] is not None:
        options["cache_dir"] = path_text(options["cache_dir"])
    options["exclude_files"] = [path_text(file) for file in options["exclude_files"]]
    if options.get("tensors") is None:
        options["tensors"] = "torch" if "torch" in sys.modules else "energon"
    handler = worker_config.global_error_handler
    if handler is not None and calls_handler(handler):
        options["failure_handler"] = for_native_stages(handler)
    elif handler is reraise_exception:
        options["on_error"] = "fail"
    log_path = worker_config._log_path(1 if training else 2)
    if log_path is not None:
        options["log_path"] = log_path
    return DatasetRecipe(
        path_text(path), training, worker_config, encoder, options, permissions=permissions
    )


def _decoding(encoder: Encoder) -> dict[str, Any]:
    """The options for decoding parts and for batching numbers of samples."""
    if encoder.decoder is not None:
        options = {**encoder.decoder._options(), "typed": True}
    elif encoder._as_energon:
        options = {"decode": True, "leaves_bytes": True, "typed": True}
    else:
        options = {}
    return options | {"lists_numbers": encoder._as_energon}


def _check_hooks(encoder: Encoder) -> None:
    """Raises TypeError for hooks of Energon that nothing would call."""
    hooks: tuple[str, ...] = ("build_batch", "build_cook_crude_sample", "build_encode_sample")
    hooks += ("build_train_datasets", "build_val_datasets")
    found = [name for name in hooks if hasattr(encoder, name)]
    if found:
        raise TypeError(
            f"{type(encoder).__name__} overrides {', '.join(found)}, which do not exist: pipelines "
            "are composed natively; override functions such as encode_sample and batch, and use "
            "the options of get_train_dataset()"
        )


_HINTS = {
    "auto_decode": "set decoder = None in the task encoder",
    "image_decode": "set decoder = SampleDecoder(image_decode=...) in the task encoder",
    "av_decode": "set decoder = SampleDecoder(av_decode=...) in the task encoder",
    "video_decode_audio": "set decoder = SampleDecoder(...) in the task encoder",
    "handler": "use WorkerConfig(global_error_handler=...)",
    "cache_pool": "pass it to get_savable_loader() or get_loader()",
    "dataset_config": "set it in a metadataset",
    "split_config": "set it in a metadataset",
    "subflavors": "set them in a metadataset or in dataset.yaml",
    "subset": "set it in a metadataset",
    "part_filter": "set it in dataset.yaml",
    "sample_loader": "set it in dataset.yaml, and allow it with allow_imports",
    "sample_type": "set it in dataset.yaml; for classes of your own, pass sample_types",
}


def refuse(function: str, unknown: dict[str, Any]) -> None:
    """Raises TypeError for unknown arguments, with a hint about what to use instead."""
    for name in unknown:
        hint = f": {_HINTS[name]}" if name in _HINTS else ""
        raise TypeError(f"{function}() has no argument '{name}'{hint}")
