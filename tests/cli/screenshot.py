"""Makes the data of screenshot.sh, and checks the picture: screenshot.py make TAR | check PNG."""

import io
import struct
import sys
import tarfile
import zlib

PHOTOGRAPH = (230, 20, 140)  # no color of the page
WIDTH, HEIGHT = 700, 600


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, color):
    rows = (b"\0" + bytes(color) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def make(path):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in [("one.png", png(640, 480, PHOTOGRAPH)), ("one.txt", b"a caption"),
                           ("one.json", b'{"number": 1}'), ("two.png", b"\x89PNG\r\n\x1a\nbroken")]:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def pixels(data):
    """Rows of pixels of a PNG with 8 bits a channel, RGB or RGBA, not interlaced."""
    width, height, bits, color_type, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    assert (bits, interlaced) == (8, 0) and color_type in (2, 6), "an unexpected kind of PNG"
    channels = 3 if color_type == 2 else 4
    packed, at = b"", 8
    while at < len(data):
        size, = struct.unpack(">I", data[at:at + 4])
        if data[at + 4:at + 8] == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    raw, step, rows = zlib.decompress(packed), width * channels, []
    above = bytearray(step)
    for y in range(height):
        kind = raw[y * (step + 1)]
        row = bytearray(raw[y * (step + 1) + 1:(y + 1) * (step + 1)])
        for i in range(step if kind else 0):
            left = row[i - channels] if i >= channels else 0
            corner = above[i - channels] if i >= channels else 0
            up = above[i]
            if kind == 4:
                guess = left + up - corner
                near = min((abs(guess - v), n) for n, v in enumerate((left, up, corner)))[1]
                row[i] = row[i] + (left, up, corner)[near] & 255
            else:
                row[i] = row[i] + (0, left, up, (left + up) // 2)[kind] & 255
        rows.append([tuple(row[i:i + 3]) for i in range(0, step, channels)])
        above = row
    return width, height, rows


def check(path):
    with open(path, "rb") as file:
        width, height, rows = pixels(file.read())
    assert (width, height) == (WIDTH, HEIGHT), f"the picture has {width} x {height} pixels"
    every = [color for row in rows for color in row]
    colors = len(set(every))
    assert colors > 50, f"the picture has only {colors} colors"
    shown = every.count(PHOTOGRAPH)
    assert shown > 20000, f"only {shown} pixels have the color of the photograph"
    print(f"{width} x {height}, {colors} colors, {shown} pixels of the photograph")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](sys.argv[2])
