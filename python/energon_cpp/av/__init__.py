"""Decoding of sound and video on demand: AVDecoder. Names match Energon's.

Frames and samples are exact: frame 0 is the first frame shown, sample 0 the first sample played.
Ranges include both ends. An end may be infinite.
"""

from __future__ import annotations

import bisect
import dataclasses
import pickle
from typing import Any, Sequence, overload

from .. import _core
from .._explained_options import checks_options
from .._tensors import tensor_library
from ..decoder import check_sample_rate
from ..media import AVMetadata

__all__ = [
    "AVData",
    "AVDecoder",
    "AVProbeIndex",
    "AVProbeIndexEntry",
    "get_clips_uniform",
    "get_single_frames_uniform",
]

Ranges = Sequence[tuple[float, float]]
_ALL = ((0.0, float("inf")),)


@dataclasses.dataclass(kw_only=True, slots=True)
class AVData:
    """Clips and their times.

    Attributes:
        video_clips: uint8 RGB frames of shape (frames, 3, height, width).
        video_timestamps: (begin, end) of each video clip in seconds.
        audio_clips: Samples of shape (channels, samples), with the file's sample rate and type
            unless the decoder resamples.
        audio_timestamps: (begin, end) of each audio clip in seconds.
    """

    video_clips: list[Any] | None
    video_timestamps: list[tuple[float, float]] | None
    audio_clips: list[Any] | None
    audio_timestamps: list[tuple[float, float]] | None


