#!/usr/bin/env python3
"""Makes data/* and vectors.h: small images of all kinds, and hashes of their expected pixels.

Needs Pillow, numpy and xxhash; cjpeg and djpeg of libjpeg-turbo, dwebp of libwebp, pngtopnm of netpbm.
Pixels of lossless files are the encoded ones. TIFFs are turned, and colors are divided by associated alpha, as by Pillow.
Pixels of lossy files come from djpeg and dwebp, or Pillow for CMYK.
Usage: make_vectors.py [folder of photographs]. Only the hashes of photographs are stored, in the header.
"""

import io
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import PIL
import xxhash
from PIL import Image, features

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "data"
W, H = 19, 13
ROWS = []
SCALED = []


def pattern(channels, bits=8, width=W, height=H):
    """The same formula is in image_pattern.h."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    if bits == 16:
        return ((x * 4099 + y * 8191 + c * 20011 + x * y * 77) & 0xFFFF).astype(np.uint16)
    return ((x * 37 + y * 59 + c * 83 + x * y * 3) & ((1 << bits) - 1)).astype(np.uint8)


def photo(width, height):
    """Smooth colors with some texture."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.Generator(np.random.PCG64(7)).integers(-12, 12, (height, width, 3))
    base = np.stack([x * 255 // width, y * 255 // height, 255 - (x + y) * 255 // (width + height)], -1)
    base[(x // 8 + y // 8) % 3 == 0] = [200, 30, 60]
    return np.clip(base + noise, 0, 255).astype(np.uint8)


def run(*command, data=None):
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout


def read_pnm(data):
    """Pixels of a binary PGM or PPM as (height, width, channels)."""
    fields, at = [], 0
    while len(fields) < 4:
        end = at
        while data[end:end + 1] not in (b" ", b"\n", b"\t"):
            end += 1
        if data[at:at + 1] == b"#":
            at = data.index(b"\n", at) + 1
            continue
        fields.append(data[at:end])
        at = end + 1
    width, height, most = (int(field) for field in fields[1:])
    dtype = np.uint8 if most < 256 else ">u2"
    return np.frombuffer(data, dtype, offset=at).reshape(height, width, -1)


def to_8(pixels):
    if pixels.dtype == np.uint8:
        return pixels
    return ((pixels.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)


def to_rgb(pixels):
    return np.repeat(pixels[..., :1], 3, -1) if pixels.shape[-1] < 3 else pixels[..., :3]


def to_gray(pixels):
    if pixels.shape[-1] < 3:
        return pixels[..., :1]
    p = pixels.astype(np.uint64)
    return ((p[..., 0] * 19595 + p[..., 1] * 38470 + p[..., 2] * 7471 + 0x8000) >> 16).astype(pixels.dtype)


def hash_of(pixels):
    return xxhash.xxh3_64_intdigest(np.ascontiguousarray(pixels).tobytes())


def vector(name, data, pixels, gray=None, orientation=1, frames=1):
    """pixels: as stored, uint8 or uint16, (height, width, channels). The hashes of a TIFF are those of the turned pixels."""
    if data is not None:
        (DATA / name).write_bytes(data)
    height, width, channels = pixels.shape
    if name.endswith(".tiff"):
        pixels = {1: pixels, 6: np.rot90(pixels, -1), 8: np.rot90(pixels)}[orientation]
        assert orientation == 1 or (pixels == np.asarray(Image.open(io.BytesIO(data)))).all()
    bits = 8 * pixels.itemsize
    floats = pixels.astype(np.float32) / np.float32(255 if bits == 8 else 65535)
    gray = to_8(to_gray(pixels)) if gray is None else gray
    ROWS.append((name, width, height, channels, bits, orientation, frames, hash_of(to_8(to_rgb(pixels))),
                 hash_of(to_8(pixels)), hash_of(gray), hash_of(floats)))


# PNG


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(row, bits):
    """Samples of a row, (width, channels), as bytes."""
    flat = row.reshape(-1)
    if bits == 16:
        return flat.astype(">u2").tobytes()
    if bits == 8:
        return flat.tobytes()
    each = np.unpackbits(flat[:, None].astype(np.uint8), axis=1)[:, 8 - bits:]
    return np.packbits(each.reshape(-1)).tobytes()


def png(samples, bits, color, interlaced=False, extra=b""):
    height, width = samples.shape[:2]
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    raw = b""
    for x, y, dx, dy in passes:
        part = samples[y::dy, x::dx]
        if part.size:
            raw += b"".join(b"\0" + packed(row, bits) for row in part)
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + extra + png_chunk(b"IDAT", zlib.compress(raw, 9)) +
            png_chunk(b"IEND", b""))


def exif(orientation, order="<"):
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(order + "IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def make_png():
    for channels, color, name in [(1, 0, "gray"), (2, 4, "la"), (3, 2, "rgb"), (4, 6, "rgba")]:
        for bits in (8, 16):
            p = pattern(channels, bits)
            vector(f"{name}{bits}.png", png(p, bits, color), p)
    for bits in (1, 2, 4):
        p = pattern(1, bits)
        vector(f"gray{bits}.png", png(p, bits, 0, interlaced=bits == 2), p * (255 // ((1 << bits) - 1)))
    p = pattern(3)
    vector("interlaced.png", png(p, 8, 2, interlaced=True), p)
    vector("exif6.png", png(p, 8, 2, extra=png_chunk(b"eXIf", exif(6, ">"))), p, orientation=6)
    key = png_chunk(b"tRNS", struct.pack(">HHH", *(int(v) for v in p[3, 5])))
    alpha = np.where((p == p[3, 5]).all(-1, keepdims=True), 0, 255).astype(np.uint8)
    vector("rgb_key.png", png(p, 8, 2, extra=key), np.concatenate([p, alpha], -1))
    g = pattern(1)
    alpha = np.where(g == g[2, 2], 0, 255).astype(np.uint8)
    vector("gray_key.png", png(g, 8, 0, extra=png_chunk(b"tRNS", struct.pack(">H", int(g[2, 2, 0])))),
           np.concatenate([g, alpha], -1))
    for bits in (4, 8):
        count = 1 << bits
        palette = pattern(3, 8, count, 1).reshape(count, 3)
        i = pattern(1, bits)
        vector(f"palette{bits}.png", png(i, bits, 3, extra=png_chunk(b"PLTE", palette.tobytes())), palette[i[..., 0]])
        alphas = np.arange(count, dtype=np.uint8)[:count // 2] * 2
        extra = png_chunk(b"PLTE", palette.tobytes()) + png_chunk(b"tRNS", alphas.tobytes())
        full = np.concatenate([palette, np.concatenate([alphas, np.full(count - count // 2, 255, np.uint8)])[:, None]], -1)
        vector(f"palette{bits}_alpha.png", png(i, bits, 3, extra=extra), full[i[..., 0]])


# GIF: LZW without compression, a clear code before the codes grow.


def gif_image(indexes, bits, x=0, y=0, palette=None, interlaced=False):
    height, width = indexes.shape
    flags = (0x40 if interlaced else 0) | (0x80 | (bits - 1) if palette is not None else 0)
    if interlaced:
        indexes = np.concatenate([indexes[a::b] for a, b in ((0, 8), (4, 8), (2, 4), (1, 2))])
    clear = 1 << bits
    codes = []
    for n, index in enumerate(indexes.reshape(-1)):
        if n % (clear // 2 - 1) == 0:
            codes.append(clear)
        codes.append(int(index))
    codes.append(clear + 1)
    value = sum(code << (i * (bits + 1)) for i, code in enumerate(codes))
    data = value.to_bytes((len(codes) * (bits + 1) + 7) // 8, "little")
    blocks = b"".join(bytes([len(data[i:i + 255])]) + data[i:i + 255] for i in range(0, len(data), 255))
    local = b"" if palette is None else palette.tobytes()
    return b"," + struct.pack("<HHHHB", x, y, width, height, flags) + local + bytes([bits]) + blocks + b"\0"


def gif(width, height, palette, bits, parts):
    flags = 0x80 | (bits - 1) if palette is not None else 0
    table = b"" if palette is None else palette.tobytes()
    return b"GIF89a" + struct.pack("<HHBBB", width, height, flags, 0, 0) + table + b"".join(parts) + b";"


def transparent(index):
    return b"!\xf9\x04\x01\0\0" + bytes([index]) + b"\0"


def make_gif():
    palette = pattern(3, 8, 64, 1).reshape(64, 3)
    other = 255 - palette
    i = pattern(1, 6)[..., 0]
    vector("global.gif", gif(W, H, palette, 6, [gif_image(i, 6)]), palette[i])
    vector("interlaced.gif", gif(W, H, palette, 6, [gif_image(i, 6, interlaced=True)]), palette[i])
    vector("local.gif", gif(W, H, palette, 6, [gif_image(i, 6, palette=other)]), other[i])
    small = i[:7, :9]
    canvas = np.zeros((H, W), np.uint8)
    canvas[4:11, 3:12] = small
    two = [gif_image(small, 6, 3, 4), gif_image(i, 6), b"!\xfe\x03abc\0"]
    vector("part.gif", gif(W, H, palette, 6, two), palette[canvas], frames=2)
    canvas = np.full((H, W), 9, np.uint8)
    canvas[4:11, 3:12] = small
    full = np.concatenate([palette, np.full((64, 1), 255, np.uint8)], -1)
    full[9, 3] = 0
    vector("transparent.gif", gif(W, H, None, 6, [transparent(9), gif_image(small, 6, 3, 4, palette)]), full[canvas])


# TIFF


def tiff(tags, blocks, order="<", big=False):
    """tags: number to (type, values); blocks: strips or tiles, whose offsets and sizes are added."""
    tile = 322 in tags
    mark = (b"II" if order == "<" else b"MM") + struct.pack(order + "H", 43 if big else 42)
    data = mark + (struct.pack(order + "HHQ", 8, 0, 0) if big else struct.pack(order + "I", 0))
    offsets = []
    for block in blocks:
        offsets.append(len(data))
        data += block + b"\0" * (len(block) % 2)
    tags = dict(tags)
    tags[324 if tile else 273] = (4, offsets)
    tags[325 if tile else 279] = (4, [len(block) for block in blocks])
    entries = b""
    for number in sorted(tags):
        kind, values = tags[number]
        content = struct.pack(order + str(len(values)) + {3: "H", 4: "I"}[kind], *values)
        room = 8 if big else 4
        if len(content) > room:
            place = len(data)
            data += content + b"\0" * (len(content) % 2)
            content = struct.pack(order + ("Q" if big else "I"), place)
        entries += struct.pack(order + ("HHQ" if big else "HHI"), number, kind, len(values)) + content.ljust(room, b"\0")
    at = len(data)
    count = struct.pack(order + ("Q" if big else "H"), len(tags))
    end = b"\0" * (8 if big else 4)
    data += count + entries + end
    if big:
        return data[:8] + struct.pack(order + "Q", at) + data[16:]
    return data[:4] + struct.pack(order + "I", at) + data[8:]


def tiff_of(p, bits, photometric, order="<", big=False, deflate=False, separate=False, tile=None, lines=5, alpha=None,
            extra=None):
    height, width, channels = p.shape
    tags = {256: (4, [width]), 257: (4, [height]), 258: (3, [bits] * channels), 259: (3, [8 if deflate else 1]),
            262: (3, [photometric]), 277: (3, [channels]), 284: (3, [2 if separate else 1])}
    tags.update(extra or {})
    if alpha is not None:
        tags[338] = (3, [alpha])
    planes = [p[..., c:c + 1] for c in range(channels)] if separate else [p]
    blocks = []
    for plane in planes:
        if tile:
            tags[322], tags[323] = (4, [tile]), (4, [tile])
            full = np.zeros((-(-height // tile) * tile, -(-width // tile) * tile, plane.shape[2]), p.dtype)
            full[:height, :width] = plane
            parts = [full[y:y + tile, x:x + tile] for y in range(0, height, tile) for x in range(0, width, tile)]
        else:
            tags[278] = (4, [lines])
            parts = [plane[y:y + lines] for y in range(0, height, lines)]
        for part in parts:
            raw = b"".join(packed(row, bits) for row in part)
            if bits == 16 and order == "<":
                raw = np.frombuffer(raw, ">u2").astype("<u2").tobytes()
            blocks.append(zlib.compress(raw, 9) if deflate else raw)
    return tiff(tags, blocks, order, big)


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def make_tiff():
    for channels, name, photometric, alpha in [(1, "gray", 1, None), (2, "la", 1, 2), (3, "rgb", 2, None), (4, "rgba", 2, 2)]:
        for bits in (8, 16):
            p = pattern(channels, bits)
            vector(f"{name}{bits}.tiff", tiff_of(p, bits, photometric, alpha=alpha, deflate=bits == 16), p)
    p, q = pattern(3), pattern(3, 16)
    vector("big_endian.tiff", tiff_of(q, 16, 2, order=">"), q)
    vector("bigtiff.tiff", tiff_of(p, 8, 2, big=True, extra={274: (3, [8])}), p, orientation=8)
    vector("tiles.tiff", tiff_of(p, 8, 2, tile=16, deflate=True), p)
    vector("tiles_separate16.tiff", tiff_of(q, 16, 2, tile=16, separate=True, deflate=True), q)
    vector("separate.tiff", tiff_of(p, 8, 2, separate=True, lines=13), p)
    vector("rgbx.tiff", tiff_of(pattern(4), 8, 2, alpha=0), p)
    vector("turned.tiff", tiff_of(p, 8, 2, tile=16, extra={274: (3, [6])}), p, orientation=6)
    make_multiplied_tiff()
    # Not supported: numbers below 0 are not levels.
    for bits in (8, 16):
        data = tiff_of(pattern(1, bits), bits, 1, extra={339: (3, [2])}, tile=16)
        (DATA / f"signed{bits}.tiff").write_bytes(data)
    # L*a*b*, whose conversion is libtiff's own: tiles must have the pixels of strips.
    (DATA / "lab.tiff").write_bytes(tiff_of(p, 8, 8))
    (DATA / "lab_tiles.tiff").write_bytes(tiff_of(p, 8, 8, tile=16))
    for bits in (1, 4, 8, 16):
        g = pattern(1, bits)
        most = (1 << bits) - 1
        white = (most - g) * (255 // most) if bits < 16 else most - g
        vector(f"white{bits}.tiff", tiff_of(g, bits, 0), white.astype(g.dtype))
    for bits in (4, 8):
        count = 1 << bits
        palette = pattern(3, 8, count, 1).reshape(count, 3)
        i = pattern(1, bits)
        table = {320: (3, [int(v) * 257 for v in palette.T.reshape(-1)])}
        vector(f"palette{bits}.tiff", tiff_of(i, bits, 3, extra=table, tile=16 if bits == 4 else None), palette[i[..., 0]])
    rgb = Image.fromarray(p)
    vector("lzw.tiff", saved(rgb, "TIFF", compression="tiff_lzw"), p)
    bilevel = Image.fromarray(pattern(1, 1)[..., 0] * 255).convert("1", dither=Image.Dither.NONE)
    vector("group4.tiff", saved(bilevel, "TIFF", compression="group4"), pattern(1, 1) * 255)
    data = saved(Image.fromarray(photo(20, 12)), "TIFF", compression="jpeg", quality=75)
    vector("jpeg.tiff", data, np.asarray(Image.open(io.BytesIO(data))))
    second = Image.fromarray(255 - p)
    vector("two.tiff", saved(rgb, "TIFF", compression="tiff_adobe_deflate", save_all=True, append_images=[second]), p, frames=2)
    # Not to be compared: libtiff's conversion of CMYK differs from Pillow's. (255 - C) * (255 - K) / 255.
    cmyk = pattern(4).astype(int)
    vector("cmyk.tiff", tiff_of(pattern(4), 8, 5), ((255 - cmyk[..., :3]) * (255 - cmyk[..., 3:]) // 255).astype(np.uint8))


def make_multiplied_tiff():
    """Associated alpha: 0 and 255 too, and colors above alpha."""
    for channels, name, photometric in ((2, "la", 1), (4, "rgba", 2)):
        for bits in (8, 16):
            most = (1 << bits) - 1
            p = pattern(channels, bits)
            p[0, :5, -1], p[1, :5, -1] = 0, most
            alpha = p[..., -1:].astype(np.uint64)
            colors = np.minimum(p[..., :-1].astype(np.uint64) * most // np.maximum(alpha, 1), most)
            divided = np.concatenate([np.where(alpha == 0, 0, colors), alpha], -1).astype(p.dtype)
            data = tiff_of(p, bits, photometric, alpha=1, separate=bits == 16, deflate=bits == 16)
            if (channels, bits) == (4, 8):
                assert (divided == np.asarray(Image.open(io.BytesIO(data)))).all()
            vector(f"multiplied_{name}{bits}.tiff", data, divided)


# JPEG


def djpeg(data, *options):
    return read_pnm(run("djpeg", *options, data=data))


def with_exif(data, body):
    segment = b"Exif\0\0" + body
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + data[2:]


def make_jpeg():
    rgb = photo(45, 37)
    ppm = b"P6 45 37 255\n" + rgb.tobytes()
    kinds = {"444": ["-sample", "1x1"], "422": ["-sample", "2x1"], "420": ["-sample", "2x2"], "440": ["-sample", "1x2"],
             "411": ["-sample", "4x1"], "progressive": ["-progressive"], "restart": ["-restart", "1"],
             "arithmetic": ["-arithmetic"], "rgb": ["-rgb"], "gray": ["-grayscale"]}
    for name, options in kinds.items():
        data = run("cjpeg", "-quality", "75", *options, data=ppm)
        pixels = djpeg(data)
        vector(f"{name}.jpg", data, pixels, gray=djpeg(data, "-grayscale"))
        for eighths in (1, 2, 4):
            pixels = to_rgb(djpeg(data, "-scale", f"{eighths}/8"))
            SCALED.append((f"{name}.jpg", eighths, pixels.shape[1], pixels.shape[0], hash_of(pixels)))
    # A scan that may be repeated: all coefficients except the first, together.
    with tempfile.NamedTemporaryFile("w") as script:
        script.write("0: 0-0, 0, 0;\n"
                     "0: 1-63, 0, 0;\n")
        script.flush()
        data = run("cjpeg", "-grayscale", "-scans", script.name, data=b"P6 20 12 255\n" + photo(20, 12).tobytes())
    vector("spectral.jpg", data, djpeg(data))
    small = photo(20, 12)
    data = run("cjpeg", "-sample", "2x2", data=b"P6 20 12 255\n" + small.tobytes())
    for orientation in range(2, 9):
        turned = with_exif(data, exif(orientation, "<>"[orientation % 2]))
        vector(f"exif{orientation}.jpg", turned, djpeg(turned), gray=djpeg(turned, "-grayscale"), orientation=orientation)
    cmyk = np.concatenate([rgb, 255 - rgb[..., 1:2] // 2], -1)
    data = saved(Image.fromarray(cmyk, "CMYK"), "JPEG", quality=75)
    at = data.index(b"Adobe") + 11
    for name, transform in (("cmyk", 0), ("ycck", 2)):
        changed = data[:at] + bytes([transform]) + data[at + 1:]
        vector(f"{name}.jpg", changed, np.asarray(Image.open(io.BytesIO(changed)).convert("RGB")))


# WebP


def dwebp(data, *options):
    """Without options, a PNG."""
    result = run("dwebp", "-quiet", *options, "-o", "-", "--", "-", data=data)
    return read_pnm(result) if options else np.asarray(Image.open(io.BytesIO(result)))


def make_webp():
    p, a = pattern(3), pattern(4)
    visible = a.copy()
    visible[..., 3] |= 1  # transparent pixels may lose their colors
    webp = {"lossless": True, "exact": True}
    data = saved(Image.fromarray(p), "WEBP", **webp)
    vector("lossless.webp", data, p)
    vector("lossless_alpha.webp", saved(Image.fromarray(visible), "WEBP", **webp), visible)
    data = saved(Image.fromarray(p), "WEBP", exif=b"Exif\0\0" + exif(5), **webp)
    vector("exif5.webp", data, p, orientation=5)
    rgb = photo(45, 37)
    data = saved(Image.fromarray(rgb), "WEBP", quality=80)
    vector("lossy.webp", data, dwebp(data, "-ppm"))
    alpha = pattern(1, 8, 45, 37)
    data = saved(Image.fromarray(np.concatenate([rgb, alpha], -1)), "WEBP", quality=80, exact=True)
    vector("lossy_alpha.webp", data, dwebp(data))
    frames = [Image.fromarray(visible), Image.fromarray(255 - visible | 1)]
    data = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], **webp)
    vector("animated.webp", data, visible, frames=2)


# Photographs that are not stored here.


def make_photographs(folder):
    for path in sorted(pathlib.Path(folder).glob("*")):
        data = path.read_bytes()
        if path.suffix == ".jpg":
            vector(path.name, None, djpeg(data), gray=djpeg(data, "-grayscale"))
        elif path.suffix == ".png":
            vector(path.name, None, read_pnm(run("pngtopnm", data=data)))


def check_with_other_tools():
    """Checks that other programs read the encoded pixels, where they agree about the meaning."""
    for name, width, height, channels, bits, *_rest, rgb, stored, _gray, _floats in ROWS:
        if not (DATA / name).exists() or bits != 8 or name.endswith(".jpg") or name in ("lossy.webp", "cmyk.tiff", "rgbx.tiff"):
            continue
        image = Image.open(DATA / name)
        image.getexif()
        if name == "bigtiff.tiff":
            continue  # Pillow turns it
        assert hash_of(np.asarray(image.convert("RGB"))) == rgb, name


def write_header():
    tools = f"Pillow {PIL.__version__} (libjpeg-turbo {features.version('libjpeg_turbo')}), numpy {np.__version__}"
    lines = ["// Written by make_vectors.py: files in data/ and photographs of the shared data, and XXH3-64 of their pixels,",
             "// channels last. Lossy ones: djpeg of libjpeg-turbo 2.1.5, dwebp of libwebp 1.2.4, pngtopnm of netpbm 11.1;",
             f"// {tools}.", "", "#pragma once", "", "#include <cstdint>", "", "namespace energon::testing {", "",
             "struct ImageVector {", "  const char* name;", "  int width, height, channels, bits, orientation, frames;",
             "  std::uint64_t rgb8;      // uint8, RGB; turned for a TIFF", "  std::uint64_t stored8;   // uint8, channels as stored",
             "  std::uint64_t gray8;     // uint8, one channel", "  std::uint64_t stored_f;  // float32, channels as stored",
             "};", ""]
    for title, there in (("kImageVectors", True), ("kPhotographs", False)):
        lines.append(f"inline constexpr ImageVector {title}[] = {{")
        for name, *numbers, rgb, stored, gray, floats in ROWS:
            if (DATA / name).exists() == there:
                hashes = ", ".join(f"0x{value:016x}" for value in (rgb, stored, gray, floats))
                lines.append(f'    {{"{name}", {", ".join(map(str, numbers))}, {hashes}}},')
        lines += ["};", ""]
    lines += ["struct ScaledVector {", "  const char* name;", "  int eighths, width, height;",
              "  std::uint64_t rgb8;  // result of djpeg -scale eighths/8", "};", "",
              "inline constexpr ScaledVector kScaledVectors[] = {"]
    lines += [f'    {{"{name}", {eighths}, {width}, {height}, 0x{rgb:016x}}},' for name, eighths, width, height, rgb in SCALED]
    lines += ["};", "", "}  // namespace energon::testing"]
    (HERE / "vectors.h").write_text("\n".join(lines) + "\n")


def main():
    DATA.mkdir(exist_ok=True)
    make_png()
    make_gif()
    make_tiff()
    make_jpeg()
    make_webp()
    check_with_other_tools()
    if len(sys.argv) > 1:
        make_photographs(sys.argv[1])
    write_header()
    print(len(ROWS), "vectors,", sum(path.stat().st_size for path in DATA.iterdir()), "bytes")


if __name__ == "__main__":
    main()
