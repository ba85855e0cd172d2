#!/usr/bin/env python3
"""Writes model_vectors.h: what the processors of Hugging Face's transformers make of small images of
noise and of a generated sound, and what torchaudio makes of the latter at other sample rates.

Needs numpy, Pillow, transformers, torch and torchaudio.

    python3 make_model_vectors.py > model_vectors.h
"""

import sys
from unittest import mock

import numpy as np
import torch

# The operators of torchaudio need not load with this torch.
sys.modules["torchaudio._extension"] = torch.ops.torchaudio = mock.MagicMock()
import torchaudio.functional as audio  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402
from transformers import WhisperFeatureExtractor  # noqa: E402
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import (  # noqa: E402
    GotOcr2ImageProcessorPil, get_optimal_tiled_canvas)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (  # noqa: E402
    Qwen2VLImageProcessorPil, smart_resize)


def noise(count):
    """The levels of noise() in noise_image.h."""
    state, levels = 1, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) & 0xFFFFFFFF
        levels.append(state >> 24)
    return np.array(levels, np.uint8)


def image(width, height):
    return Image.fromarray(noise(width * height * 3).reshape(height, width, 3))


def sound(count):
    """int16: tones that become higher and louder, and noise."""
    n = np.arange(count)
    phase = (n * n // 64) % 4096  # whole numbers, so that C++ has the same
    triangle = np.minimum(phase, 4096 - phase) - 1024
    levels = noise(count).astype(np.int64) - 128
    return (triangle * (n % 20000) // 2000 + levels * 8).astype(np.int16)


def floats(values):
    return "{" + ", ".join(f"{float(value):.9g}F" for value in values) + "}"


def levels_sum(values):
    """The sum of level * (index % 65521 + 1), which depends on the order of the values."""
    levels = np.rint(np.asarray(values, np.float64).reshape(-1)).astype(np.uint64)
    weights = np.arange(levels.size, dtype=np.uint64) % np.uint64(65521) + np.uint64(1)
    return int((levels * weights).sum())


SIZES = [(640, 480), (1, 1), (3, 600), (28, 28), (42, 70), (5000, 3000), (57, 57), (1024, 6), (98, 14),
         (1001, 777), (13, 2600), (294, 350)]


def smart_resize_cases():
    for width, height in SIZES:
        for factor, least, most in [(28, 56 * 56, 28 * 28 * 1280), (32, 65536, 16777216), (28, 3136, 50176)]:
            rows, columns = smart_resize(height, width, factor, least, most)
            yield f"{{{width}, {height}, {factor}, {least}, {most}, {columns}, {rows}}}"


def grid_cases():
    for width, height in SIZES:
        for side, least, most in [(448, 1, 12), (384, 2, 6), (30, 1, 40), (448, 5, 5)]:
            columns, rows = get_optimal_tiled_canvas((height, width), (side, side), least, most)
            yield f"{{{width}, {height}, {side}, {least}, {most}, {columns}, {rows}}}"


def patch_cases():
    for width, height, patch, temporal, merge, least, most in [
            (61, 47, 4, 2, 2, 64, 4096), (61, 47, 4, 2, 2, 64, 900), (20, 90, 6, 1, 3, 8000, 90000),
            (16, 16, 4, 3, 1, 64, 4096)]:
        processor = Qwen2VLImageProcessorPil(
            patch_size=patch, temporal_patch_size=temporal, merge_size=merge, do_rescale=False, do_normalize=False,
            size={"shortest_edge": least, "longest_edge": most})
        found = processor(images=image(width, height))
        rows, columns = found["image_grid_thw"][0][1:]
        yield (f"{{{width}, {height}, {{{patch}, {temporal}, {merge}, {least}, {most}}}, {rows}, {columns}, "
               f"{levels_sum(found['pixel_values'])}U}}")


def tile_cases():
    for width, height, side, least, most in [(61, 47, 16, 1, 12), (90, 20, 12, 2, 6), (30, 31, 24, 1, 4)]:
        processor = GotOcr2ImageProcessorPil(
            size={"height": side, "width": side}, crop_to_patches=True, min_patches=least, max_patches=most,
            do_rescale=False, do_normalize=False)
        tiles = np.stack(processor(images=image(width, height))["pixel_values"])
        yield f"{{{width}, {height}, {side}, {least}, {most}, {len(tiles)}, {levels_sum(tiles)}U}}"


def log_mel_cases():
    for mels, seconds, count, pad in [(80, 3, 40000, True), (128, 3, 47990, True), (80, 2, 40000, True),
                                      (80, 30, 8000, False)]:
        extractor = WhisperFeatureExtractor(feature_size=mels, chunk_length=seconds)
        samples = sound(count).astype(np.float32) / 32768
        found = extractor(samples, sampling_rate=16000, padding="max_length" if pad else "do_not_pad",
                          return_tensors="np")["input_features"][0]
        picked = found.reshape(-1)[:: max(found.size // 400, 1)]
        yield f"{{{mels}, {seconds}, {count}, {str(pad).lower()}, {found.shape[1]}, {floats(picked)}}}"


def resample_cases():
    for count, before, after in [(3000, 44100, 16000), (3000, 48000, 16000), (700, 8000, 16000), (999, 22050, 16000)]:
        samples = torch.from_numpy(sound(count).astype(np.float32) / 32768)
        found = audio.resample(samples, before, after).numpy()
        yield f"{{{count}, {before}, {after}, {found.size}, {floats(found[:: max(found.size // 100, 1)])}}}"


def print_table(comment, declaration, rows):
    print(f"/// {comment}\n{declaration} = {{\n" + "".join(f"    {row},\n" for row in rows) + "};\n")


print(f"""// clang-format off
// Results of transformers {transformers.__version__}, made by make_model_vectors.py.

#pragma once

#include <cstdint>
#include <vector>

namespace energon::testing {{

struct SizeCase {{ std::int64_t width, height, factor, min_pixels, max_pixels, new_width, new_height; }};
struct GridCase {{ std::int64_t width, height, tile, min_tiles, max_tiles, columns, rows; }};
struct PatchNumbers {{ std::int64_t patch, temporal, merge, min_pixels, max_pixels; }};
struct PatchCase {{ std::int64_t width, height; PatchNumbers layout; std::int64_t rows, columns; std::uint64_t sum; }};
struct TileCase {{ std::int64_t width, height, tile, min_tiles, max_tiles, tiles; std::uint64_t sum; }};
struct LogMelCase {{ std::int64_t mels, seconds, samples; bool pad; std::int64_t frames; std::vector<float> values; }};
struct ResampleCase {{ std::int64_t samples; int from, to; std::int64_t size; std::vector<float> values; }};
""")
print_table("smart_resize().", "inline const std::vector<SizeCase> kSmartResizes", smart_resize_cases())
print_table("get_optimal_tiled_canvas().", "inline const std::vector<GridCase> kTileGrids", grid_cases())
print_table("Levels of Qwen2VLImageProcessorPil, summed as levels_sum() does.", "inline const std::vector<PatchCase> kPatches",
            patch_cases())
print_table("Levels of GotOcr2ImageProcessorPil.", "inline const std::vector<TileCase> kTiles", tile_cases())
print_table("WhisperFeatureExtractor: each k-th feature, k = max(features / 400, 1).",
            "inline const std::vector<LogMelCase> kLogMels", log_mel_cases())
print_table("torchaudio.functional.resample(): each k-th sample, k = max(samples / 100, 1).",
            "inline const std::vector<ResampleCase> kResamples", resample_cases())
print("}  // namespace energon::testing")
