"""Transforms of torchvision as one resampling: MergeTransform, CustomTransform.

A transform of geometry moves points: it is a 3x3 matrix from the coordinates of its input to those
of its output, where the image covers the rectangle from (0, 0) to (width, height). The matrices of
several transforms are multiplied, so that the pixels are interpolated once. energon_cpp.transforms
has native transforms, which need no Python in the workers.
"""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, Any, Callable, Sequence

if TYPE_CHECKING:
    import numpy

    Matrix = numpy.ndarray[Any, Any]
    Step = Callable[[Any, int, int], tuple[Matrix, tuple[int, int], Any]]

# Functions for torchvision's transforms, by class. They take a transform, the height and the width,
# and return the matrix, the new (height, width) and the parameters that were drawn.
_STEPS: dict[str, Step] = {}


def _matrix(rows: Sequence[Sequence[float]]) -> Matrix:
    import numpy

    return numpy.array(rows, dtype=numpy.float64)


class TransformMapper(abc.ABC):
    """Base class of transforms that can be merged."""

    @staticmethod
    def translate(x: float, y: float) -> Matrix:
        return _matrix([[1, 0, x], [0, 1, y], [0, 0, 1]])

    @staticmethod
    def rotate(angle: float) -> Matrix:
        """Counterclockwise in the image, in radians."""
        cos, sin = math.cos(angle), math.sin(angle)
        return _matrix([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]])

    @staticmethod
    def scale(x: float, y: float) -> Matrix:
        return _matrix([[x, 0, 0], [0, y, 0], [0, 0, 1]])

    @staticmethod
    def shear(x: float, y: float) -> Matrix:
        return _matrix([[1, x, 0], [y, 1, 0], [0, 0, 1]])

    @staticmethod
    def hflip() -> Matrix:
        """About the left edge: translate() brings the image back."""
        return TransformMapper.scale(-1, 1)

    @staticmethod
    def vflip() -> Matrix:
        """About the upper edge: translate() brings the image back."""
        return TransformMapper.scale(1, -1)

    @abc.abstractmethod
    def apply_transform(self, matrix: Any, dst_size: Any) -> tuple[Any, Any, Any]:
        """Adds this transform to those before it.

        Args:
            matrix: The matrix of those before it.
            dst_size: The height and width that they result in, as an array.

        Returns:
            The matrix, the height and width after this transform, and its parameters, for logs.
        """

    def fill(self) -> Any:
        """The color of new pixels; None means that of the other transforms."""
        return None

    def interpolation(self) -> Any:
        """The mode of interpolation; None means that of the other transforms."""
        return None


class CustomTransform(TransformMapper):
    """Base class of your own transforms. Override apply_transform()."""


class _OfTorchvision(TransformMapper):
    def __init__(self, transform: Any, step: Step) -> None:
        self.transform = transform
        self._step = step

    def apply_transform(self, matrix: Any, dst_size: Any) -> tuple[Any, Any, Any]:
        import numpy

        own, size, drawn = self._step(self.transform, int(dst_size[0]), int(dst_size[1]))
        name = type(self.transform).__name__
        return own @ matrix, numpy.array(size, dtype=dst_size.dtype), (name, drawn)

    def fill(self) -> Any:
        return getattr(self.transform, "fill", None)

    def interpolation(self) -> Any:
        return getattr(self.transform, "interpolation", None)