class AVDecoder:
    """Decodes a sound or video file on demand.

    Clips are torch tensors if torch is installed, else NumPy arrays if NumPy is installed, else
    objects of the class Tensor. Threads may share a decoder, but their calls run one at a time. A
    decoder can be pickled, together with the bytes of its file.

    Args:
        stream: bytes, or a file opened in binary mode, which the first call reads whole.
        suppress_warnings: Accepted without effect.
        audio_sample_rate: Resample clips to this many samples per second, as float32 with 1 for
            full scale. A clip is cut first: numbers of samples are those of the file. None leaves
            the rate and the format of the file.
    """

    @checks_options
    def __init__(
        self, stream: Any, suppress_warnings: bool = False, audio_sample_rate: int | None = None
    ) -> None:
        check_sample_rate("audio_sample_rate", audio_sample_rate)
        self.stream = stream
        self.suppress_warnings = suppress_warnings
        self.audio_sample_rate = audio_sample_rate
        self._native: _core.AvFile | None = None

    def _data(self) -> Any:
        if not hasattr(self.stream, "read"):
            return self.stream
        self.stream.seek(0)
        data = self.stream.read()
        if isinstance(data, str):
            raise TypeError("the stream of an AVDecoder must be opened in binary mode, not as text")
        return data

    def _file(self) -> _core.AvFile:
        if self._native is None:
            self._native = _core.AvFile(self._data(), self.audio_sample_rate)
        return self._native

    def get_video_clips(
        self,
        video_clip_ranges: Ranges,
        video_unit: str = "seconds",
        video_out_frame_size: tuple[int, int] | None = None,
    ) -> tuple[list[Any], list[tuple[float, float]]]:
        """Decodes video clips.

        Args:
            video_clip_ranges: (begin, end) of each clip.
            video_unit: Unit of the ranges: "seconds" or "frames".
            video_out_frame_size: (width, height) to which frames are resized; None keeps their
                size.

        Returns:
            The clips, uint8 of shape (frames, 3, height, width), and their (begin, end) in seconds.
            Ranges that begin after the end of the video are left out.
        """
        ranges = [(float(begin), float(end)) for begin, end in video_clip_ranges]
        clips = self._file().video_clips(ranges, video_unit, video_out_frame_size, tensor_library())
        return _split(clips)

    def get_audio_clips(
        self, audio_clip_ranges: Ranges, audio_unit: str = "seconds"
    ) -> tuple[list[Any], list[tuple[float, float]]]:
        """Decodes audio clips.

        Args:
            audio_clip_ranges: (begin, end) of each clip.
            audio_unit: Unit of the ranges: "seconds" or "samples".

        Returns:
            The clips, of shape (channels, samples), and their (begin, end) in seconds. Ranges that
            begin after the end of the sound are left out.
        """
        ranges = [(float(begin), float(end)) for begin, end in audio_clip_ranges]
        return _split(self._file().audio_clips(ranges, audio_unit, tensor_library()))

    def get_clips(
        self,
        video_clip_ranges: Ranges | None = None,
        audio_clip_ranges: Ranges | None = None,
        video_unit: str = "seconds",
        audio_unit: str = "seconds",
        video_out_frame_size: tuple[int, int] | None = None,
    ) -> AVData:
        """Decodes video and audio clips. Ranges of None mean no clips."""
        video: tuple[list[Any], list[tuple[float, float]]] = ([], [])
        audio: tuple[list[Any], list[tuple[float, float]]] = ([], [])
        if video_clip_ranges is not None:
            video = self.get_video_clips(video_clip_ranges, video_unit, video_out_frame_size)
        if audio_clip_ranges is not None:
            audio = self.get_audio_clips(audio_clip_ranges, audio_unit)
        return AVData(
            video_clips=video[0],
            video_timestamps=video[1],
            audio_clips=audio[0],
            audio_timestamps=audio[1],
        )

    def get_video(self) -> AVData:
        """Decodes all frames, without sound."""
        return self.get_clips(video_clip_ranges=_ALL)

    def get_audio(self) -> AVData:
        """Decodes all samples of the sound, without video."""
        return self.get_clips(audio_clip_ranges=_ALL)

    def get_video_with_audio(self) -> AVData:
        """Decodes all frames and all samples of the sound."""
        return self.get_clips(video_clip_ranges=_ALL, audio_clip_ranges=_ALL)

    def get_frames(self, video_decode_audio: bool = False) -> AVData | None:
        """Decodes all frames, with the sound if `video_decode_audio`. Decodes all samples of a file
        without video. Returns None if the file has neither."""
        if self.has_video_stream():
            with_audio = video_decode_audio and self.has_audio_stream()
            return self.get_video_with_audio() if with_audio else self.get_video()
        return self.get_audio() if self.has_audio_stream() else None

    def has_video_stream(self) -> bool:
        return self._file().has_video()

    def has_audio_stream(self) -> bool:
        return self._file().has_audio()

    def get_video_fps(self) -> float:
        """Returns the average number of frames per second."""
        return self._file().video_fps()

    def get_video_duration(self, get_frame_count: bool = False) -> tuple[float | None, int | None]:
        """Returns the end of the last frame in seconds, and the number of frames if requested."""
        file = self._file()
        return file.video_duration(), file.video_frame_count() if get_frame_count else None

    def get_audio_duration(self) -> float | None:
        """Returns the duration of the sound in seconds, as stored in the header. If the header has
        none, decodes the sound, which gives the exact duration."""
        duration: float | None = self._file().metadata()["audio_duration"]
        return self._file().audio_duration() if duration is None else duration

    def get_audio_samples_per_second(self) -> int:
        """Returns the sample rate of clips."""
        rate = self.audio_sample_rate
        return self._file().audio_sample_rate() if rate is None else rate

    def get_metadata(
        self,
        get_video: bool = True,
        get_video_duration: bool = True,
        get_video_frame_count: bool = True,
        get_video_frame_size: bool = True,
        get_audio: bool = True,
        get_audio_duration: bool = True,
        get_audio_num_samples: bool = False,
    ) -> AVMetadata:
        """Returns the requested metadata, and other fields of these streams that the header
        contains. get_video_frame_count reads all packets, get_audio_num_samples decodes the
        sound."""
        file = self._file()
        known = file.metadata()
        get_video = get_video and file.has_video()
        get_audio = get_audio and file.has_audio()
        prefixes = [name for name, wanted in [("video", get_video), ("audio", get_audio)] if wanted]
        found = {name: value for name, value in known.items() if name[:5] in prefixes}
        if get_video and get_video_frame_count:
            found["video_num_frames"] = file.video_frame_count()
        if get_video and get_video_duration and found["video_duration"] is None:
            found["video_duration"] = file.video_duration()
        if not get_video_frame_size:
            found |= {"video_width": None, "video_height": None}
        if get_audio and get_audio_num_samples:
            found["audio_num_samples"] = file.audio_sample_count()
        if get_audio and get_audio_duration and found["audio_duration"] is None:
            found["audio_duration"] = file.audio_duration()
        return AVMetadata(**found)

    def __repr__(self) -> str:
        return f"AVDecoder(stream={self.stream!r})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        data = self._data()
        packed = pickle.PickleBuffer(data) if protocol >= 5 else bytes(data)
        return AVDecoder, (packed, self.suppress_warnings, self.audio_sample_rate)


