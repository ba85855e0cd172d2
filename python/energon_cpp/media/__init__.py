"""Metadata of images, sound and video, as stored by energon prepare-media, and the filters that
select media. Names and fields match Energon's."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any, ClassVar, Mapping

__all__ = [
    "AVMetadata",
    "ImageMetadata",
    "MediaFilterConfig",
    "MediaFilterStrategy",
    "MediaMetadataBase",
    "MediaMetadataType",
    "deserialize_media_metadata",
    "serialize_media_metadata",
]


class MediaMetadataType(str, enum.Enum):
    AV = "av"
    IMAGE = "image"

    @classmethod
    def from_string(cls, value: str) -> "MediaMetadataType":
        """Raises ValueError unless `value` is "av" or "image"."""
        return cls(value)


@dataclasses.dataclass(kw_only=True, slots=True)
class MediaMetadataBase:
    metadata_type: ClassVar[MediaMetadataType]

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields that are not None."""
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "MediaMetadataBase":
        return cls(**payload)


@dataclasses.dataclass(kw_only=True, slots=True)
class AVMetadata(MediaMetadataBase):
    """Durations are in seconds, numbers of samples are per channel. A field is None if it is
    unknown or the file does not have the stream."""

    metadata_type: ClassVar[MediaMetadataType] = MediaMetadataType.AV

    video_duration: float | None = None
    video_num_frames: int | None = None
    video_fps: float | None = None
    video_width: int | None = None
    video_height: int | None = None
    audio_duration: float | None = None
    audio_channels: int | None = None
    audio_sample_rate: int | None = None
    audio_num_samples: int | None = None


@dataclasses.dataclass(kw_only=True, slots=True)
class ImageMetadata(MediaMetadataBase):
    """Width and height in pixels, format and mode with the names of Pillow."""

    metadata_type: ClassVar[MediaMetadataType] = MediaMetadataType.IMAGE

    width: int
    height: int
    format: str
    mode: str


def serialize_media_metadata(metadata: MediaMetadataBase) -> tuple[MediaMetadataType, str]:
    """Returns (type, JSON), as stored in the table media_metadata."""
    return metadata.metadata_type, json.dumps(metadata.to_dict(), separators=(",", ":"))


def deserialize_media_metadata(
    metadata_type: str | MediaMetadataType, metadata_json: str
) -> MediaMetadataBase:
    """The inverse of serialize_media_metadata(). Ignores unknown fields."""
    is_av = MediaMetadataType(metadata_type) is MediaMetadataType.AV
    kind: type[MediaMetadataBase] = AVMetadata if is_av else ImageMetadata
    names = {field.name for field in dataclasses.fields(kind)}
    values = json.loads(metadata_json) if metadata_json else {}
    return kind(**{name: value for name, value in values.items() if name in names})


class MediaFilterStrategy(str, enum.Enum):
    """What makes a file an image, sound or video: its extension, its first bytes, or that its name
    matches a pattern."""

    EXTENSION = "EXTENSION"
    HEADER = "HEADER"
    GLOB = "GLOB"


@dataclasses.dataclass(frozen=True)
class MediaFilterConfig:
    """Selects the parts or files whose metadata is stored. Patterns are for GLOB only."""

    strategy: MediaFilterStrategy
    patterns: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def parse(cls, glob: str | None, header: bool, extension: bool) -> "MediaFilterConfig":
        """Makes a filter of one strategy. `glob` is a list of patterns, separated by commas."""
        if sum(map(bool, (glob, header, extension))) != 1:
            raise ValueError("set exactly one of glob, header and extension")
        if glob:
            return cls(MediaFilterStrategy.GLOB, glob.split(","))
        return cls(MediaFilterStrategy.HEADER if header else MediaFilterStrategy.EXTENSION)

    def should_consider_all(self) -> bool:
        """Whether files with any name may be media."""
        return self.strategy is MediaFilterStrategy.HEADER