class MergeTransform:
    """Applies several transforms with one interpolation. Takes and returns images of PIL. Pixels
    differ slightly from those of separate steps, and an image that gets much smaller is not
    smoothed.

    Args:
        transforms: CustomTransforms, and objects of torchvision.transforms: Resize, CenterCrop,
            RandomCrop, RandomResizedCrop, RandomHorizontalFlip, RandomVerticalFlip, RandomRotation
            and RandomPerspective. All that set `fill` or `interpolation` must set the same value.
    """

    def __init__(self, transforms: Sequence[Any]) -> None:
        self.transforms = [_mapper(transform) for transform in transforms]
        self._fill = _common("fill", [_color(one.fill()) for one in self.transforms])
        modes = [_name(one.interpolation()) for one in self.transforms]
        self._mode = _common("interpolation", modes)

    def __call__(self, image: Any) -> Any:
        import numpy
        from PIL import Image

        if not isinstance(image, Image.Image):
            raise TypeError(f"MergeTransform needs an image of PIL, not a {type(image).__name__}")
        matrix: Any = numpy.eye(3)
        size: Any = numpy.array((image.height, image.width), dtype=numpy.int64)
        for transform in self.transforms:
            matrix, size, _ = transform.apply_transform(matrix, size)
        back = numpy.linalg.inv(matrix)
        back /= back[2, 2]
        is_affine = not numpy.any(back[2, :2])
        method = Image.Transform.AFFINE if is_affine else Image.Transform.PERSPECTIVE
        channels = len(image.getbands())
        fill = (0,) if self._fill is None else self._fill
        if len(fill) not in (1, channels):
            raise ValueError(f"fill is {fill}, expected a number for each of {channels} channels")
        fill = fill * channels if len(fill) == 1 else fill
        return image.transform(
            (int(size[1]), int(size[0])),
            method,
            tuple(back.ravel()[: 6 if is_affine else 8]),
            Image.Resampling[self._mode or "NEAREST"],
            fillcolor=fill if channels > 1 else fill[0],
        )

    def __repr__(self) -> str:
        shown = [getattr(one, "transform", one) for one in self.transforms]
        return f"MergeTransform({shown})"


def _mapper(transform: Any) -> TransformMapper:
    if isinstance(transform, TransformMapper):
        return transform
    for cls in type(transform).__mro__:
        if cls.__module__ == "torchvision.transforms.transforms" and cls.__name__ in _STEPS:
            return _OfTorchvision(transform, _STEPS[cls.__name__])
    raise TypeError(
        f"{type(transform).__name__} cannot be merged, expected a CustomTransform or one of "
        f"torchvision.transforms: {', '.join(sorted(_STEPS))}"
    )


def _color(fill: Any) -> tuple[Any, ...] | None:
    return fill if fill is None else tuple(fill) if isinstance(fill, (list, tuple)) else (fill,)


def _name(mode: Any) -> str | None:
    """NEAREST or another name of PIL, from a mode of torchvision or PIL."""
    return None if mode is None else mode.name.replace("NEAREST_EXACT", "NEAREST")


def _common(name: str, values: list[Any]) -> Any:
    given = {value for value in values if value is not None}
    if len(given) > 1:
        raise ValueError(f"transforms differ in {name}: {sorted(map(str, given))}, expected one")
    return next(iter(given), None)


# --- Transforms of torchvision ---


def _step(function: Step) -> Step:
    _STEPS["".join(part.title() for part in function.__name__.split("_"))] = function
    return function


def _empty_image(height: int, width: int) -> Any:
    """An image without memory, from whose size torchvision draws parameters."""
    import torch

    return torch.empty((1, height, width), device="meta")


def _flips(probability: float) -> bool:
    import torch

    return bool(torch.rand(1) < probability)


def _sides(size: Any) -> list[int]:
    return [size, size] if isinstance(size, int) else [*size, *size] if len(size) == 1 else [*size]


def _scaled(height: int, width: int, size: tuple[int, int]) -> Matrix:
    return TransformMapper.scale(size[1] / width, size[0] / height)


@_step
def _resize(transform: Any, height: int, width: int) -> tuple[Matrix, tuple[int, int], Any]:
    wanted = [transform.size] if isinstance(transform.size, int) else list(transform.size)
    if len(wanted) == 2:
        size = (wanted[0], wanted[1])
    else:
        short, long = sorted((height, width))
        new_short, new_long = wanted[0], int(wanted[0] * long / short)
        if transform.max_size is not None and new_long > transform.max_size:
            new_short, new_long = int(transform.max_size * new_short / new_long), transform.max_size
        size = (new_long, new_short) if height > width else (new_short, new_long)
    return _scaled(height, width, size), size, size


