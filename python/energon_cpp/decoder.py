"""What becomes of the parts of samples: SampleDecoder."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleDecoder:
    """Decodes parts by their names, natively and without the interpreter.

    image_decode: the mode of images, such as "torchrgb" (float32 in [0, 1], channels first),
    "torchrgb8" (uint8) or "rgb8" (uint8, channels last); None: images stay bytes. av_decode:
    "torch" decodes sound and video whole; "bytes" leaves them. guess_content: parts whose names say
    nothing are decoded by their first bytes.
    """

    image_decode: str | None = "torchrgb"
    av_decode: str = "bytes"
    guess_content: bool = False

    def _options(self) -> dict[str, Any]:
        if self.av_decode not in ("torch", "bytes"):
            raise ValueError(f"av_decode must be 'torch' or 'bytes', not {self.av_decode!r}")
        return {
            "decode": True,
            "image_decode": self.image_decode,
            "av_tensors": self.av_decode == "torch",
            "guess_content": self.guess_content,
        }
