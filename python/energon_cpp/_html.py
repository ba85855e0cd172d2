"""Batches in notebooks: a table of the fields, with the first pictures."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from typing import Any

from ._sample import shortened

_MOST_VALUES = 8  # of a field
_MOST_PIXELS = 160  # width and height of pictures made of tensors
_MOST_FILE_BYTES = 1 << 20
_FILE_TYPES = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}


def table_of(item: Any) -> str:
    """The HTML of a sample or batch."""
    fields: dict[str, Any] = {name: item[name] for name in item.keys()}
    keys = getattr(item, "__key__", None)
    rows = {"__key__": keys, **fields} if keys else fields
    body = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{_cell(value)}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption>{html.escape(type(item).__name__)}</caption>{body}</table>"


def _cell(value: Any) -> str:
    is_list = isinstance(value, (list, tuple))
    pictures = [_picture(one) for one in (value[:_MOST_VALUES] if is_list else _planes(value))]
    found = "".join(picture for picture in pictures if picture)
    if not found:
        return html.escape(shortened(value))
    about = f"{len(value)} values" if is_list else shortened(value)
    return f"{found}<br>{html.escape(about)}"


def _planes(value: Any) -> list[Any]:
    """The pictures of a tensor with four dimensions, or the value alone."""
    if len(getattr(value, "shape", ())) == 4:
        return [value[i] for i in range(min(_MOST_VALUES, value.shape[0]))]
    return [value]


def _picture(value: Any) -> str:
    """An <img> element, or an empty string for other values."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        start = bytes(value[:16])
        kind = next((kind for magic, kind in _FILE_TYPES.items() if start.startswith(magic)), None)
        is_other_riff = kind == "image/webp" and start[8:12] != b"WEBP"
        if kind is None or is_other_riff or len(value) > _MOST_FILE_BYTES:
            return ""
        return _element(kind, bytes(value))
    png = _png_of(value)
    return _element("image/png", png) if png else ""


def _element(kind: str, data: bytes) -> str:
    text = base64.b64encode(data).decode()
    return f"<img src='data:{kind};base64,{text}' style='max-height:{_MOST_PIXELS}px;margin:2px'>"


def _png_of(value: Any) -> bytes:
    """A PNG of a tensor of shape (1, 3 or 4, height, width) or (height, width, 1, 3 or 4)."""
    shape = tuple(getattr(value, "shape", ()))
    if len(shape) != 3 or 0 in shape:
        return b""
    channels_first = shape[0] in (1, 3, 4)
    if not channels_first and shape[2] not in (1, 3, 4):
        return b""
    import numpy

    if hasattr(value, "detach"):  # of torch, where NumPy has no bfloat16
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    pixels = numpy.asarray(value)
    if channels_first:
        pixels = pixels.transpose(1, 2, 0)
    height, width, channels = pixels.shape
    step = max(1, -(-max(height, width) // _MOST_PIXELS))
    pixels = pixels[::step, ::step]
    if pixels.dtype != numpy.uint8:  # floats may be normalized: show their range
        pixels = pixels.astype(numpy.float64)
        low, high = pixels.min(), pixels.max()
        pixels = (255 * (pixels - low) / ((high - low) or 1)).astype(numpy.uint8)
    rows = pixels.reshape(pixels.shape[0], -1)
    return _png(rows.tobytes(), pixels.shape[1], pixels.shape[0], channels)


def _png(pixels: bytes, width: int, height: int, channels: int) -> bytes:
    color = {1: 0, 3: 2, 4: 6}[channels]
    size = width * channels
    lines = b"".join(b"\0" + pixels[row * size : (row + 1) * size] for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
