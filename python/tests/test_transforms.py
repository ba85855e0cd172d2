"""Transforms of images and sound by the native decoder. frameworks/test_model_inputs.py compares
those that are inputs of models with transformers."""

from __future__ import annotations

import base64
import pathlib
import random
import types
from typing import Any

import pytest
from conftest import config, loader_of, take, write_tar

import energon_cpp as energon
from energon_cpp import transforms

numpy = pytest.importorskip("numpy")

IMAGES = pathlib.Path(__file__).parents[2] / "tests" / "media" / "image" / "data"
JPEG = (IMAGES / "420.jpg").read_bytes()  # 45 x 37 pixels
SOUNDS = IMAGES.parents[1] / "av" / "data"
WAV = (SOUNDS / "mono.wav").read_bytes()  # 8000 Hz, int16
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


def test_patches_of_an_image() -> None:
    """A part becomes the dict of a processor of transformers."""
    small = transforms.QwenPatches(patch_size=4, min_pixels=64, max_pixels=4096)
    found = energon.SampleDecoder(transform=small).decode("jpg", JPEG)
    assert list(found) == ["pixel_values", "image_grid_thw"]
    assert numpy.asarray(found["image_grid_thw"]).tolist() == [[1, 10, 12]]
    values = numpy.asarray(found["pixel_values"])
    assert values.shape == (120, 3 * 2 * 4 * 4) and values.dtype == numpy.float32
    height, width = transforms.smart_resize(37, 45, 8, 64, 4096)
    assert (height, width) == (40, 48)
    resize = transforms.Resize((height, width), interpolation="bicubic")
    normalize = transforms.Normalize(transforms.CLIP_MEAN, transforms.CLIP_STD)
    whole = image(resize, normalize, mode="torchrgb")
    # Squares of 2 x 2 patches, then rows of patches in them.
    patches = whole.reshape(3, 5, 2, 4, 6, 2, 4).transpose(1, 4, 2, 5, 0, 3, 6)
    expected = numpy.repeat(patches[:, :, :, :, :, None], 2, axis=5).reshape(120, 96)
    assert numpy.array_equal(values, expected)


def test_tiles_of_an_image() -> None:
    # A PNG, because JPEGs are scaled while they are decoded for Resize, but not for Tiles.
    png = (IMAGES / "rgb8.png").read_bytes()
    tiles = transforms.Tiles((16, 20), min_patches=2, max_patches=2, image_mean=None, image_std=None)
    values = numpy.asarray(energon.SampleDecoder(transform=tiles).decode("png", png))
    assert values.shape == (3, 3, 16, 20)  # two tiles side by side, and the thumbnail
    whole = image(transforms.Resize((16, 40), interpolation="bicubic"), mode="torchrgb", data=png)
    assert numpy.array_equal(values[0], whole[..., :20])
    assert numpy.array_equal(values[1], whole[..., 20:])
    thumbnail = image(transforms.Resize((16, 20), interpolation="bicubic"), mode="torchrgb", data=png)
    assert numpy.array_equal(values[2], thumbnail)
    levels = energon.SampleDecoder(image_decode="torchrgb8", transform=tiles).decode("png", png)
    assert numpy.asarray(levels).dtype == numpy.uint8


def test_inputs_of_models_in_batches(tmp_path: pathlib.Path, num_workers: int) -> None:
    """Random steps before patches are restored, and sound is a tensor beside an image."""
    write_tar(tmp_path / "data-0.tar", [(f"{n:03}", {"jpg": JPEG, "wav": WAV}) for n in range(8)])

    class Inputs(energon.DefaultTaskEncoder):
        decoder = energon.SampleDecoder(
            transform=[
                transforms.RandomResizedCrop((33, 41), scale=(0.2, 1), interpolation="bicubic"),
                transforms.ColorJitter(brightness=0.5),
                transforms.QwenPatches(patch_size=4, min_pixels=64, max_pixels=4096),
                transforms.ToDtype("float16"),
            ],
            sound_transform=transforms.LogMel(chunk_length=1),
        )

    with loader_of(str(tmp_path), Inputs(), batch_size=2, num_workers=num_workers) as loader:
        found = take(loader, 3)
        again = loader.restore_sample(found[1].__restore_key__)
    patches = numpy.asarray(found[1].jpg["pixel_values"])
    assert patches.shape == (2, 80, 96) and patches.dtype == numpy.float16
    assert numpy.array_equal(numpy.asarray(again.jpg["pixel_values"]), patches)
    assert not numpy.array_equal(patches[0], patches[1])
    assert numpy.asarray(found[0].jpg["image_grid_thw"]).tolist() == [[[1, 8, 10]]] * 2
    assert numpy.asarray(found[0].wav).shape == (2, 80, 100)


