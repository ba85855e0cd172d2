#!/usr/bin/env python3
"""Writes vectors.h: the results of Pillow, torch and torchvision for small images of noise.

Needs numpy, Pillow, torch, torchvision and xxhash. The compiled operators of torchvision need not load
with this torch, because they are not used.

    python3 make_vectors.py > vectors.h
"""

import base64
import math

import numpy as np
import PIL
import torch
import xxhash
from PIL import Image

_register_fake = torch.library.register_fake
torch.library.register_fake = lambda name, *a, **k: (
    (lambda f: f) if str(name).startswith("torchvision::") else _register_fake(name, *a, **k))
import torchvision  # noqa: E402
import torchvision.transforms.v2.functional as tv  # noqa: E402
from torchvision.transforms import InterpolationMode  # noqa: E402


def noise(width, height, channels):
    """The image of noise() in noise_image.h."""
    state, levels = 1, []
    for _ in range(width * height * channels):
        state = (state * 1103515245 + 12345) & 0xFFFFFFFF
        levels.append(state >> 24)
    return np.array(levels, np.uint8).reshape(height, width, channels)


def planes(image):
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))


def interleaved(tensor):
    return np.ascontiguousarray(tensor.numpy().transpose(1, 2, 0))


def text(array):
    return '"' + base64.b64encode(array.tobytes()).decode() + '"'


FILTERS = {"kNearest": Image.NEAREST, "kBox": Image.BOX, "kBilinear": Image.BILINEAR,
           "kBicubic": Image.BICUBIC}
MODES = {1: "L", 3: "RGB", 4: "CMYK"}
WHOLE = None
RESIZES = [(17, 13, WHOLE, 7, 5), (17, 13, WHOLE, 30, 20), (17, 13, WHOLE, 17, 6),
           (17, 13, WHOLE, 5, 13), (17, 13, WHOLE, 1, 1), (17, 13, WHOLE, 40, 3),
           (17, 13, (2, 1, 15, 12), 9, 4), (17, 13, (3.25, 0.5, 12.75, 11.125), 8, 9),
           (67, 45, WHOLE, 24, 33), (67, 45, WHOLE, 100, 71), (67, 45, (10, 5, 60, 40), 28, 28),
           (2, 3, WHOLE, 9, 8), (1, 1, WHOLE, 5, 4), (640, 7, WHOLE, 3, 5), (5, 500, WHOLE, 6, 2)]


def pillow_cases():
    for width, height, box, to_width, to_height in RESIZES:
        left, top, right, bottom = box or (0, 0, width, height)
        for name, number in FILTERS.items():
            if name == "kNearest" and box:
                continue  # Pillow uses other code for boxes with NEAREST
            digest = xxhash.xxh3_64()
            for channels, mode in MODES.items():
                picture = Image.frombytes(mode, (width, height),
                                          noise(width, height, channels).tobytes())
                # Rows first. Since 12.2, Pillow does columns first if it expects that to be faster.
                rows = picture.resize((to_width, height), number, box=(left, 0, right, height))
                result = rows.resize((to_width, to_height), number, box=(0, top, to_width, bottom))
                digest.update(result.tobytes())
            yield (f"    {{{width}, {height}, {{{left}, {top}, {right - left}, {bottom - top}}}, "
                   f"{to_width}, {to_height}, ResizeFilter::{name}, "
                   f"0x{digest.intdigest():016X}}},")


def torch_cases(floating):
    sizes = [(17, 13, 7, 6), (5, 4, 9, 7)]
    for width, height, to_width, to_height in sizes:
        image = planes(noise(width, height, 1 if floating else 3))
        image = image.float() / 256 if floating else image
        for name, mode in (("kBilinear", "bilinear"), ("kBicubic", "bicubic")):
            for antialias in (True, False):
                result = torch.nn.functional.interpolate(
                    image[None], size=(to_height, to_width), mode=mode, antialias=antialias,
                    align_corners=False)[0]
                yield (f"    {{{width}, {height}, {to_width}, {to_height}, ResizeFilter::{name}, "
                       f"{str(antialias).lower()},\n     {text(interleaved(result))}}},")


def warp_cases():
    image = planes(noise(17, 13, 3))[:, :9, :11].contiguous()
    for name, mode in (("kNearest", InterpolationMode.NEAREST),
                       ("kBilinear", InterpolationMode.BILINEAR)):
        for degrees in (31.0, -140.0, 90.0):
            result = tv.rotate(image, degrees, interpolation=mode)
            yield f"    {{WarpFilter::{name}, {degrees},\n     {text(interleaved(result))}}},"


