"""The classes of samples and batches that encoders make, for one package."""

from __future__ import annotations

import functools
import types
from typing import Any


class Types:
    """Makes classes that derive from those of the package `energon`. They are also added to this module,
    because Energon pickles batches."""

    def __init__(self, energon: types.ModuleType) -> None:
        @energon.edataclass
        class Cooked(energon.Sample):  # type: ignore[name-defined,misc]
            text: Any
            number: Any
            more: Any

        @energon.edataclass
        class Encoded(energon.Sample):  # type: ignore[name-defined,misc]
            text: Any
            tokens: Any
            number: Any

        @energon.edataclass
        class OnlyText(energon.Sample):  # type: ignore[name-defined,misc]
            text: Any

        @energon.edataclass
        class RawBatch(energon.Batch):  # type: ignore[name-defined,misc]
            text: Any
            tokens: Any
            total: Any

        self.cooked = Cooked
        self.encoded = Encoded
        self.only_text = OnlyText
        self.raw_batch = RawBatch
        for kind in (Cooked, Encoded, OnlyText, RawBatch):
            kind.__qualname__ = kind.__name__
            globals()[kind.__name__] = kind


@functools.cache
def types_over(energon: types.ModuleType) -> Types:
    return Types(energon)
