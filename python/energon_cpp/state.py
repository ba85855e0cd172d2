"""States of datasets in Energon's form. Loaders of this package save a LoaderState instead."""

from __future__ import annotations

from typing import Any

from ._sample import edataclass

__all__ = ["FlexState"]


class FlexState(dict[str, Any]):
    """The state of one dataset by the names of its fields, with those of inner datasets."""


@edataclass
class SliceState:
    """The position in one slice of a dataset."""

    index: int
    current: int
