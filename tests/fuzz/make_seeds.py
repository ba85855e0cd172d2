"""Writes seeds for the fuzz targets of decoders: python3 make_seeds.py FOLDER [SHARED_DATA]

FOLDER gets a folder of files for each target. They are the files of tests/media/*/data, the values of
tests/media/data/vectors.h and a few that are written here, with the bytes in front from which targets
draw options (tests/fuzz/media/choices.h). Files of SHARED_DATA that are small are taken too. The same
files each time.
"""

import base64
import gzip
import io
import pathlib
import random
import re
import sys
import zipfile

MEDIA = pathlib.Path(__file__).resolve().parent.parent / "media"
LARGEST = 16384  # of a file of shared data
CHOICES = 8
FORMATS = {
    "jpeg": (".jpg",),
    "png": (".png",),
    "webp": (".webp",),
    "gif": (".gif",),
    "tiff": (".tiff",),
    "av_mp4": (".mp4",),
    "av_matroska": (".mkv", ".webm"),
    "av_avi_flv": (".avi", ".flv"),
    "av_sound": (".wav", ".flac", ".mp3", ".ogg", ".aac"),
}
# In the order of fuzz_sample_decoder.cpp.
PART_NAMES = ("bin", "jpg", "txt", "cls", "json", "msgpack", "cbor", "npy", "npz", "safetensors",
              "ten", "pth", "mp4", "pyd", "x.JPEG", "x.index", "png", "gz", "wav", "pickle")
JSON = (b'{"a": [1, -2.5e3, "\\u00e9\\ud83d\\ude00", true, null], "b": {"c": {}}, "a": []}',
        b"\xef\xbb\xbf[9223372036854775807, -9223372036854775808, 1e308, 0.1]", b'"\xc3\xa9"', b"[" * 19)
TEXTS = (b"-9223372036854775808", b" +1_000\n", b"9223372036854775807", "é😀".encode(), b"0", b"\xed\xa0\x80")


def vectors():
    """The values of vectors.h by name."""
    text = (MEDIA / "data/vectors.h").read_text()
    found = re.findall(r'string_view k(\w+) =\s*((?:"[^"]*"\s*)+);', text)
    return {name: base64.b64decode("".join(re.findall(r'"([^"]*)"', value))) for name, value in found}


def files(shared):
    """Small files by name."""
    result = {}
    folders = [MEDIA / "image/data", MEDIA / "av/data", MEDIA / "data/data"]
    if shared is not None:
        folders += [shared / "images", shared / "av"]
    for folder in folders:
        for path in sorted(folder.glob("*")):
            if folder.parent.parent == MEDIA or path.stat().st_size <= LARGEST:
                result[path.name] = path.read_bytes()
    return result


class Corpus:
    def __init__(self, folder):
        self.folder = folder
        self.random = random.Random(1)

    def add(self, target, name, content):
        folder = self.folder / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    def add_with_choices(self, target, name, content, first=None, count=1):
        """Choices that begin with `first`; the rest are random."""
        for i in range(count):
            choices = bytes(first or ()) + self.random.randbytes(CHOICES - len(first or ()))
            self.add(target, f"{i}_{name}", choices + content)


def add_media(corpus, all_files):
    for name, content in all_files.items():
        for target, suffixes in FORMATS.items():
            if not name.endswith(suffixes):
                continue
            is_av = target.startswith("av_")
            for first in range(6 if is_av else 2):
                corpus.add_with_choices(target, f"{first}_{name}", content, [first])
            if not is_av:
                corpus.add_with_choices("transformed_image", name, content)


def add_values(corpus, values):
    for name, content in values.items():
        if name.endswith("Msgpack"):
            corpus.add("msgpack", name, content)
        elif name.endswith("Cbor"):
            corpus.add("cbor", name, content)
        elif name.endswith("Json"):
            corpus.add("json", name, content)
        elif name.startswith("Safetensors"):
            corpus.add_with_choices("safetensors", name, content, [0])
            end = 8 + int.from_bytes(content[:8], "little")
            corpus.add_with_choices("safetensors", name + "_header", content[8:end], [1, len(content) - end])
        elif name.startswith("Tenbin"):
            corpus.add("tenbin", name, content)
        elif name.startswith("Gzip"):
            corpus.add_with_choices("gzip", name, content, [0])
        else:
            corpus.add("npy", name, content)
            corpus.add_with_choices("npz", name, content, [1])
    for i, content in enumerate(JSON):
        corpus.add("json", str(i), content)
    for i, content in enumerate(TEXTS):
        corpus.add("text", str(i), content)
        corpus.add_with_choices("gzip", str(i), content, [1])


def add_archives(corpus, all_files):
    for name, content in all_files.items():
        if name.endswith(".npz"):
            corpus.add_with_choices("npz", name, content, [0])
        if name.endswith(".pt"):
            corpus.add_with_choices("torch_file", name, content, [0])
        if name.endswith(".pt") and zipfile.is_zipfile(io.BytesIO(content)):
            archive = zipfile.ZipFile(io.BytesIO(content))
            pickle = next(member for member in archive.namelist() if member.endswith("data.pkl"))
            corpus.add_with_choices("torch_file", name + "_pickle", archive.read(pickle), [1, 96, 96, 96])


def add_energon_states(corpus):
    stored = MEDIA.parents[1] / "python/tests/energon_states/stored"
    for path in sorted([*stored.glob("*.pt"), *stored.glob("*.pickle")]):
        corpus.add("energon_states", path.name, path.read_bytes())
        if path.name == "shuffled.pt":
            archive = zipfile.ZipFile(path)
            corpus.add("energon_states", path.name + "_pickle", archive.read("shuffled.pt.9/data.pkl"))


def add_parts(corpus, all_files, values):
    parts = {"txt": TEXTS[3], "cls": TEXTS[1], "json": JSON[0], "msgpack": values["TreeMsgpack"],
             "cbor": values["TreeCbor"], "npy": values["Float32"], "npz": all_files["deflated.npz"],
             "safetensors": values["Safetensors"], "ten": values["Tenbin"], "pth": all_files["uint16.pt"],
             "jpg": all_files["gray.jpg"], "png": all_files["gray8.png"], "mp4": all_files["h264_aac.mp4"],
             "wav": all_files["mono.wav"]}
    for name, content in parts.items():
        number = PART_NAMES.index(name)
        corpus.add_with_choices("sample_decoder", name, content, [number, 0, 0, 1])
        packed = gzip.compress(content, mtime=0)
        corpus.add_with_choices("sample_decoder", name + "_gz", packed, [number, 1, 0, 1])
        corpus.add_with_choices("sample_decoder", name + "_guess", content, [0, 0, 0, 1, 1])
        corpus.add("content_kind", name, bytes([len(name)]) + name.encode() + content[:64])


def main():
    shared = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    corpus = Corpus(pathlib.Path(sys.argv[1]))
    all_files = files(shared)
    values = vectors()
    add_media(corpus, all_files)
    add_values(corpus, values)
    add_archives(corpus, all_files)
    add_energon_states(corpus)
    add_parts(corpus, all_files, values)


if __name__ == "__main__":
    main()