def color_cases():
    image = planes(noise(9, 7, 3))
    for name, function, factors in (("brightness", tv.adjust_brightness, (0.0, 0.6, 1.45)),
                                    ("contrast", tv.adjust_contrast, (0.0, 0.5, 1.7)),
                                    ("saturation", tv.adjust_saturation, (0.0, 0.4, 1.8)),
                                    ("hue", tv.adjust_hue, (-0.5, -0.1, 0.03, 0.3))):
        for factor in factors:
            yield f'    {{"{name}", {factor},\n     {text(interleaved(function(image, factor)))}}},'
    gray = tv.rgb_to_grayscale(image, num_output_channels=3)
    yield f'    {{"gray", 0,\n     {text(interleaved(gray))}}},'


def numbers():
    """Levels as normalized by torchvision, and float16 of numbers of all sizes, by numpy."""
    levels = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16)
    result = tv.normalize(tv.to_dtype(levels, torch.float32, scale=True), [0.485], [0.229])
    yield ("// torchvision: to_dtype(float32, scale=True), normalize([0.485], [0.229]) of all levels.\n"
           f"inline constexpr std::string_view kNormalized =\n    {text(result.numpy())};\n")
    bits = np.arange(0, 1 << 32, 65521 * 17, dtype=np.uint64).astype(np.uint32)
    floats = bits.view(np.float32)
    with np.errstate(over="ignore"):
        halves = floats[~np.isnan(floats)].astype(np.float16)
    yield ("// numpy: float16 of the numbers whose bits are multiples of 65521 * 17, without NaN.\n"
           "inline constexpr std::uint64_t kHalvesDigest = "
           f"0x{xxhash.xxh3_64_intdigest(halves.tobytes()):016X};\n")


def random_boxes():
    """RandomResizedCrop.get_params over the words of CallRng(42), then a RandomCrop of 224 x 224."""
    words = np.random.RandomState(42)

    def draw_64():
        high, low = (int(words.randint(0, 1 << 32, dtype=np.uint64)) for _ in range(2))
        return high << 32 | low

    def uniform(low, high):
        return low + (high - low) * ((draw_64() >> 11) * 2.0**-53)

    def place(width, height, w, h):
        top, left = draw_64() % (height - h + 1), draw_64() % (width - w + 1)
        return f"    {{{left}, {top}, {w}, {h}}},"

    for _ in range(2):
        while True:
            area = 640 * 480 * uniform(0.08, 1.0)
            ratio = math.exp(uniform(math.log(3 / 4), math.log(4 / 3)))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= 640 and 0 < h <= 480:
                break
        yield place(640, 480, w, h)
    yield place(640, 480, 224, 224)


def table(comment, kind, name, rows):
    print(f"{comment}\ninline constexpr {kind} {name}[] = {{")
    print("\n".join(rows))
    print("};\n")


print(f"""// The results of other programs for the image noise(width, height, channels), written by
// make_vectors.py with Pillow {PIL.__version__}, torch {torch.__version__}, torchvision {torchvision.__version__}.

#pragma once

#include <cstdint>
#include <string_view>

#include "media/transform/resize.h"
#include "media/transform/pixels.h"
#include "media/transform/warp.h"

// clang-format off
namespace energon::testing {{

struct PillowResize {{
  std::int64_t width, height;
  FractionalBox box;
  std::int64_t to_width, to_height;
  ResizeFilter filter;
  std::uint64_t digest;  // XXH3-64 of the results with 1, 3 and 4 channels
}};

struct TorchResize {{
  std::int64_t width, height, to_width, to_height;
  ResizeFilter filter;
  bool antialias;
  std::string_view result;  // base64
}};

struct Rotated {{
  WarpFilter filter;
  double degrees;
  std::string_view result;
}};

struct Recolored {{
  std::string_view change;
  double factor;
  std::string_view result;
}};
""")
table("// Image.resize(size, filter, box) of modes L, RGB, CMYK.", "PillowResize", "kPillowResizes",
      pillow_cases())
table("// interpolate() of uint8, 3 channels.", "TorchResize", "kTorchByteResizes",
      torch_cases(False))
table("// interpolate() of level / 256 as float32, 1 channel.", "TorchResize", "kTorchFloatResizes",
      torch_cases(True))
table("// rotate() of the pixels [0, 11) x [0, 9) of noise(17, 13, 3), fill 0.", "Rotated",
      "kRotated", warp_cases())
table("// adjust_*() and rgb_to_grayscale() of noise(9, 7, 3).", "Recolored", "kRecolored",
      color_cases())
table("// Boxes of CallRng(42) in 640 x 480 pixels: two of RandomResizedCrop, one of RandomCrop(224).",
      "PixelBox", "kRandomBoxes", random_boxes())
print("\n".join(numbers()))
print("}  // namespace energon::testing\n// clang-format on")
