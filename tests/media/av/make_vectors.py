#!/usr/bin/env python3
"""Makes data/* and expected.h: tiny clips, and the results of the program ffmpeg for them.

Needs ffmpeg (5.1.9 of Debian 12 made the stored files: x264 core 164, x265, LAME 3.100, libopus,
libvorbis, libvpx, libaom) and the Python package xxhash. Encoders of other versions make other files,
but the expectations are made from the files, so they agree. With --keep, existing files are kept.
--shared FOLDER makes expected_shared.h from that folder instead. --delays makes only data/delay_*, which needs PyAV 18
(FFmpeg 8.1): older versions do not write the encoder's delay into Matroska.
"""
import pathlib
import subprocess
import sys

import xxhash

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "data"
# Every frame has another color, and moves.
VIDEO = ["-f", "lavfi", "-i",
         "nullsrc=size=32x24:rate=25:duration=0.8,geq=lum='40+mod(X*3+Y*2+N*23,160)':"
         "cb='80+N*5':cr='190-N*6'"]
STEREO = ["-f", "lavfi", "-i",
          "aevalsrc=0.4*sin(2*PI*440*t)+0.1*random(0)|0.4*sin(2*PI*990*t):s=44100:d=0.5"]
MONO = ["-f", "lavfi", "-i", "aevalsrc=0.5*sin(2*PI*(300+900*t)*t):s=44100:d=0.6"]
X264 = ["-c:v", "libx264", "-preset", "slow", "-crf", "34", "-bf", "3", "-g", "8", "-pix_fmt", "yuv420p"]
EXACT = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", "-threads", "1"]
FILES = {
    "h264_aac.mp4": VIDEO + STEREO + X264 + ["-c:a", "aac", "-b:a", "32k"],
    "h264_mp3.mkv": VIDEO + STEREO + X264 + ["-c:a", "libmp3lame", "-b:a", "32k"],
    "h264_open_gop.mkv": VIDEO + X264 + ["-x264-params", "open-gop=1:scenecut=0:keyint=8", "-colorspace",
                                            "bt709", "-color_range", "tv"],
    "h264_aac.flv": VIDEO + MONO + X264 + ["-c:a", "aac", "-b:a", "24k"],
    "mpeg4_b.avi": VIDEO + ["-c:v", "mpeg4", "-bf", "2", "-q:v", "24", "-g", "9"],
    "mpeg4.avi": VIDEO + ["-c:v", "mpeg4", "-q:v", "24", "-g", "6", "-t", "0.4"],
    "vp8.webm": VIDEO + ["-c:v", "libvpx", "-b:v", "40k", "-g", "8", "-auto-alt-ref", "1",
                         "-lag-in-frames", "10"],
    "vp9_opus.webm": VIDEO + STEREO + ["-c:v", "libvpx-vp9", "-b:v", "40k", "-g", "8", "-c:a",
                                       "libopus", "-b:a", "24k", "-ar", "48000"],
    "hevc.mp4": VIDEO + ["-c:v", "libx265", "-preset", "slow", "-crf", "36", "-pix_fmt", "yuv420p",
                         "-x265-params", "info=0:keyint=8:bframes=3:log-level=error"],
    "av1.webm": VIDEO + ["-c:v", "libaom-av1", "-b:v", "40k", "-g", "8", "-cpu-used", "4"],
    "mono.mp3": MONO + ["-c:a", "libmp3lame", "-b:a", "32k"],
    "mono.ogg": MONO + ["-c:a", "libvorbis", "-b:a", "32k"],
    "mono_opus.ogg": MONO + ["-c:a", "libopus", "-b:a", "24k", "-ar", "48000"],
    "mono.aac": MONO + ["-c:a", "aac", "-b:a", "24k"],
    "stereo24.flac": STEREO + ["-c:a", "flac", "-sample_fmt", "s32", "-ar", "8000",
                               "-frame_size", "192", "-t", "0.05", "-metadata_header_padding", "0"],
    "mono.wav": MONO + ["-c:a", "pcm_s16le", "-ar", "8000", "-t", "0.15"],
}
RAW = {"u8": "u8", "u8p": "u8", "s16": "s16le", "s16p": "s16le", "s32": "s32le", "s32p": "s32le",
       "flt": "f32le", "fltp": "f32le", "dbl": "f64le", "dblp": "f64le"}
