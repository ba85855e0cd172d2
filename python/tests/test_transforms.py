"""Transforms of images by the native decoder."""

from __future__ import annotations

import base64
import pathlib
import random
from typing import Any

import pytest
from conftest import config, loader_of, take, write_tar

import energon_cpp as energon
from energon_cpp import transforms

numpy = pytest.importorskip("numpy")

IMAGES = pathlib.Path(__file__).parents[2] / "tests" / "media" / "image" / "data"
JPEG = (IMAGES / "420.jpg").read_bytes()  # 45 x 37 pixels
# Two pixels, (255, 0, 51) and (0, 102, 255).
SMALL_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP4z2DMkPYfAAiYAphUCtDPAAAAAElFTkSuQmCC"
)


def image(*steps: transforms.Transform, mode: str = "rgb8", data: bytes = JPEG) -> Any:
    decoder = energon.SampleDecoder(image_decode=mode, transform=steps)
    return numpy.asarray(decoder.decode("jpg", data))


class Encoder(energon.TaskEncoder[Any, Any, Any, Any]):
    decoder = energon.SampleDecoder(
        image_decode="torchrgb8",
        transform=[
            transforms.RandomResizedCrop((6, 8), scale=(0.2, 1)),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(brightness=0.5, hue=0.2),
        ],
    )


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("pictures")
    write_tar(folder / "data-0.tar", [(key, {"png": SMALL_PNG}) for key in "abc"])
    return str(folder)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("photos")
    write_tar(folder / "data-0.tar", [(f"{n:03}", {"jpg": JPEG}) for n in range(12)])
    return str(folder)


def test_images_are_those_of_cpp(pictures: str) -> None:
    """The test "a decoder transforms images with the random numbers of their sample" has the same
    numbers."""
    sums = []
    with loader_of(pictures, Encoder(), batch_size=None) as loader:
        for sample in loader:
            values = numpy.asarray(sample["png"])
            assert values.shape == (3, 6, 8) and values.dtype == numpy.uint8
            flat = values.reshape(-1).astype(numpy.int64)
            sums.append(int((flat * numpy.arange(1, flat.size + 1)).sum()))
    assert sums == [1706592, 641928, 1244472]


def test_every_run_layout_and_restore_is_the_same(photos: str, num_workers: int) -> None:
    def batches(workers: int) -> list[Any]:
        layout = config(workers, logical_shards=2)
        dataset = energon.get_val_dataset(
            photos, worker_config=layout, batch_size=2, task_encoder=Encoder()
        )
        with energon.get_savable_loader(dataset) as loader:
            found = take(loader, 6)
            again = loader.restore_sample(found[2]["__restore_key__"])
            assert numpy.array_equal(numpy.asarray(again["jpg"]), numpy.asarray(found[2]["jpg"]))
            return [(batch["__key__"], numpy.array(batch["jpg"])) for batch in found]

    expected, found = batches(0), batches(num_workers)
    assert [keys for keys, _ in found] == [keys for keys, _ in expected]
    assert all(numpy.array_equal(a, b) for (_, a), (_, b) in zip(expected, found))
    pictures = expected[0][1]
    assert not numpy.array_equal(pictures[0], pictures[1])  # each sample has its own numbers


def test_cookers_get_transformed_images(photos: str) -> None:
    class Cooking(Encoder):
        cookers = [energon.Cooker(lambda sample: {**sample, "shape": sample["jpg"].shape})]

    with loader_of(photos, Cooking(), batch_size=None) as loader:
        assert tuple(take(loader, 1)[0]["shape"]) == (3, 6, 8)