@_step
def _center_crop(transform: Any, height: int, width: int) -> tuple[Matrix, tuple[int, int], Any]:
    size = (transform.size[0], transform.size[1])
    left, top = (
        -((new - old) // 2) if new > old else round((old - new) / 2)
        for old, new in ((width, size[1]), (height, size[0]))
    )
    return TransformMapper.translate(-left, -top), size, (top, left)


@_step
def _random_crop(transform: Any, height: int, width: int) -> tuple[Matrix, tuple[int, int], Any]:
    left = top = 0
    if transform.padding_mode != "constant":
        raise ValueError(f"padding_mode is {transform.padding_mode!r}, expected 'constant'")
    if transform.padding is not None:
        padding = transform.padding
        padding = [padding] if isinstance(padding, int) else list(padding)
        left, top, right, bottom = padding * (4 // len(padding))
        height, width = height + top + bottom, width + left + right
    size = _sides(transform.size)
    if transform.pad_if_needed and width < size[1]:
        left, width = left + size[1] - width, width + 2 * (size[1] - width)
    if transform.pad_if_needed and height < size[0]:
        top, height = top + size[0] - height, height + 2 * (size[0] - height)
    drawn = transform.get_params(_empty_image(height, width), (size[0], size[1]))
    matrix = TransformMapper.translate(left - drawn[1], top - drawn[0])
    return matrix, (size[0], size[1]), drawn


@_step
def _random_resized_crop(
    transform: Any, height: int, width: int
) -> tuple[Matrix, tuple[int, int], Any]:
    drawn = transform.get_params(_empty_image(height, width), transform.scale, transform.ratio)
    top, left, crop_height, crop_width = drawn
    size = (transform.size[0], transform.size[1])
    scale = _scaled(crop_height, crop_width, size)
    return scale @ TransformMapper.translate(-left, -top), size, drawn


@_step
def _random_horizontal_flip(
    transform: Any, height: int, width: int
) -> tuple[Matrix, tuple[int, int], Any]:
    flips = _flips(transform.p)
    x = TransformMapper.translate(width, 0) @ TransformMapper.hflip()
    return x if flips else _identity(), (height, width), flips


@_step
def _random_vertical_flip(
    transform: Any, height: int, width: int
) -> tuple[Matrix, tuple[int, int], Any]:
    flips = _flips(transform.p)
    y = TransformMapper.translate(0, height) @ TransformMapper.vflip()
    return y if flips else _identity(), (height, width), flips


@_step
def _random_rotation(
    transform: Any, height: int, width: int
) -> tuple[Matrix, tuple[int, int], Any]:
    angle = transform.get_params(transform.degrees)
    x, y = transform.center or (width / 2, height / 2)
    turn = TransformMapper.rotate(math.radians(angle))
    matrix = TransformMapper.translate(x, y) @ turn @ TransformMapper.translate(-x, -y)
    if not transform.expand:
        return matrix, (height, width), angle
    xs, ys, _ = matrix @ _matrix([[0, width, width, 0], [0, 0, height, height], [1, 1, 1, 1]])
    new_width = math.ceil(max(xs)) - math.floor(min(xs))
    new_height = math.ceil(max(ys)) - math.floor(min(ys))
    moved = TransformMapper.translate((new_width - width) / 2, (new_height - height) / 2)
    return moved @ matrix, (new_height, new_width), angle


@_step
def _random_perspective(
    transform: Any, height: int, width: int
) -> tuple[Matrix, tuple[int, int], Any]:
    if not _flips(transform.p):
        return _identity(), (height, width), None
    start, end = transform.get_params(width, height, transform.distortion_scale)
    return _perspective(start, end), (height, width), (start, end)


def _identity() -> Matrix:
    return TransformMapper.translate(0, 0)


def _perspective(start: Sequence[Sequence[int]], end: Sequence[Sequence[int]]) -> Matrix:
    """The matrix that moves four points."""
    import numpy

    rows, values = [], []
    for (x, y), (u, v) in zip(start, end):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    found = numpy.linalg.lstsq(_matrix(rows), numpy.array(values, float), rcond=None)[0]
    return numpy.append(found, 1.0).reshape(3, 3)
