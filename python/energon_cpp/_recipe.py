"""The settings of a dataset, from which it can be opened, also with other options."""

from __future__ import annotations

import inspect
import json
import os
from typing import Any, Callable

from . import _core
from ._explained_options import explains_options, similar_name
from ._foreign import ForeignSamples
from ._handlers import calls_handler, for_native_stages
from ._imports import Permissions
from ._shard_paths import path_text
from ._stages import Encoder, loader_spec, native_stages, stages_of
from ._tensors import tensor_library
from ._warnings import warn
from .decoder import SampleDecoder
from .errors import reraise_exception
from .task_encoder import DefaultTaskEncoder, TaskEncoder
from .worker_config import WorkerConfig


Wrapper = Callable[[_core.Pipeline], _core.Pipeline]


class DatasetRecipe:
    """Path, configuration, functions and options. Immutable. The native part borrows the functions
    in `options` and `stages`.

    Args:
        leaf: The number of the only dataset of the metadataset to read; None means all.
        wrappers: Put stages around the pipeline, innermost first.
    """

    def __init__(
        self,
        path: str,
        training: bool,
        worker_config: WorkerConfig,
        task_encoder: Encoder,
        options: dict[str, Any],
        stages: dict[str, Any] | None = None,
        permissions: Permissions = Permissions(),
        leaf: int | None = None,
        wrappers: tuple[Wrapper, ...] = (),
    ) -> None:
        self.path = path
        self.training = training
        self.worker_config = worker_config
        self.task_encoder = task_encoder
        self.options = options
        self.permissions = permissions
        self.leaf = leaf
        self.wrappers = wrappers
        handler = worker_config.global_error_handler
        packs = options.get("packing_buffer_size") is not None
        batched = options.get("batch_size") is not None
        self.natives = native_stages(task_encoder, packs=packs, batched=batched)
        if stages is None:
            stages = stages_of(
                task_encoder,
                packs=packs,
                batched=batched,
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
                self.natives,
                is_crude=is_crude,
                batched=self.options.get("batch_size") is not None,
                handler=handler if calls_handler(handler) else None,
            ),
        )

    def open(self) -> _core.Pipeline:
        """Opens the pipeline, which borrows functions of this object."""
        if self.leaf is None:
            pipeline = _core.open_pipeline(
                self.path, self.training, self._all_options(), self.stages
            )
        else:
            pipeline = self.open_leaves()[self.leaf]
        for wrapped in self.wrappers:
            pipeline = wrapped(pipeline)
        return pipeline

    def open_leaves(self) -> list[_core.Pipeline]:
        """Opens one validation pipeline for each dataset of the metadataset."""
        return _core.open_leaf_pipelines(self.path, self._all_options(), self.stages)

    def _all_options(self) -> dict[str, Any]:
        options = {**self.options, "foreign": self.foreign}
        for function in self.natives.values():
            options |= function._options()
        return options

    def changed(
        self,
        *,
        options: dict[str, Any] | None = None,
        stages: dict[str, Any] | None = None,
        leaf: int | None = None,
        wrapper: Wrapper | None = None,
        task_encoder: Encoder | None = None,
        path: str | None = None,
    ) -> "DatasetRecipe":
        """Returns the same recipe with these options or stages, of one dataset, with one more
        wrapper, with the functions of another encoder with the same decoder, or of other data."""
        if task_encoder is not None:
            options = options or {}
        recipe = DatasetRecipe(
            self.path if path is None else path,
            self.training,
            self.worker_config,
            self.task_encoder if task_encoder is None else task_encoder,
            {**self.options, **(options or {})},
            self.stages if stages is None and task_encoder is None else stages,
            self.permissions,
            self.leaf if leaf is None else leaf,
            self.wrappers if wrapper is None else (*self.wrappers, wrapper),
        )
        if options is None and stages is None:
            recipe.foreign = self.foreign  # pipelines of this recipe borrow its loaders
        return recipe


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
    check_is_object(encoder)
    decoder: Any = encoder.decoder
    if decoder is not None and not isinstance(decoder, SampleDecoder):
        raise TypeError(f"decoder must be a SampleDecoder or None, not a {type(decoder).__name__}")
    _check_hooks(encoder)
    options = {**options, **_decoding(encoder), "worker_config": worker_config}
    subflavors = options["subflavors"]
    if not isinstance(subflavors, dict):
        raise TypeError(f"subflavors must be a dict, not a {type(subflavors).__name__}")
    options["subflavors"] = json.dumps(subflavors)
    if options["cache_dir"] is not None:
        options["cache_dir"] = path_text(options["cache_dir"])
    options["exclude_files"] = [path_text(file) for file in options["exclude_files"]]
    if options.get("tensors") is None:
        options["tensors"] = tensor_library()
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


def check_is_object(encoder: Any) -> None:
    if isinstance(encoder, type):
        raise TypeError(f"task_encoder must be an object, not a class: {encoder.__name__}()")


def _check_hooks(encoder: Encoder) -> None:
    """Raises TypeError for hooks of Energon that nothing would call."""
    hooks = ("build_batch", "build_cook_crude_sample", "build_encode_sample")
    found = [name for name in hooks if hasattr(encoder, name)]
    if found:
        raise TypeError(
            f"{type(encoder).__name__} overrides {', '.join(found)}, which do not exist: pipelines "
            "are composed natively; override functions such as encode_sample and batch, or put "
            "wrappers around the dataset in build_train_datasets"
        )
    _warn_of_misspelled(encoder)


def _warn_of_misspelled(encoder: Encoder) -> None:
    """Warns about methods whose name is nearly that of a function, because nothing calls them."""
    known = [name for name in vars(TaskEncoder) if not name.startswith("_")]
    for name in {name for cls in type(encoder).__mro__ for name in vars(cls)}:
        if name.startswith("_") or name in known:
            continue
        found = inspect.getattr_static(encoder, name, None)  # runs no property
        if not callable(found) and not isinstance(found, (classmethod, staticmethod)):
            continue
        if meant := similar_name(name, known, 0.9):
            warn(f"{type(encoder).__name__}.{name} is never called; did you mean '{meant}'?")


_HINTS = {
    "cache_pool": "pass it to get_savable_loader() or get_loader()",
    "ignore_decoder_errors": "use on_error='skip'",
    "num_workers": "pass it to the worker configuration: WorkerConfig(..., num_workers=...)",
    "shuffle": "get_train_dataset() shuffles and get_val_dataset() does not",
    "subset": "set it in a metadataset",
    "part_filter": "set it in dataset.yaml",
    "sample_loader": "set it in dataset.yaml, and allow it with allow_imports",
}


explains_dataset_options = explains_options(_HINTS)
