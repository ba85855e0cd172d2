"""Inputs of vision-language and speech models beside the processors of Hugging Face's transformers,
those that use Pillow and torch. Pictures and sounds are generated, and the real ones of
$ENERGON_TEST_DATA or ../shared/data."""

from __future__ import annotations

import io
import os
import pathlib
import wave
from typing import Any

import pytest

import energon_cpp as energon
from energon_cpp import transforms

numpy = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")
transformers = pytest.importorskip("transformers")
qwen2_vl = pytest.importorskip("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
got_ocr2 = pytest.importorskip("transformers.models.got_ocr2.image_processing_pil_got_ocr2")
pytestmark = pytest.mark.timeout(600)  # importing them takes long

ROOT = pathlib.Path(__file__).parents[3]
SHARED = pathlib.Path(os.environ.get("ENERGON_TEST_DATA", ROOT.parent / "shared" / "data"))
PICTURES = [*sorted(SHARED.glob("images/*.jpg")), *sorted(SHARED.glob("images/*.png"))]
SOUNDS = sorted(SHARED.glob("av/test_audio.*"))
needs_pictures = pytest.mark.skipif(not PICTURES, reason=f"no pictures in {SHARED}")
needs_sounds = pytest.mark.skipif(not SOUNDS, reason=f"no sounds in {SHARED}")

ROUNDING = 1e-5  # of float32
LOG_MEL = 2e-4  # both sides compute Fourier transforms in float32


@pytest.fixture(autouse=True)
def rows_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow 13 resizes columns first for some sizes. Rounding and clipping between the passes make
    that differ by a few levels, so both passes are called in the order of Pillow 11."""
    resize = Image.Image.resize

    def in_order(self: Any, size: Any, resample: Any = None, *more: Any, **options: Any) -> Any:
        rows = resize(self, (size[0], self.height), resample, *more, **options)
        return resize(rows, size, resample, *more, **options)

    monkeypatch.setattr(Image.Image, "resize", in_order)


def picture(width: int, height: int, seed: int = 0) -> bytes:
    """A PNG of waves and noise."""
    rng = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[:height, :width]
    waves = numpy.stack([128 + 90 * numpy.sin(x / (7 + c) + y / (11 - c)) for c in range(3)], -1)
    levels = numpy.clip(waves + rng.normal(0, 20, waves.shape), 0, 255).astype(numpy.uint8)
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "PNG", compress_level=1)
    return file.getvalue()


def sound(seconds: float, rate: int = 16000) -> bytes:
    """A WAV of tones and noise."""
    rng = numpy.random.default_rng(1)
    t = numpy.arange(int(seconds * rate)) / rate
    values = 0.4 * numpy.sin(2 * numpy.pi * (200 + 150 * t) * t) * (numpy.sin(3 * t) > -0.5)
    values += rng.normal(0, 0.003, len(t))
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, rate, 0, "NONE", ""))
        writer.writeframes((values * 32767).astype("<i2").tobytes())
    return file.getvalue()


SIZES = [(640, 480), (333, 517), (57, 83), (1600, 1200), (40, 900)]


def check_patches(data: bytes, processor: Any, name: str = "png") -> None:
    decoder = energon.SampleDecoder(transform=transforms.QwenPatches.like(processor))
    found = decoder.decode(name, data)
    image = Image.open(io.BytesIO(data)).convert("RGB")
    expected = processor(images=image, return_tensors="np")
    assert numpy.array_equal(numpy.asarray(found["image_grid_thw"]), expected["image_grid_thw"])
    values = numpy.asarray(found["pixel_values"])
    assert values.dtype == numpy.float32 and values.shape == expected["pixel_values"].shape
    assert numpy.abs(values - expected["pixel_values"]).max() <= ROUNDING


def check_tiles(data: bytes, processor: Any, name: str = "png") -> None:
    decoder = energon.SampleDecoder(transform=transforms.Tiles.like(processor))
    found = numpy.asarray(decoder.decode(name, data))
    image = Image.open(io.BytesIO(data)).convert("RGB")
    expected = numpy.stack(processor(images=image)["pixel_values"])
    assert found.shape == expected.shape
    assert numpy.abs(found - expected).max() <= ROUNDING


def qwen(**options: Any) -> Any:
    return qwen2_vl.Qwen2VLImageProcessorPil(**options)


def internvl(**options: Any) -> Any:
    mean, std = list(transforms.IMAGENET_MEAN), list(transforms.IMAGENET_STD)
    size = {"height": 448, "width": 448}
    options = {"size": size, "image_mean": mean, "image_std": std, **options}
    return got_ocr2.GotOcr2ImageProcessorPil(crop_to_patches=True, **options)


@pytest.mark.parametrize("size", SIZES)
def test_patches(size: tuple[int, int]) -> None:
    check_patches(picture(*size), qwen())
    half = [0.5, 0.5, 0.5]
    qwen3 = qwen(patch_size=16, image_mean=half, image_std=half, min_pixels=65536, max_pixels=262144)
    check_patches(picture(*size), qwen3)


@needs_pictures
def test_patches_of_real_pictures() -> None:
    for path in PICTURES:
        check_patches(path.read_bytes(), qwen(), path.suffix[1:])
        check_patches(path.read_bytes(), qwen(max_pixels=200 * 28 * 28), path.suffix[1:])


@pytest.mark.parametrize("size", SIZES)
def test_tiles(size: tuple[int, int]) -> None:
    check_tiles(picture(*size), internvl())
    small = {"height": 100, "width": 140}
    check_tiles(picture(*size), internvl(size=small, min_patches=2, max_patches=6))


@needs_pictures
def test_tiles_of_real_pictures() -> None:
    for path in PICTURES:
        check_tiles(path.read_bytes(), internvl(), path.suffix[1:])


def test_smart_resize_and_grids_of_random_sizes() -> None:
    rng = numpy.random.default_rng(3)
    for _ in range(3000):
        height, width = (int(2**x) for x in rng.uniform(3, 13, 2))
        factor = int(rng.choice([28, 32, 14, 20]))
        least, most = factor**2 * int(rng.integers(1, 200)), factor**2 * int(rng.integers(200, 20000))
        if max(height, width) > 200 * min(height, width):
            continue
        arguments = (height, width, factor, least, most)
        assert transforms.smart_resize(*arguments) == qwen2_vl.smart_resize(*arguments)


def log_mel_of(extractor: Any, samples: Any, **options: Any) -> Any:
    features = extractor(samples, sampling_rate=16000, return_tensors="np", **options)
    return features["input_features"][0]


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("seconds", [0.4, 7.3, 30, 34])
def test_log_mel(mels: int, seconds: float) -> None:
    extractor = transformers.WhisperFeatureExtractor(feature_size=mels)
    data = sound(seconds)
    samples = numpy.frombuffer(data[44:], "<i2").astype(numpy.float32) / 32768
    decoder = energon.SampleDecoder(sound_transform=transforms.LogMel.like(extractor))
    found, expected = numpy.asarray(decoder.decode("wav", data)), log_mel_of(extractor, samples)
    assert found.dtype == numpy.float32 and found.shape == expected.shape == (mels, 3000)
    assert numpy.abs(found - expected).max() <= LOG_MEL
    short = transforms.LogMel.like(extractor, padding="do_not_pad")
    found = numpy.asarray(energon.SampleDecoder(sound_transform=short).decode("wav", data))
    expected = log_mel_of(extractor, samples, padding="do_not_pad")
    assert found.shape == expected.shape
    assert numpy.abs(found - expected).max() <= LOG_MEL


@needs_sounds
def test_log_mel_of_real_sound() -> None:
    """The features of Waveform, which is what transformers would be given, in any container."""
    extractor = transformers.WhisperFeatureExtractor()
    for path in SOUNDS:
        name, data = path.suffix[1:], path.read_bytes()
        waveform = energon.SampleDecoder(sound_transform=transforms.Waveform()).decode(name, data)
        samples = numpy.array(waveform)
        assert samples.ndim == 1 and samples.dtype == numpy.float32
        decoder = energon.SampleDecoder(sound_transform=transforms.LogMel())
        found = numpy.asarray(decoder.decode(name, data))
        assert numpy.abs(found - log_mel_of(extractor, samples)).max() <= LOG_MEL
