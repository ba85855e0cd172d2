"""Makes data/media.tgz, a shard of small images, sounds and videos, and data/expected.tsv, the table
media_metadata that Energon itself writes for it.

Needs: megatron-energon 7.4.1, Pillow 13.0, PyAV 15.1, numpy. Run: python make_vectors.py
The shard is the same on each run with these versions.
"""

import contextlib
import gzip
import io
import os
import pathlib
import sqlite3
import struct
import subprocess
import sys
import tarfile
import tempfile

import av
import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).parent
FILES = {}


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def gradient(mode, size=(12, 8)):
    bands = len(Image.new(mode, (1, 1)).getbands())
    pixels = np.add.outer(np.arange(size[1]) * 5, np.arange(size[0]) * 3).astype(np.uint8)
    if bands == 1:
        return Image.fromarray(pixels).convert(mode)
    return Image.merge(mode, [Image.fromarray(np.roll(pixels, band)) for band in range(bands)])


def tiff(tags, pixels, big_endian=False, big=False):
    """A TIFF of one strip with exactly these tags, {number: (type, values)}."""
    order = ">" if big_endian else "<"
    size = {1: "B", 3: "H", 4: "I", 16: "Q"}
    tags = dict(tags)
    tags[273] = (4, [0])
    tags[279] = (4, [len(pixels)])
    entry, inline = (20, 8) if big else (12, 4)
    head = 16 if big else 8
    directory = head + (8 if big else 2) + entry * len(tags) + (8 if big else 4)
    extra = b""
    entries = b""
    lengths = {tag: struct.calcsize(order + size[kind] * len(values)) for tag, (kind, values) in tags.items()}
    data = directory + sum(length for length in lengths.values() if length > inline)
    for tag, (kind, values) in sorted(tags.items()):
        values = [data] if tag == 273 else values
        packed = struct.pack(order + size[kind] * len(values), *values)
        count = struct.pack(order + ("Q" if big else "I"), len(values))
        if len(packed) > inline:
            value = struct.pack(order + ("Q" if big else "I"), directory + len(extra))
            extra += packed
        else:
            value = packed.ljust(inline, b"\0")
        entries += struct.pack(order + "HH", tag, kind) + count + value
    magic = b"MM" if big_endian else b"II"
    if big:
        start = magic + struct.pack(order + "HHHQ", 43, 8, 0, 16) + struct.pack(order + "Q", len(tags))
        return start + entries + struct.pack(order + "Q", 0) + extra + pixels
    start = magic + struct.pack(order + "HI", 42, 8) + struct.pack(order + "H", len(tags))
    return start + entries + struct.pack(order + "I", 0) + extra + pixels


def short(*values):
    return (3, list(values))


def plain_tiff(photometric, bits, width=6, height=4, extra=(), form=None, more=None, **options):
    tags = {256: short(width), 257: short(height), 258: short(*bits), 259: short(1), 262: short(photometric),
            277: short(len(bits)), 278: short(height)}
    if extra:
        tags[338] = short(*extra)
    if form:
        tags[339] = short(*[form] * len(bits))
    tags.update(more or {})
    row = (sum(bits) * width + 7) // 8
    return tiff(tags, bytes(row * height), **options)


def gif(width, height, palette, image_palette=None, at=(0, 0), size=None, extension=b""):
    """One image of a GIF with these palettes of 4 colors, of pixels 0."""
    size = size or (width, height)
    flags = 0x80 | 1 if palette else 0
    out = b"GIF89a" + struct.pack("<HHBBB", width, height, flags, 0, 0) + bytes(palette or b"") + extension
    out += b"," + struct.pack("<HHHHB", *at, *size, 0x80 | 1 if image_palette else 0) + bytes(image_palette or b"")
    codes = [4] + [0] * 3 + [5]  # clear, pixels, end; enough for 3 pixels
    bits = sum(code << (3 * i) for i, code in enumerate(codes))
    return out + b"\x02" + b"\x02" + struct.pack("<H", bits & 0xFFFF) + b"\x00;"