@checks_options
def get_clips_uniform(
    av_decoder: AVDecoder,
    clip_duration_seconds: float,
    num_clips: int,
    request_video: bool = False,
    request_audio: bool = False,
    video_out_frame_size: tuple[int, int] | None = None,
) -> AVData:
    """Decodes clips of equal duration at equal intervals: the first at the start, the last at the
    end. A duration of 0 means single frames, which keep half a frame away from both ends.

    Raises:
        ValueError: Neither video nor audio is requested.
    """
    if not request_video and not request_audio:
        raise ValueError("request_video, request_audio or both must be True")
    durations = []
    if request_video:
        durations.append(av_decoder.get_video_duration()[0])
    if request_audio:
        durations.append(av_decoder.get_audio_duration())
    end = min(duration for duration in durations if duration is not None)
    margin = 0.5 / av_decoder.get_video_fps() if clip_duration_seconds == 0 else 0.0
    last = end - clip_duration_seconds - margin
    step = (last - margin) / (num_clips - 1) if num_clips > 1 else 0.0
    starts = [margin + i * step for i in range(num_clips)]
    ranges = [(start, start + clip_duration_seconds) for start in starts]
    data = av_decoder.get_clips(
        video_clip_ranges=ranges if request_video else None,
        video_out_frame_size=video_out_frame_size,
    )
    if request_audio:  # clips of as many samples each
        rate = av_decoder.get_audio_samples_per_second()
        length = round(clip_duration_seconds * rate)
        firsts = [max(0, round(start * rate)) for start in starts]
        samples: Ranges = [(first, first + length - 1) for first in firsts]
        in_samples = length > 0
        data.audio_clips, data.audio_timestamps = av_decoder.get_audio_clips(
            samples if in_samples else ranges, "samples" if in_samples else "seconds"
        )
    return data


@checks_options
def get_single_frames_uniform(
    av_decoder: AVDecoder,
    num_frames: int,
    *,
    video_out_frame_size: tuple[int, int] | None = None,
    return_timestamps: bool = False,
) -> Any:
    """Decodes frames at equal intervals.

    Returns:
        uint8 RGB frames of shape (num_frames, 3, height, width): a torch tensor if torch is
        installed, else a NumPy array. With return_timestamps, a tuple of the frames and their times
        in seconds.

    Raises:
        ValueError: The video has no frames.
    """
    data = get_clips_uniform(
        av_decoder, 0, num_frames, request_video=True, video_out_frame_size=video_out_frame_size
    )
    clips = data.video_clips or []
    if not clips:
        raise ValueError("the video has no frames")
    if tensor_library() == "torch":
        import torch  # type: ignore[import-not-found,unused-ignore]

        frames: Any = torch.cat(clips)
    else:
        import numpy

        frames = numpy.concatenate([numpy.asarray(clip) for clip in clips])
    begins = [begin for begin, _ in data.video_timestamps or []]
    return (frames, begins) if return_timestamps else frames


@dataclasses.dataclass(frozen=True)
class AVProbeIndexEntry:
    """A frame of a video.

    Attributes:
        timestamp: When it is shown, in units of the stream's time base.
        is_keyframe: Whether it can be decoded without other frames.
    """

    timestamp: int
    is_keyframe: bool


class AVProbeIndex(Sequence[AVProbeIndexEntry]):
    """The frames of a video in the order in which they are shown, without decoding them.

    Args:
        container: An open container of the package av, which is read to its end.
        stream_idx: The number of the video stream among those of video.
    """

    def __init__(self, container: Any, stream_idx: int = 0) -> None:
        packets = container.demux(video=stream_idx)
        entries = (
            AVProbeIndexEntry(packet.pts, bool(packet.is_keyframe))
            for packet in packets
            if packet.pts is not None
        )
        self._entries = sorted(entries, key=lambda entry: entry.timestamp)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> AVProbeIndexEntry: ...

    @overload
    def __getitem__(self, index: slice) -> list[AVProbeIndexEntry]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self._entries[index]

    def search_timestamp(
        self, timestamp: int, *, backward: bool = True, any_frame: bool = False
    ) -> int:
        """Returns the index of the last keyframe at `timestamp` or before it, or -1.

        Args:
            timestamp: A time in units of the stream's time base.
            backward: False finds the first keyframe at `timestamp` or after it.
            any_frame: Whether other frames than keyframes are found.
        """
        find = bisect.bisect_right if backward else bisect.bisect_left
        place = find(self._entries, timestamp, key=lambda entry: entry.timestamp)
        places = range(place - 1, -1, -1) if backward else range(place, len(self))
        fits = (i for i in places if any_frame or self._entries[i].is_keyframe)
        return next(fits, -1)


def _split(clips: list[Any]) -> tuple[list[Any], list[tuple[float, float]]]:
    found = [clip for clip in clips if clip is not None]
    return [clip[0] for clip in found], [(clip[1], clip[2]) for clip in found]