def test_sound() -> None:
    def decoded(transform: Any, name: str = "wav", data: bytes = WAV) -> Any:
        return energon.SampleDecoder(sound_transform=transform).decode(name, data)

    samples = numpy.asarray(decoded(transforms.Waveform(8000)))
    assert samples.dtype == numpy.float32 and samples.ndim == 1
    assert numpy.array_equal(samples * 32768, numpy.frombuffer(WAV[44:], "<i2"))
    assert len(numpy.asarray(decoded(transforms.Waveform()))) == 2 * len(samples)
    assert numpy.asarray(decoded(transforms.LogMel(feature_size=128))).shape == (128, 3000)
    short = numpy.asarray(decoded(transforms.LogMel(padding="do_not_pad")))
    assert short.shape == (80, 2 * len(samples) // 160) and short.max() <= short.min() + 2
    for name in ("mono.mp3", "mono.ogg", "stereo24.flac"):
        features = decoded(transforms.LogMel(), name[-4:].strip("."), (SOUNDS / name).read_bytes())
        assert numpy.asarray(features).shape == (80, 3000)
    # Video keeps its decoder.
    clip = (SOUNDS / "h264_aac.mp4").read_bytes()
    assert isinstance(decoded(transforms.Waveform(), "mp4", clip), energon.AVDecoder)
    with pytest.raises(energon.EnergonError, match="part 'wav'"):
        decoded(transforms.LogMel(), "wav", b"RIFF")


def test_arguments_of_processors() -> None:
    """The attributes of processors and extractors of transformers."""
    processor = types.SimpleNamespace(
        patch_size=16,
        temporal_patch_size=2,
        merge_size=2,
        size={"shortest_edge": 65536, "longest_edge": 16777216},
        do_normalize=True,
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )
    patches = transforms.QwenPatches.like(processor, max_pixels=4096 * 256)
    assert patches == transforms.QwenPatches(
        16, 2, 2, 65536, 4096 * 256, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
    )
    processor.size = types.SimpleNamespace(height=384, width=300)
    processor.min_patches, processor.max_patches, processor.do_normalize = 1, 6, False
    tiles = transforms.Tiles.like(processor)
    assert tiles == transforms.Tiles((384, 300), 1, 6, image_mean=None, image_std=None)
    extractor = types.SimpleNamespace(
        feature_size=128, sampling_rate=16000, hop_length=160, chunk_length=30, n_fft=400, dither=0.0
    )
    assert transforms.LogMel.like(extractor) == transforms.LogMel(128)
    extractor.dither = 0.1
    with pytest.raises(ValueError, match="dither"):
        transforms.LogMel.like(extractor)


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
    assert not {"transform", "sound_transform"} & energon.SampleDecoder().config().keys()
    sound = energon.SampleDecoder(sound_transform=transforms.LogMel(128))
    assert sound.config()["sound_transform"] == repr(transforms.LogMel(128))


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
        (lambda: transforms.QwenPatches(size=9), TypeError, "use min_pixels and max_pixels"),  # type: ignore[call-arg]
        (lambda: transforms.QwenPatches(14.5), ValueError, "patch_size must be whole numbers"),  # type: ignore[arg-type]
        (lambda: transforms.Tiles(9, 4, 3), ValueError, "max_patches must be whole numbers from 4"),
        (lambda: transforms.LogMel(padding="longest"), ValueError, "padding must be 'max_length'"),
        (lambda: transforms.LogMel(dither=0.1), TypeError, "add noise in encode_sample"),  # type: ignore[call-arg]
        (
            lambda: energon.SampleDecoder(sound_transform=transforms.Resize(9)),  # type: ignore[arg-type]
            TypeError,
            "must be Waveform or LogMel",
        ),
        (
            lambda: image(transforms.QwenPatches(), transforms.Normalize(0, 1), mode="torchrgb"),
            ValueError,
            "Normalize cannot follow QwenPatches",
        ),
        (
            lambda: image(transforms.Tiles(), transforms.CenterCrop(9)),
            ValueError,
            "Tiles, Normalize and ToDtype must be the last",
        ),
        (
            lambda: image(transforms.QwenPatches(), transforms.Tiles()),
            ValueError,
            "there must be only one layout",
        ),
        (
            lambda: image(transforms.Tiles(), mode="rgb"),
            energon.InvalidArgumentError,
            "patches and tiles have channels first",
        ),
        (lambda: transforms.smart_resize(1, 201), energon.InvalidArgumentError, "at most 200 times"),
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