def images():
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        image = gradient("L").convert("I;16") if mode == "I;16" else gradient("RGB").convert(mode)
        FILES[f"png-{mode.replace(';', '')}.png"] = saved(image, "PNG")
    for depth, kind in ((2, 0), (4, 0), (16, 2), (16, 4), (16, 6), (1, 3), (4, 3)):
        FILES[f"png-depth{depth}-type{kind}.png"] = png(depth, kind)
    for mode in ("L", "RGB", "CMYK"):
        FILES[f"jpeg-{mode}.jpg"] = saved(gradient(mode), "JPEG")
    FILES["jpeg-progressive.JPEG"] = saved(gradient("RGB"), "JPEG", progressive=True)
    turned = Image.Exif()
    turned[0x0112] = 6
    FILES["jpeg-turned.jpg"] = saved(gradient("RGB"), "JPEG", exif=turned)
    FILES["webp-lossy.webp"] = saved(gradient("RGB"), "WEBP")
    FILES["webp-lossless.webp"] = saved(gradient("RGB"), "WEBP", lossless=True)
    FILES["webp-alpha.webp"] = saved(gradient("RGBA"), "WEBP")
    FILES["webp-lossless-alpha.webp"] = saved(gradient("RGBA"), "WEBP", lossless=True)
    for mode in ("RGB", "RGBA"):
        frames = [gradient(mode), gradient(mode).rotate(180)]
        FILES[f"webp-animated-{mode}.webp"] = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:])
    gray = bytes(value for i in range(4) for value in (i, i, i))
    color = bytes(range(12))
    FILES["gif-color.gif"] = gif(3, 1, color)
    FILES["gif-gray-ramp.gif"] = gif(3, 1, gray)
    FILES["gif-no-palette.gif"] = gif(3, 1, None)
    FILES["gif-own-palette.gif"] = gif(3, 1, gray, color)
    FILES["gif-own-gray.gif"] = gif(3, 1, color, gray)
    FILES["gif-grows.gif"] = gif(1, 1, color, at=(2, 1), size=(3, 1))
    comment = b"!\xfe\x05hello\x00"
    FILES["gif-comment.gif"] = gif(3, 1, color, extension=comment)
    FILES["gif-animated.gif"] = saved(gradient("P"), "GIF", save_all=True, append_images=[gradient("P").rotate(180)])
    FILES["seg.mask.PNG"] = saved(gradient("L"), "PNG")


def png(depth, kind):
    import zlib

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    row = b"\0" + bytes((depth * samples * 5 + 7) // 8)
    palette = chunk(b"PLTE", bytes(6)) if kind == 3 else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 5, 3, depth, kind, 0, 0, 0)) + palette +
            chunk(b"IDAT", zlib.compress(row * 3)) + chunk(b"IEND", b""))


def tiffs():
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F", "LAB", "YCbCr"):
        image = gradient("L").convert(mode) if mode in ("I;16", "I", "F") else (
            gradient(mode) if mode in ("LAB", "YCbCr", "CMYK") else gradient("RGB").convert(mode))
        FILES[f"tiff-{mode.replace(';', '')}.tiff"] = saved(image, "TIFF")
    FILES["tiff-lzw.tif"] = saved(gradient("RGB"), "TIFF", compression="tiff_lzw")
    FILES["tiff-jpeg.tif"] = saved(gradient("YCbCr"), "TIFF", compression="jpeg")
    FILES["tiff-turned.tif"] = saved(gradient("RGB"), "TIFF", tiffinfo={274: 6})
    FILES["tiff-mm-16.tif"] = plain_tiff(1, [16], big_endian=True)
    FILES["tiff-mm-rgb16.tif"] = plain_tiff(2, [16] * 3, big_endian=True)
    FILES["tiff-big.tif"] = plain_tiff(2, [8] * 3, big=True)
    FILES["tiff-big-mm.tif"] = plain_tiff(1, [8], big=True, big_endian=True)
    FILES["tiff-white-0.tif"] = plain_tiff(0, [4])
    FILES["tiff-signed16.tif"] = plain_tiff(1, [16], form=2)
    FILES["tiff-associated.tif"] = plain_tiff(2, [8] * 4, extra=(1,))
    FILES["tiff-unspecified.tif"] = plain_tiff(2, [8] * 4, extra=(0,))
    FILES["tiff-two-more.tif"] = plain_tiff(2, [8] * 5, extra=(2, 0))
    FILES["tiff-gray-alpha.tif"] = plain_tiff(1, [8] * 2, extra=(1,))
    FILES["tiff-palette-alpha.tif"] = plain_tiff(3, [8] * 2, extra=(2,), more={320: short(*range(768))})
    FILES["tiff-one-bits.tif"] = plain_tiff(2, [8] * 3, more={258: short(8)})


@contextlib.contextmanager
def container(name, kind=None):
    out = io.BytesIO()
    with av.open(out, "w", format=kind) as opened:
        yield opened
    FILES[name] = out.getvalue()


