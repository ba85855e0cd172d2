"""Transforms of images, which the native decoder applies: SampleDecoder(transform=[...]). Those of
sound, Waveform and LogMel, are at the end: SampleDecoder(sound_transform=...).

Names and arguments are those of torchvision.transforms.v2; a class says where it differs. Only the
needed part of an image is decoded, and consecutive geometric transforms are one resampling, so
pixels differ slightly from those of separate steps. Random numbers come from the seed of the job
and the key of the sample, so that a restored sample is the same again.

Transforms of geometry come before those of colors, and Normalize and ToDtype last. QwenPatches and
Tiles make the inputs of vision-language models, and come after geometry and colors. Sizes are
(height, width), or one number for both unless a class says otherwise. `fill` is the color of new
pixels: levels from 0 to 255, one for all channels or one for each. All transforms of a list that
set `fill`, `interpolation` or `antialias` must set the same value.

MergeTransform and CustomTransform, of Energon, are for functions of samples: they merge transforms
of torchvision.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from typing import TYPE_CHECKING, Any, Callable, Sequence, TypeVar, Union

from ._explained_options import checks_fields, explains_options
from .decoder import check_sample_rate

if TYPE_CHECKING:  # at run time, energon_cpp adds them
    from ._merged_transforms import CustomTransform as CustomTransform
    from ._merged_transforms import MergeTransform as MergeTransform
    from ._merged_transforms import TransformMapper as TransformMapper

__all__ = [
    "CLIP_MEAN",
    "CLIP_STD",
    "CenterCrop",
    "ColorJitter",
    "ExifTranspose",
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "LogMel",
    "Normalize",
    "Pad",
    "PadToSquare",
    "QwenPatches",
    "RandomCrop",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "SoundTransform",
    "Tiles",
    "ToDtype",
    "Transform",
    "Waveform",
    "smart_resize",
]

# Of RGB from 0 to 1: of CLIP (Qwen2-VL, Qwen2.5-VL, LLaVA) and of ImageNet (InternVL).
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Size = Union[int, Sequence[int]]
Fill = Union[float, Sequence[float]]
_Step = tuple[str, list[float]]

T = TypeVar("T")

_FILTERS = ("nearest", "box", "bilinear", "bicubic")
_DTYPES = ("uint8", "float16", "bfloat16", "float32")


def _explains(**elsewhere: str) -> Callable[[type[T]], type[T]]:
    """The decorator checks_fields() for a class without these arguments of torchvision."""

    def decorated(cls: type[T]) -> type[T]:
        cls.__init__ = explains_options(elsewhere)(cls.__init__)  # type: ignore[method-assign]
        return cls

    return decorated


@dataclasses.dataclass(frozen=True)
class Transform:
    """Base class of the transforms. Objects are immutable and can be compared and hashed."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
        # These raise for wrong values.
        self._steps()
        if hasattr(self, "interpolation"):
            _filter(self)
        if getattr(self, "fill", None) is not None:
            _fill(self)

    def _steps(self) -> list[_Step]:
        """The native steps."""
        return []


@checks_fields
@dataclasses.dataclass(frozen=True)
class ExifTranspose(Transform):
    """Turns images upright as their EXIF orientation says; the first transform. TIFFs are always
    upright. Pillow has this function in ImageOps."""


@checks_fields
@dataclasses.dataclass(frozen=True)
class Resize(Transform):
    """Resizes the image.

    Args:
        size: (height, width); or the shorter side, and the other keeps the ratio; or None, and
            `max_size` is the longer side.
        interpolation: "nearest" (in torchvision NEAREST_EXACT), "box", "bilinear" or "bicubic", or
            one of torchvision's InterpolationMode.
        max_size: The longer side is no longer than this, which is more than `size`.
        antialias: Whether all covered pixels count when an image is shrunk.
    """

    size: Size | None
    interpolation: Any = "bilinear"
    max_size: int | None = None
    antialias: bool = True

    def _steps(self) -> list[_Step]:
        longest = [] if self.max_size is None else _whole(self, "max_size", self.max_size, count=1)
        if self.size is None:
            if not longest:
                raise ValueError("Resize: max_size must be set if size is None")
            return [("ResizeLongest", longest)]
        sides = _whole(self, "size", self.size)
        if len(sides) == 1:
            if longest and longest <= sides:
                raise ValueError(
                    f"Resize: max_size must be more than size, {self.size}, not {self.max_size}"
                )
            return [("ResizeShortest", sides + longest)]
        if longest:
            raise ValueError("Resize: max_size needs a size that is one number")
        return [("ResizeTo", _width_height(self, sides))]