def test_geometry() -> None:
    plain = image(transforms.Pad(0))
    assert plain.shape == (37, 45, 3)
    assert numpy.array_equal(plain, numpy.asarray(energon.SampleDecoder(image_decode="rgb8").decode("jpg", JPEG)))
    assert numpy.array_equal(image(transforms.RandomHorizontalFlip(1)), plain[:, ::-1])
    assert numpy.array_equal(image(transforms.RandomVerticalFlip(1)), plain[::-1])
    assert numpy.array_equal(image(transforms.CenterCrop(5)), plain[16:21, 20:25])
    padded = image(transforms.Pad((1, 2), fill=(255, 0, 7)))
    assert padded.shape == (41, 47, 3)
    assert numpy.array_equal(padded[2:-2, 1:-1], plain) and list(padded[0, 0]) == [255, 0, 7]
    same = [transforms.Pad(2, fill=9), transforms.CenterCrop(60), transforms.Pad(1, (9, 9, 9))]
    assert list(image(*same)[0, 0]) == [9, 9, 9]
    with pytest.raises(ValueError, match="must have the same fill, not"):
        image(transforms.Pad(1, 9), transforms.Pad(1, 8))
    assert image(transforms.Pad([1, 2, 3, 4])).shape == (43, 49, 3)
    assert image(transforms.PadToSquare()).shape == (45, 45, 3)
    assert image(transforms.Resize(20)).shape == (20, 24, 3)
    assert image(transforms.Resize(20, max_size=22)).shape == (18, 22, 3)
    assert image(transforms.Resize((11, 13))).shape == (11, 13, 3)
    assert image(transforms.Resize(None, max_size=90)).shape == (74, 90, 3)
    assert image(transforms.RandomCrop((50, 9))).shape == (50, 9, 3)
    turned = image(transforms.RandomRotation((90, 90)), transforms.CenterCrop(9))
    middle = plain[14:23, 18:27]
    assert numpy.abs(turned.astype(int) - numpy.rot90(middle).astype(int)).max() <= 1


def test_formats() -> None:
    levels = image(mode="rgb8").astype(numpy.float64)
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.25, 0.5]
    normal = image(transforms.Normalize(mean, std), mode="rgb")
    assert normal.dtype == numpy.float32
    assert numpy.allclose(normal, (levels / 255 - mean) / std, atol=1e-5)
    assert image(transforms.Normalize(0.5, 0.5), mode="torchl").shape == (1, 37, 45)
    half = image(transforms.ToDtype("float16", scale=True), mode="torchrgb")
    assert half.dtype == numpy.float16 and half.shape == (3, 37, 45)
    assert image(transforms.ToDtype("uint8"), mode="torchrgb").dtype == numpy.uint8
    gray = image(transforms.RandomGrayscale(1))
    assert numpy.array_equal(gray[..., 0], gray[..., 2])
    upright = (IMAGES / "exif6.jpg").read_bytes()
    stored = image(data=upright)
    turned = image(transforms.ExifTranspose(), data=upright)
    assert turned.shape == (stored.shape[1], stored.shape[0], 3)
    assert numpy.array_equal(turned, numpy.rot90(stored, -1))


def test_calls_by_hand_draw_from_random() -> None:
    crop = transforms.RandomResizedCrop(8)
    random.seed(5)
    first, second = image(crop), image(crop)
    random.seed(5)
    assert numpy.array_equal(image(crop), first) and not numpy.array_equal(first, second)
    state = random.getstate()
    image(transforms.CenterCrop(8))  # draws nothing
    assert random.getstate() == state


