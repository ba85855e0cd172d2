"""The decoder of the parts of samples, SampleDecoder, and its tokenizer."""

from __future__ import annotations

import abc
import dataclasses
import functools
import os
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Union

from . import _core
from ._explained_options import checks_fields
from ._shard_paths import path_text
from ._tensors import tensor_library

if TYPE_CHECKING:
    from .transforms import LogMel, Transform, Waveform


class FileStoreDecoder(abc.ABC):
    """Base class of decoders of files by name, for DecodeFileStore."""

    @abc.abstractmethod
    def decode(self, fname: str, data: Any) -> Any:
        """Decodes `data`, the bytes of the file `fname`."""


@checks_fields
@dataclasses.dataclass(frozen=True)
class SentencePieceTokenizer:
    """Converts texts to tokens with a model of SentencePiece, natively: SampleDecoder(tokenizer=...).
    Names match those of its package where it has them. Objects are immutable and can be compared,
    hashed and pickled. Use only models whose origin you trust.

    Args:
        path: The file, such as "tokenizer.model".
        fields: For each field with text, the name of the field for its tokens, int32 of shape
            (tokens). The field may be a list of strings, and the names may be equal.
        add_bos: Add the token for the beginning of a text.
        add_eos: Add the token for its end.
        max_length: The largest number of tokens. Longer ones are cut; a token added for the end
            stays the last.
        nbest_size: Draw one of that many best segmentations, for a model of the type unigram: 2 to
            1024. The random numbers are those of the sample. None means the best.
        alpha: Segmentations are drawn with a probability proportional to p^alpha.
    """

    path: str | os.PathLike[str]
    fields: Union[Mapping[str, str], Sequence[tuple[str, str]]] = (("txt", "tokens"),)
    add_bos: bool = dataclasses.field(default=False, kw_only=True)
    add_eos: bool = dataclasses.field(default=False, kw_only=True)
    max_length: int | None = dataclasses.field(default=None, kw_only=True)
    nbest_size: int | None = dataclasses.field(default=None, kw_only=True)
    alpha: float = dataclasses.field(default=0.1, kw_only=True)

    def __post_init__(self) -> None:
        fields = self.fields.items() if isinstance(self.fields, Mapping) else self.fields
        if any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in fields):
            raise ValueError(
                f"fields must map fields with text to those for tokens, such as "
                f"{{'txt': 'tokens'}}, not be {self.fields!r}"
            )
        object.__setattr__(self, "fields", tuple((str(text), str(to)) for text, to in fields))
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, or None, not {self.max_length}")
        if self.nbest_size is not None and not 2 <= self.nbest_size <= 1024:
            raise ValueError(f"nbest_size must be 2 to 1024, or None, not {self.nbest_size}")
        if not 0 <= self.alpha < float("inf"):
            raise ValueError(f"alpha must be at least 0, not {self.alpha}")
        object.__setattr__(self, "path", path_text(self.path))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text: the best segmentation, in full length."""
        return self._native().tokens(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        return self._native().text([int(one) for one in ids])

    def vocab_size(self) -> int:
        return self._native().vocabulary_size()

    def bos_id(self) -> int:
        """The token for the beginning; -1 if the model has none, like the following."""
        return self._native().special_tokens()["bos"]

    def eos_id(self) -> int:
        return self._native().special_tokens()["eos"]

    def pad_id(self) -> int:
        return self._native().special_tokens()["pad"]

    def unk_id(self) -> int:
        return self._native().special_tokens()["unk"]

    def _native(self) -> _core.NativeTokenizer:
        return _tokenizer(self)

    def _options(self) -> dict[str, Any]:
        return {
            "tokenizer": self._native(),
            "token_fields": list(self.fields),
            "max_tokens": self.max_length,
        }


@functools.lru_cache(maxsize=8)
def _tokenizer(of: SentencePieceTokenizer) -> _core.NativeTokenizer:
    sampling = None if of.nbest_size is None else (of.nbest_size, of.alpha)
    return _core.NativeTokenizer(str(of.path), of.add_bos, of.add_eos, sampling)


def check_sample_rate(name: str, rate: Any) -> None:
    """Raises ValueError or TypeError unless sound can be resampled to this rate, or it is None."""
    if rate is None:
        return
    if isinstance(rate, bool) or not isinstance(rate, int):
        raise TypeError(f"{name} must be a whole number of samples per second, not {rate!r}")
    if not 100 <= rate <= 768_000:
        raise ValueError(f"{name} must be from 100 to 768000 samples per second, not {rate}")


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
        audio_sample_rate: Resample sound to this many samples per second, as float32 with 1 for
            full scale; None leaves the rate and the format of the file.
        guess_content: Decode parts with unknown names according to their first bytes.
        parts: Names of the parts to decode, while other parts of crude samples stay bytes; None
            means all parts.
        transform: Transforms of images, from energon_cpp.transforms. Images with 16 bits become
            8-bit. Gray images with channels last have the shape (H, W, 1).
        tokenizer: Converts texts of samples to tokens, after cookers and before encode_sample;
            decode() by hand leaves texts.
        sound_transform: Waveform or LogMel of energon_cpp.transforms for parts with sound (wav,
            flac, mp3, ogg, aac, m4a), whatever av_decode says.
    """

    image_decode: str | None = "torchrgb"
    av_decode: str = "AVDecoder"
    video_decode_audio: bool = False
    audio_sample_rate: int | None = None
    guess_content: bool = False
    parts: tuple[str, ...] | None = None
    transform: Transform | Sequence[Transform] | None = None
    tokenizer: SentencePieceTokenizer | None = None
    sound_transform: Waveform | LogMel | None = None

    def __post_init__(self) -> None:
        check_sample_rate("audio_sample_rate", self.audio_sample_rate)
        if self.tokenizer is not None and not isinstance(self.tokenizer, SentencePieceTokenizer):
            raise TypeError(
                f"tokenizer must be a SentencePieceTokenizer, not a "
                f"{type(self.tokenizer).__name__}; call other tokenizers in encode_samples"
            )
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
        transform, tokenizer = values.pop("transform"), values.pop("tokenizer")
        if transform is not None:
            values["transform"] = [repr(one) for one in transform]
        if tokenizer is not None:
            values["tokenizer"] = repr(tokenizer)
        sound = values.pop("sound_transform")
        if sound is not None:
            values["sound_transform"] = repr(sound)
        return values

    def _native(self) -> _core.PartDecoder:
        return _part_decoder(self, tensor_library())

    def _av(self, fname: str, decoded: Any) -> Any:
        """Wraps bytes of sound and video in an AVDecoder."""
        if self.av_decode != "AVDecoder" or not _core.is_av_name(fname):
            return decoded
        if self.sound_transform is not None and _core.is_sound_name(fname):
            return decoded
        from .av import AVDecoder

        return AVDecoder(decoded, audio_sample_rate=self.audio_sample_rate)

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
            "av_decoders_sample_rate": self.audio_sample_rate,
            "audio_sample_rate": self.audio_sample_rate,
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
    options = {name: value for name, value in decoder._options().items() if "av_decoders" not in name}
    return _core.PartDecoder(options, tensors)