@checks_fields
@dataclasses.dataclass(frozen=True)
class CenterCrop(Transform):
    """Crops in the middle. Smaller images get a border of `fill`."""

    size: Size
    fill: Fill | None = dataclasses.field(default=None, kw_only=True)

    def _steps(self) -> list[_Step]:
        return [("CenterCrop", _width_height(self, _whole(self, "size", self.size)))]


@_explains(padding="put transforms.Pad before it", pad_if_needed="smaller images get a border")
@dataclasses.dataclass(frozen=True)
class RandomCrop(Transform):
    """Crops at a random place. Smaller images get a border of `fill` first, half of it on each
    side; torchvision raises an error for them, or with pad_if_needed adds all of it on both."""

    size: Size
    fill: Fill | None = dataclasses.field(default=None, kw_only=True)

    def _steps(self) -> list[_Step]:
        return [("RandomCrop", _width_height(self, _whole(self, "size", self.size)))]


@checks_fields
@dataclasses.dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """Crops a random box and resizes it.

    Args:
        size: The size of the result.
        scale: The least and the largest share of the area.
        ratio: The least and the largest ratio of width to height.
        interpolation: As in Resize.
        antialias: As in Resize.
    """

    size: Size
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    interpolation: Any = "bilinear"
    antialias: bool = True

    def _steps(self) -> list[_Step]:
        size = _width_height(self, _whole(self, "size", self.size))
        scale, ratio = _pair(self, "scale", self.scale), _pair(self, "ratio", self.ratio)
        return [("RandomResizedCrop", size + scale + ratio)]


