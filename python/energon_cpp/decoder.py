"""The decoder of the parts of samples: SampleDecoder."""

from __future__ import annotations

import abc
import dataclasses
import functools
import sys
from typing import TYPE_CHECKING, Any, Sequence

from . import _core
from ._explained_options import checks_fields

if TYPE_CHECKING:
    from .transforms import LogMel, Transform, Waveform


class FileStoreDecoder(abc.ABC):
    """Base class of decoders of files by name, for DecodeFileStore."""

    @abc.abstractmethod
    def decode(self, fname: str, data: Any) -> Any:
        """Decodes `data`, the bytes of the file `fname`."""


_AV_MODES = ("AVDecoder", "torch", "bytes")


@checks_fields
@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleDecoder(FileStoreDecoder):
    """Decodes parts according to their names, natively, without the interpreter.

    Args:
        image_decode: Mode of images, such as "torchrgb" (float32 in [0, 1], shape (3, H, W)),
            "torchrgb8" (uint8, shape (3, H, W)) or "rgb8" (uint8, shape (H, W, 3)); None leaves
            images as bytes.
        av_decode: "AVDecoder" makes AVDecoder objects of sound and video, "torch" decodes them
            whole, "bytes" leaves them as bytes.
        video_decode_audio: Accepted without effect: "torch" always decodes the sound.
        guess_content: Decode parts with unknown names according to their first bytes.
        parts: Names of the parts to decode, while other parts of crude samples stay bytes; None
            means all parts.
        transform: Transforms of images, from energon_cpp.transforms. Images with 16 bits become
            8-bit. Gray images with channels last have the shape (H, W, 1).
        sound_transform: Waveform or LogMel of energon_cpp.transforms for parts with sound (wav,
            flac, mp3, ogg, aac, m4a), whatever av_decode says.
    """

    image_decode: str | None = "torchrgb"
    av_decode: str = "AVDecoder"
    video_decode_audio: bool = False
    guess_content: bool = False
    parts: tuple[str, ...] | None = None
    transform: Transform | Sequence[Transform] | None = None
    sound_transform: Waveform | LogMel | None = None

    def __post_init__(self) -> None:
        if self.sound_transform is not None:
            from .transforms import SoundTransform  # takes long

            if not isinstance(self.sound_transform, SoundTransform):
                raise TypeError(
                    f"sound_transform must be Waveform or LogMel of energon_cpp.transforms, not "
                    f"{self.sound_transform!r}; call functions of other libraries in encode_sample"
                )
        if self.transform is None:
            return
        from .transforms import list_of, native_options  # takes long

        transforms = list_of(self.transform)
        native_options(transforms)  # raises for a wrong order
        object.__setattr__(self, "transform", transforms)
        if self.image_decode is None:
            raise ValueError("transform needs decoded images, but image_decode is None")

    def decode(self, fname: str, raw: Any) -> Any:
        """Decodes `raw`, the bytes of a part called `fname`, as the pipeline does."""
        return self._av(fname, self._native().decode(fname, raw))

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Returns the sample with its parts decoded and its other entries unchanged."""
        return {
            name: self.decode(name, value) if self._is_wanted(name) else value
            for name, value in sample.items()
        }

    def _is_wanted(self, name: str) -> bool:
        return not name.startswith("__") and (self.parts is None or name in self.parts)

    def config(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        transform = values.pop("transform")
        if transform is not None:
            values["transform"] = [repr(one) for one in transform]
        sound = values.pop("sound_transform")
        if sound is not None:
            values["sound_transform"] = repr(sound)
        return values

    def _native(self) -> _core.PartDecoder:
        return _part_decoder(self, "torch" if "torch" in sys.modules else "energon")

    def _av(self, fname: str, decoded: Any) -> Any:
        """Wraps bytes of sound and video in an AVDecoder."""
        if self.av_decode != "AVDecoder" or not _core.is_av_name(fname):
            return decoded
        if self.sound_transform is not None and _core.is_sound_name(fname):
            return decoded
        from .av import AVDecoder

        return AVDecoder(decoded)

    def _options(self) -> dict[str, Any]:
        if self.av_decode not in _AV_MODES:
            is_pyav = self.av_decode == "pyav"
            hint = "; open the container with av.open(io.BytesIO(part))" if is_pyav else ""
            raise ValueError(f"av_decode must be one of {_AV_MODES}, not {self.av_decode!r}{hint}")
        return {
            "decode": True,
            "image_decode": self.image_decode,
            "av_tensors": self.av_decode == "torch",
            "av_decoders": self.av_decode == "AVDecoder",
            "guess_content": self.guess_content,
            "decode_parts": self.parts,
            **self._transform_options(),
            **({} if self.sound_transform is None else self.sound_transform._options()),
        }

    def _transform_options(self) -> dict[str, Any]:
        if self.transform is None:
            return {}
        from .transforms import list_of, native_options

        return native_options(list_of(self.transform))


@functools.lru_cache(maxsize=16)
def _part_decoder(decoder: SampleDecoder, tensors: str) -> _core.PartDecoder:
    options = {name: value for name, value in decoder._options().items() if name != "av_decoders"}
    return _core.PartDecoder(options, tensors)