BYTES = {"u8": 1, "s16le": 2, "s32le": 4, "f32le": 4, "f64le": 8}


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def probe(path, kind, fields):
    text = run("ffprobe", "-v", "error", "-select_streams", kind + ":0", "-show_entries",
               "stream=" + fields, "-of", "default=nk=0:nw=1", str(path)).decode()
    return dict(line.split("=", 1) for line in text.split())


def frames(path):
    """XXH3-64 of each frame as planes R, G, B."""
    stream = probe(path, "v", "width,height")
    if not stream:
        return []
    plane = int(stream["width"]) * int(stream["height"])
    raw = run("ffmpeg", "-v", "error", "-i", str(path), "-map", "0:v:0", "-vsync", "passthrough",
              "-vf", "scale=flags=bilinear+accurate_rnd+bitexact,format=gbrp", "-f", "rawvideo", "-")
    hashes = []
    for at in range(0, len(raw), 3 * plane):
        g, b, r = (raw[at + i * plane: at + (i + 1) * plane] for i in range(3))
        hashes.append(xxhash.xxh3_64_intdigest(r + g + b))
    return hashes


def sound(path):
    """(samples, channels, rate, XXH3-64 of channel after channel)."""
    stream = probe(path, "a", "channels,sample_rate,sample_fmt")
    if not stream:
        return (0, 0, 0, 0)
    layout = RAW[stream["sample_fmt"]]
    raw = run("ffmpeg", "-v", "error", "-i", str(path), "-map", "0:a:0", "-c:a", "pcm_" + layout,
              "-f", layout, "-")
    size, channels = BYTES[layout], int(stream["channels"])
    samples = [raw[i: i + size] for i in range(0, len(raw), size)]
    planar = b"".join(b"".join(samples[c::channels]) for c in range(channels))
    return (len(samples) // channels, channels, int(stream["sample_rate"]),
            xxhash.xxh3_64_intdigest(planar))


def resized(path, width, height):
    """XXH3-64 of each frame, resized."""
    raw = run("ffmpeg", "-v", "error", "-i", str(path), "-map", "0:v:0", "-vsync", "passthrough", "-vf",
              f"scale={width}:{height}:flags=bilinear+accurate_rnd+bitexact,format=gbrp", "-f",
              "rawvideo", "-")
    plane = width * height
    return [xxhash.xxh3_64_intdigest(raw[at + 2 * plane: at + 3 * plane] + raw[at: at + 2 * plane])
            for at in range(0, len(raw), 3 * plane)]


def text_of(paths, name, only=None):
    lines = []
    for path in paths:
        hashes = frames(path)
        chosen = range(len(hashes)) if only is None else [i for i in only if i < len(hashes)]
        shown = ", ".join(f"{{{i}, 0x{hashes[i]:016x}}}" for i in chosen)
        samples, channels, rate, digest = sound(path)
        lines.append(f'    {{"{path.name}", {len(hashes)}, {{{shown}}}, {samples}, {channels}, '
                     f'{rate}, 0x{digest:016x}}},\n')
    version = run("ffmpeg", "-version").decode().split()[2]
    return (f"// The results of ffmpeg {version} for the files. Written by make_vectors.py.\n\n"
            '#pragma once\n\n#include "tests/media/av/av_files.h"\n\n'
            "namespace energon::testing {\n\n"
            f"inline const std::vector<ExpectedFile> {name} = {{\n" + "".join(lines) +
            "};\n\n}  // namespace energon::testing\n")


