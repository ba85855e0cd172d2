"""Options of get_train_dataset() and others that Energon has kept for old scripts."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

from ._recipe import check_is_object
from ._stages import Encoder
from ._warnings import warn
from .decoder import SampleDecoder
from .task_encoder import DefaultTaskEncoder, TaskEncoder

F = TypeVar("F", bound=Callable[..., Any])

_OF_DECODER = ("image_decode", "av_decode", "video_decode_audio")
_OLD = ("handler", "auto_decode", *_OF_DECODER)


def takes_old_options(function: F) -> F:
    """A decorator that accepts these options as Energon does. They are not parameters of the
    function. If it raises, the task encoder has its decoder of before.

    * `handler`: ignored, with a FutureWarning; WorkerConfig(global_error_handler=...) decides.
    * `auto_decode=False`: sets decoder = None in the task encoder, without a warning, and the
      following options have no effect.
    * `image_decode`, `av_decode`, `video_decode_audio`: set decoder = SampleDecoder(...) in the
      task encoder, which must have the default decoder or an equal one, with a FutureWarning.
    """

    @functools.wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in _OLD if name in options}
        if not given:
            return function(*arguments, **options)
        encoder = options.get("task_encoder") or DefaultTaskEncoder()
        check_is_object(encoder)
        options["task_encoder"] = encoder
        before = encoder.decoder
        decoder = _decoder(encoder, given)
        if decoder is before:
            return function(*arguments, **options)
        encoder.decoder = decoder
        try:
            return function(*arguments, **options)
        except BaseException:
            encoder.decoder = before
            raise

    return called  # type: ignore[return-value]


def _decoder(encoder: Encoder, given: dict[str, Any]) -> Any:
    """The decoder of the encoder with these options."""
    if "handler" in given:
        text = "handler is deprecated and ignored: use WorkerConfig(global_error_handler=...)"
        warn(text, FutureWarning)
    decoding = {name: given[name] for name in _OF_DECODER if name in given}
    if not given.get("auto_decode", True):
        return None
    if not decoding:
        return encoder.decoder
    names = ", ".join(decoding)
    text = f"{names}: deprecated, set decoder = SampleDecoder(...) in the task encoder"
    warn(text, FutureWarning)
    decoder = SampleDecoder(**decoding)
    if encoder.decoder is TaskEncoder.decoder:
        return decoder
    if encoder.decoder != decoder:
        raise ValueError(
            f"{names}: the task encoder has another decoder, {encoder.decoder}, so {decoder} "
            "cannot be set; pass it in the task encoder only"
        )
    return encoder.decoder