@checks_fields
@dataclasses.dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Flips left and right with probability `p`."""

    p: float = 0.5

    def _steps(self) -> list[_Step]:
        return [("RandomHorizontalFlip", _probability(self, self.p))]


@checks_fields
@dataclasses.dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    """Flips top and bottom with probability `p`."""

    p: float = 0.5

    def _steps(self) -> list[_Step]:
        return [("RandomVerticalFlip", _probability(self, self.p))]


@_explains(expand="the size stays", center="it is the middle")
@dataclasses.dataclass(frozen=True)
class RandomRotation(Transform):
    """Rotates around the middle, counter-clockwise; the size stays, and corners get `fill`.

    Args:
        degrees: The least and the largest angle, or one number for -degrees to degrees.
        interpolation: As in Resize; in torchvision the default is "nearest".
        fill: The color of the corners.
    """

    degrees: float | Sequence[float]
    interpolation: Any = "bilinear"
    fill: Fill | None = dataclasses.field(default=None, kw_only=True)

    def _steps(self) -> list[_Step]:
        angles = _reals(self, "degrees", self.degrees)
        if len(angles) == 1:
            angles = [-angles[0], angles[0]]
        return [("RandomRotation", _pair(self, "degrees", angles))]


@checks_fields
@dataclasses.dataclass(frozen=True)
class Pad(Transform):
    """Adds a border.

    Args:
        padding: Pixels on each side; or (left and right, top and bottom); or (left, top, right,
            bottom).
        fill: The color of the border.
    """

    padding: Size
    fill: Fill | None = None

    def _steps(self) -> list[_Step]:
        sides = _whole(self, "padding", self.padding, least=0)
        if len(sides) not in (1, 2, 4):
            raise ValueError(f"Pad: padding must be 1, 2 or 4 numbers, not {self.padding!r}")
        return [("Pad", (sides * 4)[:4])]


@checks_fields
@dataclasses.dataclass(frozen=True)
class PadToSquare(Transform):
    """Adds a border that makes the image square, half of it on each side. Not in torchvision."""

    fill: Fill | None = None

    def _steps(self) -> list[_Step]:
        return [("PadToSquare", [])]


@checks_fields
@dataclasses.dataclass(frozen=True)
class ColorJitter(Transform):
    """Changes brightness, contrast and saturation by random factors in [max(0, 1 - x), 1 + x], and
    turns the hue by a share of the circle in [-x, x], in random order. 0 means no change."""

    brightness: float = 0
    contrast: float = 0
    saturation: float = 0
    hue: float = 0

    def _steps(self) -> list[_Step]:
        names = [field.name for field in dataclasses.fields(self)]
        return [("ColorJitter", [n for a in names for n in _reals(self, a, getattr(self, a), 1)])]


@checks_fields
@dataclasses.dataclass(frozen=True)
class RandomGrayscale(Transform):
    """Makes the image gray with probability `p`; the number of channels stays."""

    p: float = 0.1

    def _steps(self) -> list[_Step]:
        return [("RandomGrayscale", _probability(self, self.p))]


@checks_fields
@dataclasses.dataclass(frozen=True)
class Normalize(Transform):
    """Subtracts `mean` and divides by `std`, for values from 0 to 1: one number for all channels,
    or one for each. Needs a mode of floating-point numbers, such as "torchrgb"."""

    mean: float | Sequence[float]
    std: float | Sequence[float]

    def _steps(self) -> list[_Step]:
        _reals(self, "mean", self.mean)
        _reals(self, "std", self.std)
        return []


@checks_fields
@dataclasses.dataclass(frozen=True)
class ToDtype(Transform):
    """The dtype of the result, instead of that of the image mode: "uint8" (levels from 0 to 255),
    "float16", "bfloat16" or "float32" (0 to 1), or the dtype of torch. `scale` must be true; in
    torchvision it is false by default."""

    dtype: Any
    scale: bool = True

    def _steps(self) -> list[_Step]:
        if self._name() not in _DTYPES:
            raise ValueError(f"ToDtype: dtype must be one of {_DTYPES}, not {self.dtype!r}")
        if self.scale is not True:
            raise ValueError("ToDtype: scale must be True: floating-point values are from 0 to 1")
        return []

    def _name(self) -> str:
        return str(self.dtype).removeprefix("torch.")


@dataclasses.dataclass(frozen=True)
class _Layout(Transform):
    """Base class of the transforms that define what the tensor contains."""

    def _layout(self) -> _Step:
        """The native layout."""
        raise NotImplementedError

    def _mean_std(self) -> tuple[list[float], list[float]] | None:
        mean, std = getattr(self, "image_mean"), getattr(self, "image_std")
        if mean is None and std is None:
            return None
        return _reals(self, "image_mean", mean), _reals(self, "image_std", std)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._layout()
        self._mean_std()


@_explains(do_resize="it always resizes", size="use min_pixels and max_pixels")
@dataclasses.dataclass(frozen=True)
class QwenPatches(_Layout):
    """Resizes the image with smart_resize() and cuts it into patches, as Qwen2VLImageProcessor of
    transformers does for Qwen2-VL, Qwen2.5-VL and Qwen3-VL. The part becomes a dict, which is the
    result of that processor for one image:

        pixel_values: (patches, 3 * temporal_patch_size * patch_size**2), float32 or ToDtype.
        image_grid_thw: int64 (1, 3), which are 1, and the rows and columns of patches.

    The entries of several images are joined along dimension 0. like() takes the arguments from a
    processor; Qwen3-VL has patch_size=16 and 0.5 as mean and std.

    Args:
        patch_size: The side of a patch in pixels.
        temporal_patch_size: Frames in a patch; an image is repeated.
        merge_size: The model merges squares of patches with this side.
        min_pixels: The least area of the resized image.
        max_pixels: The largest area of the resized image.
        image_mean: As Normalize(mean), which must not be used with it; None to leave 0 to 1.
        image_std: As Normalize(std); None to leave 0 to 1.
        interpolation: As in Resize.
        exact: Whether images are decoded in their own size, as Pillow does. Otherwise large JPEGs
            are decoded at 1/2, 1/4 or 1/8 where that suffices, which is faster.
    """

    patch_size: int = 14
    temporal_patch_size: int = 2
    merge_size: int = 2
    min_pixels: int = 56 * 56
    max_pixels: int = 28 * 28 * 1280
    image_mean: float | Sequence[float] | None = CLIP_MEAN
    image_std: float | Sequence[float] | None = CLIP_STD
    interpolation: Any = "bicubic"
    exact: bool = True

    @classmethod
    def like(cls, processor: Any, **changes: Any) -> QwenPatches:
        """The same as a processor of transformers, whose size is {"shortest_edge": min_pixels,
        "longest_edge": max_pixels}; `changes` are other arguments."""
        names = ("patch_size", "temporal_patch_size", "merge_size")
        found = {name: getattr(processor, name) for name in names}
        found["min_pixels"] = _of_size(processor, "shortest_edge")
        found["max_pixels"] = _of_size(processor, "longest_edge")
        return cls(**{**found, **_mean_std_of(processor), **changes})

    def _layout(self) -> _Step:
        _check_area(self.min_pixels, self.max_pixels)
        names = ("patch_size", "temporal_patch_size", "merge_size", "min_pixels", "max_pixels")
        return ("Patches", [n for a in names for n in _whole(self, a, getattr(self, a), count=1)])


@_explains(do_resize="it always resizes", crop_to_patches="it always crops")
@dataclasses.dataclass(frozen=True)
class Tiles(_Layout):
    """Resizes the image to a grid of tiles and cuts it, as GotOcr2ImageProcessor of transformers,
    the processor of InternVL, does with crop_to_patches=True. The tensor is (tiles, 3, height,
    width), row by row; with more than one tile, the last one is the whole image as a thumbnail.

    The grid is the one whose ratio is nearest to that of the image; among equal ratios, a larger
    grid if the image has more than half of its pixels. like() takes the arguments from a processor.

    Args:
        size: The size of a tile.
        min_patches: The least number of tiles, without the thumbnail.
        max_patches: The largest number of tiles, without the thumbnail.
        use_thumbnail: Whether to add a thumbnail.
        image_mean: As Normalize(mean), which must not be used with it; None to leave 0 to 1.
        image_std: As Normalize(std); None to leave 0 to 1.
        interpolation: As in Resize.
        exact: As in QwenPatches.
    """

    size: Size = 448
    min_patches: int = 1
    max_patches: int = 12
    use_thumbnail: bool = True
    image_mean: float | Sequence[float] | None = IMAGENET_MEAN
    image_std: float | Sequence[float] | None = IMAGENET_STD
    interpolation: Any = "bicubic"
    exact: bool = True

    @classmethod
    def like(cls, processor: Any, **changes: Any) -> Tiles:
        """The same as a processor of transformers; `changes` are other arguments."""
        found = {name: getattr(processor, name) for name in ("min_patches", "max_patches")}
        found["size"] = (_of_size(processor, "height"), _of_size(processor, "width"))
        return cls(**{**found, **_mean_std_of(processor), **changes})

    def _layout(self) -> _Step:
        size = _width_height(self, _whole(self, "size", self.size))
        least = _whole(self, "min_patches", self.min_patches, count=1)
        most = _whole(self, "max_patches", self.max_patches, least=int(least[0]), count=1)
        return ("Tiles", size + least + most + [float(self.use_thumbnail)])


def _check_area(min_pixels: int, max_pixels: int) -> None:
    if min_pixels > max_pixels:
        raise ValueError(f"min_pixels is {min_pixels}, above max_pixels, which is {max_pixels}")


def smart_resize(
    height: int,
    width: int,
    factor: int = 28,
    min_pixels: int = 56 * 56,
    max_pixels: int = 28 * 28 * 1280,
) -> tuple[int, int]:
    """Returns the (height, width) to which QwenPatches resizes an image: multiples of `factor`,
    which is patch_size * merge_size, with an area from `min_pixels` to `max_pixels` and nearly the
    same ratio. The same as smart_resize() of transformers. Raises InvalidArgumentError if one side
    is more than 200 times the other."""
    from . import _core

    _check_area(min_pixels, max_pixels)
    return _core.smart_resize(height, width, factor, min_pixels, max_pixels)


@dataclasses.dataclass(frozen=True)
class SoundTransform:
    """Base class of the transforms of sound. Objects are immutable and can be compared."""

    def __post_init__(self) -> None:
        self._options()

    def _options(self) -> dict[str, Any]:
        """The options of the native decoder."""
        raise NotImplementedError


@checks_fields
@dataclasses.dataclass(frozen=True)
class Waveform(SoundTransform):
    """The samples, float32 (samples) from -1 to 1: the mean of the channels, at `sampling_rate`.
    Resampled as torchaudio.functional.resample does with its default arguments."""

    sampling_rate: int = 16000

    def _options(self) -> dict[str, Any]:
        rate = int(_whole(self, "sampling_rate", self.sampling_rate, count=1)[0])
        check_sample_rate(f"{type(self).__name__}: sampling_rate", rate)
        return {"sound_rate": rate}


@_explains(dither="add noise in encode_sample", padding_value="silence is 0")
@dataclasses.dataclass(frozen=True)
class LogMel(SoundTransform):
    """The log-mel spectrogram of Waveform, as WhisperFeatureExtractor of transformers computes it:
    float32 (feature_size, frames), with 3000 frames in 30 seconds. like() takes the arguments from
    an extractor.

    Args:
        feature_size: Mel filters: 80, or 128 for Whisper large-v3.
        sampling_rate: The rate to which the sound is resampled.
        hop_length: Samples from one frame to the next.
        chunk_length: Seconds; longer sound is cut, and what follows is not decoded.
        n_fft: Samples of a frame; an even number.
        padding: "max_length" pads shorter sound to chunk_length with silence, "do_not_pad" keeps
            its length.
    """

    feature_size: int = 80
    sampling_rate: int = 16000
    hop_length: int = 160
    chunk_length: int = 30
    n_fft: int = 400
    padding: str = "max_length"

    @classmethod
    def like(cls, extractor: Any, **changes: Any) -> LogMel:
        """The same as an extractor of transformers; `changes` are other arguments."""
        if getattr(extractor, "dither", 0):
            raise ValueError("the extractor has a dither: add noise in encode_sample")
        names = ("feature_size", "sampling_rate", "hop_length", "chunk_length", "n_fft")
        return cls(**{**{name: getattr(extractor, name) for name in names}, **changes})

    def _options(self) -> dict[str, Any]:
        if self.padding not in ("max_length", "do_not_pad"):
            raise ValueError(
                f"LogMel: padding must be 'max_length' or 'do_not_pad', not {self.padding!r}"
            )
        if self.n_fft % 2 != 0:
            raise ValueError(f"LogMel: n_fft must be even, not {self.n_fft!r}")
        names = ("feature_size", "hop_length", "n_fft", "chunk_length")
        values = [int(_whole(self, name, getattr(self, name), count=1)[0]) for name in names]
        return {
            **Waveform(self.sampling_rate)._options(),
            "sound_log_mel": [*values, int(self.padding == "max_length")],
        }


def _of_size(processor: Any, name: str) -> int:
    size = processor.size
    return int(size[name] if isinstance(size, dict) else getattr(size, name))


def _mean_std_of(processor: Any) -> dict[str, Any]:
    if not processor.do_normalize:
        return {"image_mean": None, "image_std": None}
    return {name: getattr(processor, name) for name in ("image_mean", "image_std")}


def list_of(transform: Any) -> tuple[Transform, ...]:
    """Returns one transform or several as a tuple. Raises TypeError for other objects."""
    transforms = transform if isinstance(transform, (list, tuple)) else (transform,)
    for one in transforms:
        if not isinstance(one, Transform):
            raise TypeError(
                f"transform must be a list of transforms of energon_cpp.transforms, but one is "
                f"{one!r}; call functions of other libraries in encode_sample"
            )
    return tuple(transforms)


def native_options(transforms: Sequence[Transform]) -> dict[str, Any]:
    """Returns the options of the native decoder. Raises ValueError."""
    options: dict[str, Any] = {}
    steps = [step for transform in transforms for step in transform._steps()]
    options["apply_orientation"] = any(isinstance(one, ExifTranspose) for one in transforms)
    for transform in transforms[1:]:
        if isinstance(transform, ExifTranspose):
            raise ValueError("ExifTranspose must be the first transform")
    filters = {_filter(one) for one in transforms if hasattr(one, "interpolation")}
    options["image_filter"] = _only(filters, "interpolation", "bilinear")
    smooth = {one.antialias for one in transforms if hasattr(one, "antialias")}
    options["image_antialias"] = _only(smooth, "antialias", True)
    fills = {_fill(one) for one in transforms if getattr(one, "fill", None) is not None}
    options["image_fill"] = list(_only(fills, "fill", (0.0,)))
    formats = [one for one in transforms if isinstance(one, (Normalize, ToDtype, _Layout))]
    if list(transforms[len(transforms) - len(formats) :]) != formats:
        last = [one for one in formats if isinstance(one, _Layout)]
        names = "".join(f"{type(one).__name__}, " for one in last)
        raise ValueError(f"{names}Normalize and ToDtype must be the last transforms")
    for kind, name in ((Normalize, "Normalize"), (ToDtype, "ToDtype"), (_Layout, "layout")):
        if sum(isinstance(one, kind) for one in formats) > 1:
            raise ValueError(f"there must be only one {name}")
    for one in formats:
        if isinstance(one, Normalize):
            options["image_mean"] = _reals(one, "mean", one.mean)
            options["image_std"] = _reals(one, "std", one.std)
        elif isinstance(one, ToDtype):
            options["image_dtype"] = one._name()
    for one in formats:
        if not isinstance(one, _Layout):
            continue
        options["image_layout"] = one._layout()
        options["image_exact"] = getattr(one, "exact")
        mean_std = one._mean_std()
        if mean_std is not None:
            if "image_mean" in options:
                raise ValueError(
                    f"Normalize cannot follow {type(one).__name__} with image_mean and image_std: "
                    f"remove it, or set both to None"
                )
            options["image_mean"], options["image_std"] = mean_std
    return options | {"image_steps": steps}


def _only(values: set[Any], name: str, default: Any) -> Any:
    """The value of an option that all transforms share."""
    if len(values) > 1:
        raise ValueError(
            f"all transforms of a list must have the same {name}, not "
            f"{' and '.join(sorted(map(str, values)))}"
        )
    return next(iter(values), default)


def _filter(transform: Any) -> str:
    given = transform.interpolation
    name = str(getattr(given, "value", given))  # InterpolationMode is an enum of names
    name = {"nearest-exact": "nearest"}.get(name, name)
    if name not in _FILTERS:
        raise ValueError(
            f"{type(transform).__name__}: interpolation must be one of {_FILTERS}, not {given!r}"
        )
    return name


def _reals(transform: object, name: str, value: Any, count: int | None = None) -> list[float]:
    """One number or several as a list."""
    values = [value] if isinstance(value, numbers.Real) else value
    are_numbers = isinstance(values, (list, tuple)) and all(
        isinstance(one, numbers.Real) and not isinstance(one, bool) and math.isfinite(one)
        for one in values
    )
    if not are_numbers or not values or (count is not None and len(values) != count):
        expected = "a number" if count == 1 else "a number or several"
        raise TypeError(f"{type(transform).__name__}: {name} must be {expected}, not {value!r}")
    return [float(one) for one in values]


def _whole(
    transform: object, name: str, value: Any, least: int = 1, count: int | None = None
) -> list[float]:
    """One whole number or several as a list."""
    values = _reals(transform, name, value, count)
    if any(one != int(one) or one < least for one in values):
        raise ValueError(
            f"{type(transform).__name__}: {name} must be whole numbers from {least}, not {value!r}"
        )
    return values


def _pair(transform: Transform, name: str, value: Any) -> list[float]:
    values = _reals(transform, name, value)
    if len(values) != 2 or values[0] > values[1]:
        raise ValueError(
            f"{type(transform).__name__}: {name} must be two numbers, the least and the largest, "
            f"not {value!r}"
        )
    return values


def _probability(transform: Transform, value: Any) -> list[float]:
    values = _reals(transform, "p", value, 1)
    if not 0 <= values[0] <= 1:
        raise ValueError(f"{type(transform).__name__}: p must be from 0 to 1, not {value!r}")
    return values


def _fill(transform: Any) -> tuple[float, ...]:
    """The color; one number if all channels have the same."""
    values = _reals(transform, "fill", transform.fill)
    if any(not 0 <= one <= 255 for one in values):
        raise ValueError(
            f"{type(transform).__name__}: fill must be levels from 0 to 255, not {transform.fill!r}"
        )
    return tuple(values[:1] if len(set(values)) == 1 else values)


def _width_height(transform: Transform, sides: list[float]) -> list[float]:
    if len(sides) not in (1, 2):
        raise ValueError(
            f"{type(transform).__name__}: size must be one number or (height, width)"
        )
    return [sides[-1], sides[0]]
