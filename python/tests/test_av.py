"""AVDecoder, alone and in pipelines."""

from __future__ import annotations

import io
import os
import pathlib
import pickle
import subprocess
import wave
from typing import Any

import numpy
import pytest
from conftest import loader_of, take, write_tar

import energon_cpp as energon
from energon_cpp.av import get_clips_uniform, get_single_frames_uniform

PROGRAM = os.environ.get("ENERGON_PROGRAM", "")
DATA = pathlib.Path(__file__).parents[2] / "tests" / "media" / "av" / "data"
RATE = 8000


def sound() -> numpy.ndarray:
    return (numpy.arange(RATE) % 100 * 200 - 10000).astype(numpy.int16)


def wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(sound().tobytes())
    return file.getvalue()


@pytest.fixture(scope="module")
def video() -> bytes:
    path = DATA / "h264_aac.mp4"
    if not path.exists():
        pytest.skip("the small videos of tests/media are missing")
    return path.read_bytes()


def arrays(clips: list[Any]) -> list[numpy.ndarray]:
    return [numpy.asarray(clip) for clip in clips]


def test_sound_is_exact() -> None:
    decoder = energon.AVDecoder(io.BytesIO(wav()))
    assert decoder.has_audio_stream() and not decoder.has_video_stream()
    assert decoder.get_audio_samples_per_second() == RATE and decoder.get_audio_duration() == 1.0
    clips, times = decoder.get_audio_clips([(0.25, 0.5), (5, 6), (0, float("inf"))])
    assert len(clips) == len(times) == 2 and times[0][0] == pytest.approx(0.25)
    first, whole = arrays(clips)
    assert numpy.array_equal(whole[0], sound())
    assert numpy.array_equal(first[0], sound()[2000 : 2000 + first.shape[1]])
    by_samples, _ = decoder.get_audio_clips([(10, 19)], audio_unit="samples")
    assert numpy.array_equal(arrays(by_samples)[0][0], sound()[10:20])
    data = decoder.get_frames()
    assert data is not None and data.video_clips == []
    assert numpy.array_equal(arrays(data.audio_clips)[0], whole)
    metadata = decoder.get_metadata(get_audio_num_samples=True)
    assert (metadata.audio_num_samples, metadata.audio_channels) == (RATE, 1)
    assert metadata.video_fps is None
    with pytest.raises(ValueError, match="'frames'"):
        decoder.get_video_clips([(0, 1)], video_unit="samples")


def test_video(video: bytes) -> None:
    decoder = energon.AVDecoder(video)
    seconds, count = decoder.get_video_duration(get_frame_count=True)
    assert count is not None and seconds is not None and count > 1
    data = decoder.get_video()
    (frames,) = arrays(data.video_clips)
    assert frames.shape[0] == count and frames.shape[1] == 3 and frames.dtype == numpy.uint8
    assert data.audio_clips == []
    clips, _ = decoder.get_video_clips([(1, 3), (0, 0)], video_unit="frames")
    assert numpy.array_equal(arrays(clips)[0], frames[1:4])
    assert numpy.array_equal(arrays(clips)[1], frames[:1])
    small, _ = decoder.get_video_clips([(0, 0)], "frames", (16, 8))
    assert arrays(small)[0].shape == (1, 3, 8, 16)
    metadata = decoder.get_metadata()
    assert metadata.video_num_frames == count and metadata.video_height == frames.shape[2]
    assert metadata.video_fps == pytest.approx(decoder.get_video_fps())
    both = decoder.get_video_with_audio()
    assert len(both.video_clips or []) == len(both.audio_clips or []) == 1
    hidden = decoder.get_metadata(get_video_frame_size=False, get_audio=False)
    assert hidden.video_width is None and hidden.audio_channels is None


def test_uniform_frames_and_clips(video: bytes) -> None:
    decoder = energon.AVDecoder(video)
    (frames,) = arrays(decoder.get_video().video_clips)
    picked, seconds = get_single_frames_uniform(decoder, 3, return_timestamps=True)
    assert picked.shape == (3, *frames.shape[1:]) and seconds == sorted(seconds)
    assert numpy.array_equal(numpy.asarray(picked)[0], frames[0])
    assert numpy.array_equal(numpy.asarray(picked)[-1], frames[-1])
    data = get_clips_uniform(decoder, 0.1, 2, request_video=True, request_audio=True)
    assert len(data.video_clips or []) == len(data.audio_clips or []) == 2
    with pytest.raises(ValueError, match="request_video"):
        get_clips_uniform(decoder, 1, 1)


