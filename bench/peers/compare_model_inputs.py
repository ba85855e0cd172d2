#!/usr/bin/env python3
"""Times the inputs of vision-language and speech models beside the processors of Hugging Face's
transformers, from encoded bytes to arrays, with one thread each, in turn. Prints a table.

    PYTHONPATH=build/release/python/package build/python_environment/bin/python bench/peers/compare_model_inputs.py [PICTURE...]

Needs the environment of python/make_environment.sh with `peers`. Pictures are JPEGs; without any, a photo-like one of 1600 x 1200 pixels is
made. transformers decodes them with Pillow, and uses the processors with Pillow; where torchvision is installed, also those with torchvision.
"""

import argparse
import io
import itertools
import pathlib
import statistics
import time
import wave

import numpy as np
import torch
import transformers
from PIL import Image
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.utils import is_torchvision_available

import energon_cpp as energon
from energon_cpp import transforms

SIZE = {"height": 448, "width": 448}


def photo(width, height):
    """A JPEG of smooth shapes and some noise."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (height // 40, width // 40, 3), np.uint8))
    levels = np.asarray(coarse.resize((width, height), Image.BICUBIC), np.float64)
    levels = np.clip(levels + rng.normal(0, 6, levels.shape), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "JPEG", quality=90)
    return file.getvalue()


def speech(seconds):
    """A WAV of 16 kHz: tones and noise."""
    rng = np.random.default_rng(0)
    t = np.arange(seconds * 16000) / 16000
    values = 0.4 * np.sin(2 * np.pi * (200 + 90 * t) * t) + rng.normal(0, 0.003, len(t))
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 16000, 0, "NONE", ""))
        writer.writeframes((values * 32767).astype("<i2").tobytes())
    return file.getvalue()


def best_times(functions, seconds):
    """The median time of each function in ms; the functions take turns."""
    times = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for function, taken in zip(functions, times):
            begin = time.perf_counter()
            function()
            taken.append((time.perf_counter() - begin) * 1000)
    return [statistics.median(taken) for taken in times]


def opened(data):
    return Image.open(io.BytesIO(data)).convert("RGB")


def image_rows(name, pictures):
    mean, std = list(transforms.IMAGENET_MEAN), list(transforms.IMAGENET_STD)
    tiles = {"size": SIZE, "crop_to_patches": True, "image_mean": mean, "image_std": std}
    cases = {"patches (Qwen2-VL)": (transforms.QwenPatches, Qwen2VLImageProcessorPil(), "Qwen2VLImageProcessor", {}),
             "tiles (InternVL)": (transforms.Tiles, GotOcr2ImageProcessorPil(**tiles), "GotOcr2ImageProcessor", tiles)}
    for case, (ours, processor, fast, options) in cases.items():
        processors = [("Pillow", processor)]
        if is_torchvision_available():
            processors.append(("torchvision", getattr(transformers, fast)(**options)))
        for backend, peer in processors:
            decoder = energon.SampleDecoder(transform=ours.like(processor))
            quick = energon.SampleDecoder(transform=ours.like(processor, exact=False))
            yield (f"{case}, {name}", f"transformers with {backend}",
                   [lambda: [peer(images=opened(one), return_tensors="pt") for one in pictures],
                    lambda: [decoder.decode("jpg", one) for one in pictures],
                    lambda: [quick.decode("jpg", one) for one in pictures]], len(pictures))


def sound_rows():
    for seconds in (5, 30):
        data = speech(seconds)
        extractor = transformers.WhisperFeatureExtractor()
        decoder = energon.SampleDecoder(sound_transform=transforms.LogMel.like(extractor))

        def peer():
            samples = np.frombuffer(data[44:], "<i2").astype(np.float32) / 32768
            return extractor(samples, sampling_rate=16000, return_tensors="pt")

        yield (f"log-mel (Whisper), {seconds} s", "transformers with torch",
               [peer, lambda: decoder.decode("wav", data)], 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("pictures", nargs="*", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=5, help="per row")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pictures = [path.read_bytes() for path in options.pictures]
    name = f"{len(pictures)} pictures" if pictures else "1600 x 1200"
    print(f"transformers {transformers.__version__}; medians in ms, one thread")
    print("| input | peer | peer ms | ours ms | ratio | ours, exact=False |\n|---|---|---|---|---|---|")
    for case, peer, functions, count in itertools.chain(image_rows(name, pictures or [photo(1600, 1200)]), sound_rows()):
        theirs, ours, *quick = [taken / count for taken in best_times(functions, options.seconds)]
        print(f"| {case} | {peer} | {theirs:.1f} | {ours:.1f} | {theirs / ours:.1f} | "
              f"{f'{quick[0]:.1f} ({theirs / quick[0]:.1f})' if quick else ''} |", flush=True)


if __name__ == "__main__":
    main()