def add_sound(opened, codec, rate, samples, layout, form):
    stream = opened.add_stream(codec, rate=rate)
    stream.layout = layout
    channels = {"mono": 1, "stereo": 2}[layout]
    wave = (np.sin(np.arange(samples) * 0.05) * 8000).astype(np.int16)
    wave = np.repeat(wave[:, None], channels, 1)
    if form == "s16":
        frame = av.AudioFrame.from_ndarray(wave.reshape(1, -1), format="s16", layout=layout)
    else:
        frame = av.AudioFrame.from_ndarray((wave.T / 32768).astype(np.float32), format="fltp", layout=layout)
    frame.sample_rate = rate
    frame.pts = 0
    return stream, [frame]


def add_video(opened, codec, fps, count, size, form="yuv420p"):
    stream = opened.add_stream(codec, rate=fps)
    stream.width, stream.height = size
    stream.pix_fmt = form
    frames = []
    for i in range(count):
        pixels = np.full((size[1], size[0], 3), i * 10, np.uint8)
        frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=form)
        frame.pts = i
        frames.append(frame)
    return stream, frames


def encode(opened, *tracks):
    for stream, frames in tracks:
        for frame in frames:
            for packet in stream.encode(frame):
                opened.mux(packet)
    for stream, _ in tracks:
        for packet in stream.encode():
            opened.mux(packet)


def sounds_and_videos():
    from fractions import Fraction

    with container("sound.wav", "wav") as opened:
        encode(opened, add_sound(opened, "pcm_s16le", 8000, 1000, "stereo", "s16"))
    with container("sound.flac", "flac") as opened:
        encode(opened, add_sound(opened, "flac", 16000, 1234, "mono", "s16"))
    with container("sound.mp3", "mp3") as opened:
        encode(opened, add_sound(opened, "libmp3lame", 16000, 2000, "mono", "fltp"))
    with container("sound.ogg", "ogg") as opened:
        encode(opened, add_sound(opened, "libvorbis", 16000, 3000, "mono", "fltp"))
    with container("sound.m4a", "ipod") as opened:
        encode(opened, add_sound(opened, "aac", 16000, 3072, "mono", "fltp"))
    with container("silent.mp4", "mp4") as opened:
        encode(opened, add_video(opened, "mpeg4", 25, 10, (32, 16)))
    with container("ntsc.mp4", "mp4") as opened:
        encode(opened, add_video(opened, "mpeg4", Fraction(30000, 1001), 7, (16, 32)))
    with container("both.mp4", "mp4") as opened:
        encode(opened, add_video(opened, "mpeg4", 10, 5, (16, 16)),
               add_sound(opened, "aac", 8000, 4096, "mono", "fltp"))
    with container("silent.mkv", "matroska") as opened:
        encode(opened, add_video(opened, "mpeg4", 24, 6, (16, 16)))
    with container("both.webm", "webm") as opened:
        encode(opened, add_video(opened, "libvpx", 10, 4, (16, 16)),
               add_sound(opened, "libvorbis", 16000, 3000, "mono", "fltp"))
    with container("silent.avi", "avi") as opened:
        encode(opened, add_video(opened, "mpeg4", 15, 4, (16, 16)))
    with container("sound.aac", "adts") as opened:
        encode(opened, add_sound(opened, "aac", 16000, 3072, "mono", "fltp"))


def shard_of(names):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(names):
            member = tarfile.TarInfo(name)
            member.size = len(FILES[name])
            tar.addfile(member, io.BytesIO(FILES[name]))
    return out.getvalue()


def energon_rows(tar):
    """The table that Energon writes for this shard."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "media.tar").write_bytes(tar)
        energon = str(pathlib.Path(sys.executable).parent / "energon")
        subprocess.run([energon, "prepare", folder, "--non-interactive", "--split-ratio", "1,0,0", "--skip-dataset-yaml",
                        "--media-metadata-by-extension", "--num-workers", "1", "--no-progress"],
                       check=True, stdout=subprocess.DEVNULL)
        db = sqlite3.connect(os.path.join(folder, ".nv-meta", "index.sqlite"))
        return list(db.execute("SELECT entry_key, metadata_type, metadata_json FROM media_metadata ORDER BY entry_key"))


def main():
    images()
    tiffs()
    sounds_and_videos()
    (HERE / "data").mkdir(exist_ok=True)
    # For a shard with one damaged image, Energon stores nothing, and its prepare fails.
    rows = energon_rows(shard_of(FILES))
    FILES["damaged.png"] = FILES["png-RGB.png"][:20]
    FILES["empty.jpg"] = b""
    FILES["text.mp4"] = b"no video"
    FILES["notes.txt"] = b"no medium"
    (HERE / "data" / "media.tgz").write_bytes(gzip.compress(shard_of(FILES), 9, mtime=0))
    (HERE / "data" / "expected.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    print(len(FILES), "files,", len(rows), "rows")


if __name__ == "__main__":
    main()