def test_values_are_compared_and_kept() -> None:
    resize = transforms.Resize([4, 5])
    assert resize == transforms.Resize((4, 5)) and hash(resize) == hash(transforms.Resize((4, 5)))
    decoder = energon.SampleDecoder(transform=resize)
    assert decoder.transform == (resize,)
    assert decoder.config()["transform"] == [repr(resize)]
    assert "transform" not in energon.SampleDecoder().config()


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: transforms.Resize(0), ValueError, "Resize: size must be whole numbers from 1, not 0"),
        (lambda: transforms.Resize((1, 2, 3)), ValueError, "size must be one number or"),
        (lambda: transforms.Resize("big"), TypeError, "Resize: size must be a number or several"),
        (lambda: transforms.Resize((1, 2), max_size=3), ValueError, "max_size needs a size"),
        (lambda: transforms.Resize(9, antialiased=True), TypeError, "did you mean 'antialias'"),
        (lambda: transforms.Resize(20, max_size=20), ValueError, "must be more than size, 20, not 20"),
        (lambda: transforms.Resize(20, max_size=(22, 9)), TypeError, "max_size must be a number"),
        (lambda: transforms.Resize(None), ValueError, "max_size must be set"),
        (lambda: transforms.Resize(9, interpolation="cubic"), ValueError, "interpolation"),
        (lambda: transforms.CenterCrop(None), TypeError, "size must be a number"),  # type: ignore[arg-type]
        (lambda: transforms.RandomHorizontalFlip(7), ValueError, "p must be from 0 to 1, not 7"),
        (lambda: transforms.RandomHorizontalFlip([0.1, 0.9]), TypeError, "p must be a number"),  # type: ignore[arg-type]
        (lambda: transforms.RandomVerticalFlip(float("nan")), TypeError, "p must be a number"),
        (lambda: transforms.RandomCrop(9, padding=4), TypeError, "put transforms.Pad before it"),  # type: ignore[call-arg]
        (lambda: transforms.RandomCrop(9, 4), TypeError, "positional"),  # type: ignore[misc]
        (lambda: transforms.RandomRotation(-30), ValueError, "RandomRotation: degrees must be"),
        (lambda: transforms.Pad(1, fill=300), ValueError, "fill must be levels from 0 to 255"),
        (lambda: transforms.ToDtype("float32", scale=False), ValueError, "scale must be True"),
        (lambda: energon.SampleDecoder(transform="Resize"), TypeError, "but one is 'Resize'"),  # type: ignore[arg-type]
        (lambda: transforms.Pad((1, 2, 3)), ValueError, "padding must be 1, 2 or 4 numbers"),
        (lambda: transforms.ColorJitter((0.5, 1)), TypeError, "brightness must be a number"),
        (lambda: transforms.RandomResizedCrop(9, scale=0.5), ValueError, "scale must be two"),
        (lambda: transforms.ToDtype("int8"), ValueError, "dtype must be one of"),
        (
            lambda: image(transforms.Resize(9), transforms.Resize(8, interpolation="box")),
            ValueError,
            "must have the same interpolation, not bilinear and box",
        ),
        (
            lambda: image(transforms.Normalize(0, 1), transforms.Resize(9)),
            ValueError,
            "Normalize and ToDtype must be the last",
        ),
        (
            lambda: image(transforms.Resize(9), transforms.ExifTranspose()),
            ValueError,
            "ExifTranspose must be the first",
        ),
        (lambda: image(len), TypeError, "one is <built-in function len>"),  # type: ignore[arg-type]
        (
            lambda: energon.SampleDecoder(image_decode=None, transform=[transforms.Resize(9)]),
            ValueError,
            "image_decode is None",
        ),
        (
            lambda: image(transforms.ColorJitter(0.5), transforms.Resize(9)),
            energon.InvalidArgumentError,
            "put color steps last",
        ),
        (
            lambda: image(transforms.Normalize([1, 2], [1, 1])),
            energon.InvalidArgumentError,
            "has 2 values, but the images have 3 channels",
        ),
        (lambda: image(mode="pil"), energon.InvalidArgumentError, "such as 'pilrgb'"),
    ],
)
def test_wrong_values_are_refused(make: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


# --- Transforms of torchvision as one resampling ---


def rgb_image(width: int, height: int) -> Any:
    image = pytest.importorskip("PIL.Image")
    numpy = pytest.importorskip("numpy")
    y, x = numpy.mgrid[0:height, 0:width]
    pixels = numpy.stack([x * 255 // width, y * 255 // height, (x + y) % 50], 2)
    return image.fromarray(pixels.astype("uint8"))


def test_custom_transforms_are_merged() -> None:
    import numpy

    from energon_cpp.transforms import CustomTransform, MergeTransform

    class Moved(CustomTransform):
        def apply_transform(self, matrix: Any, dst_size: Any) -> Any:
            return self.translate(5, 3) @ matrix, dst_size + [3, 5], "moved"

    class Flipped(CustomTransform):
        def apply_transform(self, matrix: Any, dst_size: Any) -> Any:
            return self.translate(dst_size[1], 0) @ self.hflip() @ matrix, dst_size, None

    class Turned(CustomTransform):
        def apply_transform(self, matrix: Any, dst_size: Any) -> Any:
            turned = self.translate(0, dst_size[1]) @ self.rotate(numpy.pi / 2)
            return turned @ matrix, dst_size[::-1], None

        def fill(self) -> Any:
            return (1, 2, 3)

    image = rgb_image(20, 12)
    pixels = numpy.asarray(image)
    moved = numpy.asarray(MergeTransform([Moved()])(image))
    assert moved.shape == (15, 25, 3) and not moved[:3].any()
    assert (moved[3:, 5:] == pixels).all()
    both = MergeTransform([Turned(), Flipped()])
    assert (numpy.asarray(both(image)) == numpy.rot90(pixels)[:, ::-1]).all()
    filled = numpy.asarray(MergeTransform([Turned(), Moved()])(image))
    assert tuple(filled[0, 0]) == (1, 2, 3) and (filled[3:, 5:] == numpy.rot90(pixels)).all()
    with pytest.raises(TypeError, match="int cannot be merged.*RandomRotation"):
        MergeTransform([3])
    with pytest.raises(TypeError, match="needs an image of PIL, not a ndarray"):
        both(pixels)

    class Blue(Flipped):
        def fill(self) -> Any:
            return (0, 0, 255)

    with pytest.raises(ValueError, match="differ in fill"):
        MergeTransform([Turned(), Blue()])


def of_torchvision(name: str, drawn: Any = None, **attributes: Any) -> Any:
    """Stands in for a transform of torchvision, with fixed random parameters."""
    attributes |= {"__module__": "torchvision.transforms.transforms"}
    return type(name, (), {**attributes, "get_params": lambda *_: drawn})()


def test_transforms_of_torchvision_are_merged() -> None:
    """Like the same operations of PIL, one after the other."""
    pytest.importorskip("torch")
    import numpy
    from PIL import Image

    from energon_cpp.transforms import MergeTransform

    nearest, bilinear = Image.Resampling.NEAREST, Image.Resampling.BILINEAR
    image = rgb_image(64, 48)
    crop = {"padding": None, "pad_if_needed": False, "padding_mode": "constant", "fill": 0}
    flip = of_torchvision("RandomHorizontalFlip", p=1.0)
    upside_down = of_torchvision("RandomVerticalFlip", p=1.0)
    turn = {"degrees": 30, "center": None, "interpolation": bilinear}
    corners = [[0, 0], [63, 0], [63, 47], [0, 47]]
    moved = [[5, 2], [60, 4], [58, 40], [1, 44]]
    drawn = (5, 6, 20, 30)
    resized = of_torchvision(
        "RandomResizedCrop", drawn, size=(40, 60), scale=(), ratio=(), interpolation=bilinear
    )
    cases: list[tuple[list[Any], Any]] = [
        (
            [of_torchvision("Resize", size=[24, 40], max_size=None, interpolation=nearest)],
            image.resize((40, 24), nearest),
        ),
        (
            [of_torchvision("Resize", size=20, max_size=25, interpolation=nearest)],
            image.resize((25, 19), nearest),
        ),
        ([of_torchvision("CenterCrop", size=(40, 30))], image.crop((17, 4, 47, 44))),
        ([of_torchvision("CenterCrop", size=(60, 70))], image.crop((-3, -6, 67, 54))),
        (
            [of_torchvision("RandomCrop", (2, 3, 10, 20), size=(10, 20), **crop), flip],
            image.crop((3, 2, 23, 12)).transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        ),
        (
            [of_torchvision("RandomCrop", (2, 3, 60, 70), size=(60, 70),
                            **{**crop, "padding": [1, 2], "pad_if_needed": True}), upside_down],
            image.crop((-2, -8, 68, 52)).transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        ),
        ([resized], image.crop((6, 5, 36, 25)).resize((60, 40), bilinear)),
        ([of_torchvision("RandomRotation", 30, expand=False, **turn)], image.rotate(30, bilinear)),
        (
            [of_torchvision("RandomRotation", 30, expand=True, **turn), flip],
            image.rotate(30, bilinear, expand=True).transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        ),
        ([of_torchvision("RandomPerspective", p=0.0)], image),
    ]  # fmt: skip
    for transforms, expected in cases:
        made = MergeTransform(transforms)(image)
        assert made.size == expected.size, transforms
        difference = abs(numpy.asarray(made).astype(int) - numpy.asarray(expected).astype(int))
        assert (difference > 2).mean() < 0.01, transforms
    perspective = of_torchvision(
        "RandomPerspective", (corners, moved), p=1.0, distortion_scale=0.5, interpolation=nearest
    )
    warped = numpy.asarray(MergeTransform([perspective])(image))
    assert not warped[0, 0].any() and abs(warped[3, 6] - numpy.asarray(image)[1, 1]).max() <= 8