def test_decoders_can_be_pickled() -> None:
    for stream in (wav(), io.BytesIO(wav())):
        for protocol in (2, 5):
            again = pickle.loads(pickle.dumps(energon.AVDecoder(stream), protocol))
            assert again.get_audio_duration() == 1.0
    with pytest.raises(TypeError, match="binary mode"):
        energon.AVDecoder(io.StringIO("text")).get_audio()
    with pytest.raises(energon.EnergonError):
        energon.AVDecoder(b"no video at all").get_video()


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("sounds")
    write_tar(folder / "a.tar", [(f"{i}", {"wav": wav(), "bin": b"x"}) for i in range(4)])
    return str(folder)


def test_parts_are_decoders(sounds: str, num_workers: int) -> None:
    class Hears(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            assert type(sample["wav"]) is energon.AVDecoder and sample["bin"] == b"x"
            clips, _ = sample["wav"].get_audio_clips([(0, 9)], audio_unit="samples")
            return {"clip": numpy.asarray(clips[0]), "decoder": sample["wav"]}

    with loader_of(sounds, Hears(), num_workers=num_workers, batch_size=2) as loader:
        batch = take(loader, 1)[0]
    assert numpy.array_equal(batch["clip"][1][0], sound()[:10])
    assert [decoder.get_audio_duration() for decoder in batch["decoder"]] == [1.0, 1.0]


def test_batches_hold_decoders(sounds: str, num_workers: int) -> None:
    with loader_of(sounds, num_workers=num_workers, batch_size=2) as loader:
        batch = take(loader, 1)[0]
    assert [type(decoder) for decoder in batch.wav] == [energon.AVDecoder] * 2
    assert batch.wav[1].get_audio_duration() == 1.0 and batch.bin == [b"x", b"x"]

    class Bytes(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = energon.SampleDecoder(av_decode="bytes")

    with loader_of(sounds, Bytes(), num_workers=num_workers, batch_size=2) as loader:
        assert bytes(take(loader, 1)[0].wav[0]) == wav()


@pytest.mark.skipif(not os.path.exists(PROGRAM), reason="no program energon")
def test_typed_samples_hold_decoders(num_workers: int, tmp_path: pathlib.Path) -> None:
    write_tar(tmp_path / "a.tar", [(f"{i}", {"wav": wav(), "txt": b"why?"}) for i in range(4)])
    command = [PROGRAM, "prepare", str(tmp_path), "--split-parts", "train:.*", "--no-progress"]
    command += ["--sample-type", "VidQASample", "--field-map", "video=wav"]
    command += ["--field-map", "context=txt"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)

    class Hears(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            assert type(sample) is energon.VidQASample and sample.context == "why?"
            assert sample.video.get_audio_duration() == 1.0
            return sample

    options: dict[str, Any] = {"num_workers": num_workers, "batch_size": 2, "split_part": "train"}
    for encoder in (None, Hears()):
        with loader_of(str(tmp_path), encoder, **options) as loader:
            batch = take(loader, 1)[0]
        assert [one.get_audio_duration() for one in batch.video] == [1.0, 1.0]
        assert batch.context == ["why?", "why?"]


def test_sample_decoder_by_itself() -> None:
    decoder = energon.SampleDecoder(video_decode_audio=True)
    assert decoder.decode("a.b.json", b'{"x": [1, null]}') == {"x": [1, None]}
    assert decoder.decode("txt", b"text") == "text" and decoder.decode("odd", b"raw") == b"raw"
    assert type(decoder.decode("s.wav", wav())) is energon.AVDecoder
    assert decoder({"__key__": "k", "cls": b"7"}) == {"__key__": "k", "cls": 7}
    assert decoder.config()["video_decode_audio"] is True
    with pytest.raises(ValueError, match="av.open"):
        energon.SampleDecoder(av_decode="pyav").decode("a.mp4", b"")


def resampled(sound: Any, before: int, after: int, places: Any) -> Any:
    """Samples by the filter of torchaudio.functional.resample() with its defaults, in doubles."""
    if before == after:
        return sound[places]
    divisor = numpy.gcd(before, after)
    before, after = before // divisor, after // divisor
    cutoff = min(before, after) * 0.99
    times = places[:, None] * before / after - numpy.arange(len(sound))[None, :]
    t = numpy.clip(times * cutoff / before, -6, 6)
    return (numpy.sinc(t) * numpy.cos(t * numpy.pi / 12) ** 2 * cutoff / before) @ sound


@pytest.mark.parametrize("rate", [5000, 11025, RATE])
def test_sound_at_another_rate(rate: int, tmp_path: pathlib.Path) -> None:
    places = numpy.r_[0:200, rate - 200 : rate]
    expected = resampled(sound() / 32768, RATE, rate, places)
    decoder = energon.AVDecoder(wav(), audio_sample_rate=rate)
    whole = numpy.asarray(decoder.get_audio().audio_clips[0])  # type: ignore[index]
    assert whole.shape == (1, rate) and whole.dtype == numpy.float32
    assert numpy.abs(whole[0, places] - expected).max() < 1e-6
    assert decoder.get_audio_samples_per_second() == rate and decoder.get_audio_duration() == 1.0
    assert pickle.loads(pickle.dumps(decoder, 5)).audio_sample_rate == rate

    write_tar(tmp_path / "a.tar", [("0", {"wav": wav()})])
    for mode in ("torch", "AVDecoder"):

        class Encoder(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
            decoder = energon.SampleDecoder(av_decode=mode, audio_sample_rate=rate)

        by_hand = Encoder.decoder.decode("wav", wav())  # type: ignore[union-attr]
        with loader_of(str(tmp_path), Encoder(), batch_size=None) as loader:
            for part in (by_hand, take(loader, 1)[0]["wav"]):
                if mode == "torch":
                    assert part["audio_sample_rate"] == rate
                    samples = part["audio"]
                else:
                    samples = part.get_audio().audio_clips[0]
                assert numpy.array_equal(numpy.asarray(samples), whole)


def test_wrong_sample_rates() -> None:
    for rate in (0, 768001):
        for made in (lambda: energon.AVDecoder(wav(), audio_sample_rate=rate),
                     lambda: energon.SampleDecoder(audio_sample_rate=rate)):  # fmt: skip
            with pytest.raises(ValueError, match=f"from 100 to 768000 samples .*, not {rate}"):
                made()
    with pytest.raises(TypeError, match="audio_sample_rate must be a whole number"):
        energon.SampleDecoder(audio_sample_rate="16000")  # type: ignore[arg-type]
def test_clips_of_sound_have_one_length() -> None:
    decoder = energon.AVDecoder(io.BytesIO(wav()))
    data = get_clips_uniform(decoder, 0.33337, 7, request_audio=True)
    assert {clip.shape for clip in arrays(data.audio_clips)} == {(1, round(0.33337 * RATE))}


def test_an_index_of_frames() -> None:
    from energon_cpp.av.av_reader import AVProbeIndex

    class Packet:
        def __init__(self, pts: int | None, is_keyframe: bool = False) -> None:
            self.pts = pts
            self.is_keyframe = is_keyframe

    class Container:
        """Packets in the order of decoding, as av.open() gives them."""

        def demux(self, video: int) -> Any:
            assert video == 0
            yield from [Packet(0, True), Packet(30), Packet(10), Packet(20), Packet(40, True)]
            yield Packet(None)

    index = AVProbeIndex(Container(), 0)
    assert [entry.timestamp for entry in index] == [0, 10, 20, 30, 40]
    assert [i for i, entry in enumerate(index) if entry.is_keyframe] == [0, 4]
    assert [index.search_timestamp(time) for time in (-1, 0, 39, 40, 99)] == [-1, 0, 0, 4, 4]
    later = [index.search_timestamp(time, backward=False) for time in (0, 1, 40, 41)]
    assert later == [0, 4, 4, -1]
    assert index.search_timestamp(25, any_frame=True) == 2
