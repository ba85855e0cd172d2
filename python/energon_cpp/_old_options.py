"""Options of get_train_dataset() and others that Energon has kept for old scripts."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

from ._warnings import warn
from .decoder import SampleDecoder
from .task_encoder import DefaultTaskEncoder, TaskEncoder

F = TypeVar("F", bound=Callable[..., Any])

_OF_DECODER = ("image_decode", "av_decode", "video_decode_audio")
_OLD = ("handler", "auto_decode", *_OF_DECODER)


def takes_old_options(function: F) -> F:
    """A decorator that accepts these options as Energon does, with a FutureWarning. They are not
    parameters of the function:

    * `handler`: ignored; WorkerConfig(global_error_handler=...) decides.
    * `auto_decode=False`: sets decoder = None in the task encoder.
    * `image_decode`, `av_decode`, `video_decode_audio`: set decoder = SampleDecoder(...) in the
      task encoder, which must have the default decoder or an equal one.
    """

    @functools.wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in _OLD if name in options}
        if given:
            encoder = options.get("task_encoder")
            options["task_encoder"] = _with_old_options(encoder, given)
        return function(*arguments, **options)

    return called  # type: ignore[return-value]


def _with_old_options(encoder: Any, given: dict[str, Any]) -> Any:
    encoder = encoder or DefaultTaskEncoder()
    if "handler" in given:
        text = "handler is deprecated and ignored: use WorkerConfig(global_error_handler=...)"
        warn(text, FutureWarning)
    decoding = {name: given[name] for name in _OF_DECODER if name in given}
    if not given.get("auto_decode", True):
        encoder.decoder = None
    elif decoding:
        names = ", ".join(decoding)
        text = f"{names}: deprecated, set decoder = SampleDecoder(...) in the task encoder"
        warn(text, FutureWarning)
        decoder = SampleDecoder(**decoding)
        if encoder.decoder is TaskEncoder.decoder:
            encoder.decoder = decoder
        elif encoder.decoder != decoder:
            raise ValueError(
                f"{names}: the task encoder has another decoder, {encoder.decoder}, so {decoder} "
                "cannot be set; pass it in the task encoder only"
            )
    return encoder