def two_sizes():
    """JPEG frames of 32 x 24 and then of 24 x 16 pixels in one stream."""
    for name, size in (("a", "32x24"), ("b", "24x16")):
        run("ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i",
            f"testsrc2=size={size}:rate=25:duration=0.08", "-c:v", "mjpeg", "-q:v", "20", *EXACT,
            str(DATA / f"{name}.mkv"))
    listed = DATA / "list.txt"
    listed.write_text("file a.mkv\nfile b.mkv\n")
    run("ffmpeg", "-v", "error", "-y", "-f", "concat", "-i", str(listed), "-c", "copy", "-fflags",
        "+bitexact", str(DATA / "two_sizes.mkv"))
    for name in ("a.mkv", "b.mkv", "list.txt"):
        (DATA / name).unlink()


def delays():
    """The same packets in Matroska and in MP4, of encoders that add samples before the sound."""
    import av
    import numpy as np

    for codec, name, rate, form in (("aac", "aac", 44100, "fltp"), ("libmp3lame", "mp3", 44100, "fltp"),
                                    ("ac3", "ac3", 48000, "fltp"), ("libopus", "opus", 48000, "s16")):
        time = np.arange(13000) / rate
        wave = (0.5 * np.sin(2 * np.pi * (300 + 900 * time) * time))[None].astype(np.float32)
        for suffix in ("mkv", "mp4"):
            with av.open(str(DATA / f"delay_{name}.{suffix}"), "w") as file:
                file.flags |= 0x400  # bitexact
                stream = file.add_stream(codec, rate=rate, layout="mono")
                stream.bit_rate = 64000 if codec == "ac3" else 24000
                stream.codec_context.flags |= 1 << 23  # bitexact
                frame = av.AudioFrame.from_ndarray((wave * 32767).astype(np.int16) if form == "s16" else wave,
                                                   format=form, layout="mono")
                frame.sample_rate, frame.pts = rate, 0
                for packet in [*stream.encode(frame), *stream.encode(None)]:
                    file.mux(packet)


def write(path, text):
    path.write_text(text)
    subprocess.run(["clang-format-14", "-i", str(path)], check=True)


def main():
    if "--delays" in sys.argv:
        return delays()
    if "--shared" in sys.argv:
        folder = pathlib.Path(sys.argv[sys.argv.index("--shared") + 1])
        only = [0, 1, 2, 17, 249, 250, 251, 500, 777, 1000, 1249, 1250, 1500, 1888, 1889, 1890]
        write(HERE / "expected_shared.h", text_of(sorted(folder.iterdir()), "kSharedFiles", only))
        return
    DATA.mkdir(exist_ok=True)
    if "--keep" not in sys.argv:
        for name, options in FILES.items():
            run("ffmpeg", "-v", "error", "-y", *options, *EXACT, str(DATA / name))
        # Trimmed without encoding: decoding begins before the first frame of the edit list.
        run("ffmpeg", "-v", "error", "-y", "-ss", "0.44", "-i", str(DATA / "h264_aac.mp4"), "-c",
            "copy", "-fflags", "+bitexact", str(DATA / "edit_list.mp4"))
        # Begins with frames that refer to removed frames.
        run("ffmpeg", "-v", "error", "-y", "-ss", "0.5", "-i", str(DATA / "h264_open_gop.mkv"), "-c",
            "copy", "-fflags", "+bitexact", str(DATA / "cut_open_gop.mkv"))
        two_sizes()
    paths = sorted(path for path in DATA.iterdir() if path.name != "two_sizes.mkv" and not path.name.startswith("delay_"))
    print(sum(path.stat().st_size for path in paths), "bytes")
    small = ", ".join(f"0x{value:016x}" for value in resized(DATA / "h264_aac.mp4", 20, 14))
    text = text_of(paths, "kTinyFiles").replace("}  // namespace", "// h264_aac.mp4, 20 x 14 pixels.\n"
        f"inline const std::vector<std::uint64_t> kResizedFrames = {{{small}}};\n\n}}  // namespace")
    # Four frames of 20 x 14 pixels, of which the last two had another size.
    two = ", ".join(f"0x{value:016x}" for value in resized(DATA / "two_sizes.mkv", 20, 14))
    text = text.replace("}  // namespace", "// two_sizes.mkv, 20 x 14 pixels.\n"
        f"inline const std::vector<std::uint64_t> kTwoSizesFrames = {{{two}}};\n\n}}  // namespace")
    write(HERE / "expected.h", text)


main()
