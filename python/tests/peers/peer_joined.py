"""The class of joined samples that the metadatasets name. Only Energon imports it: energon_cpp
merges the fields, as Sample.from_joined does."""

from __future__ import annotations

from typing import Any

from megatron.energon import Sample, edataclass


@edataclass
class Joined(Sample):  # type: ignore[misc]
    text: Any
    image: Any
    caption: Any
