"""Describes the functions of a task encoder for the native part."""

from __future__ import annotations

import inspect
import json
from typing import Any, Callable, Container

from ._cooking import CookFunction
from ._handlers import with_handler, with_handler_of_each
from .batching import NativeFunction
from .cooking import get_failure_tolerance
from .errors import ErrorHandler
from .task_encoder import TaskEncoder, stage_function

Encoder = TaskEncoder[Any, Any, Any, Any]

_OF_SAMPLES = ["encode_sample", "encode_samples", "preencode_sample", "postencode_sample"]
_OF_PACKING = ["select_samples_to_pack", "pack_selected_samples"]


def stages_of(
    encoder: Encoder, *, packs: bool, batched: bool, handler: ErrorHandler | None = None
) -> dict[str, Any]:
    """Returns the functions of the encoder as open_pipeline() takes them.

    Random numbers are not seeded before functions with draws_nothing, which are the package's own.

    Args:
        encoder: The task encoder.
        packs: Whether the pipeline has a packing buffer.
        batched: Whether the pipeline has a batch size.
        handler: Receives the failures of the functions.
    """
    used = _used(encoder, packs, batched)
    natives = native_stages(encoder, packs=packs, batched=batched)
    batched = batched or "batch_group_criterion" in used
    used = {name: function for name, function in used.items() if name not in natives}
    default: int | None = encoder.__default_failure_tolerance__
    flow = flow_of({*used, "cookers"} if encoder.cookers else used, natives, batched)

    def spec(name: str, function: Callable[..., Any], marked: Any = None) -> dict[str, Any]:
        place = flow.index(name) if name in flow else None
        after = flow[place + 1 :] if place is not None else []
        is_generator = inspect.isgeneratorfunction(inspect.unwrap(function))
        if name == "encode_samples" and is_generator:
            raise TypeError("encode_samples must return a list, so it cannot be a generator")
        handled = with_handler_of_each if name == "encode_samples" else with_handler
        return {
            "call": function if handler is None else handled(function, handler),
            "is_generator": is_generator,
            "hands_on": bool(after) and after[0] is not None,
            "is_last": not after,
            "takes_batches": name == "encode_batch",
            "draws": handler is not None or not getattr(function, "draws_nothing", False),
            "failure_tolerance": get_failure_tolerance(marked or function, default),
        }

    stages: dict[str, Any] = {name: spec(name, function) for name, function in used.items()}
    if encoder.cookers:
        stages["cookers"] = []
    for cooker in encoder.cookers:
        cook = CookFunction(cooker, encoder.decoder, stage_function(encoder, "cook_crude_sample"))
        subflavors = {"has_subflavors": json.dumps(cooker.has_subflavors or {})}
        more = subflavors | {"takes_files": cook.takes_files()}
        stages["cookers"].append(spec("cookers", cook, cooker.cook) | more)
    return stages


def native_stages(encoder: Encoder, *, packs: bool, batched: bool) -> dict[str, Any]:
    """Returns the functions of the encoder that run natively, by their names, and its tokenizer, as
    objects with _options()."""
    used = _used(encoder, packs, batched)
    found: dict[str, Any] = {
        name: function
        for name, function in used.items()
        if isinstance(function, NativeFunction) and function.stage == name
    }
    if "batch" in used and "batch" not in found:
        # A function of Python for batches gets the objects of other functions.
        found.pop("batch_group_criterion", None)
    decoder = encoder.decoder
    if decoder is not None and decoder.tokenizer is not None:
        found["tokenizer"] = decoder.tokenizer
    return found


def flow_of(
    used: Container[str], natives: Container[str], batched: bool
) -> list[str | None]:
    """Returns the names of functions of Python in the order in which samples pass through. None is a
    function of the library."""
    names = ["cookers", "tokenizer", *_OF_SAMPLES, "pack_selected_samples"]
    flow = [None if name in natives else name for name in names if name in natives or name in used]
    if batched:
        flow += ["batch" if "batch" in used else None]
        flow += ["encode_batch"] if "encode_batch" in used else []
    return flow


def loader_spec(
    load: Callable[..., Any],
    stages: dict[str, Any],
    natives: Container[str],
    *,
    is_crude: bool,
    batched: bool,
    handler: ErrorHandler | None = None,
) -> dict[str, Any]:
    """Returns the function that makes the samples of a dataset as open_pipeline() takes it.

    Args:
        load: The function.
        stages: What stages_of() returned.
        natives: What native_stages() returned.
        is_crude: Whether cookers take its samples.
        batched: Whether the pipeline has a batch size.
        handler: Receives the failures of the function.
    """
    used = stages if is_crude else [name for name in stages if name != "cookers"]
    batched = batched or "batch_group_criterion" in stages or "batch_group_criterion" in natives
    flow = flow_of(used, natives, batched)
    return {
        "call": load if handler is None else with_handler(load, handler),
        "is_generator": False,
        "hands_on": bool(flow) and flow[0] is not None,
        "is_last": not flow,
        "takes_batches": False,
        "draws": True,
    }


def _used(encoder: Encoder, packs: bool, batched: bool) -> dict[str, Callable[..., Any]]:
    names = _OF_SAMPLES + ["sample_cost"] + (_OF_PACKING if packs else [])
    names += ["batch_group_criterion"]
    used = {name: stage_function(encoder, name) for name in names}
    if batched or used["batch_group_criterion"] is not None:
        used |= {name: stage_function(encoder, name) for name in ("batch", "encode_batch")}
    return {name: function for name, function in used.items() if function is not None}
