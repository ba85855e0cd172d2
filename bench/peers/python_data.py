"""The datasets of compare_python.py: made on first use, with the same bytes on every machine.

Text and blobs are those of the C++ benchmarks, in the same folders. `index_of()` reads the tars with
Python's tarfile, so the output of loaders is compared with an independent reader.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zlib
from typing import Any, Callable, Iterator

import numpy as np

WIDTH, HEIGHT = 512, 384
GRID = 8  # a picture is identified by the means of GRID x GRID blocks
MASK = (1 << 64) - 1
VOCABULARY = 30_000


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A folder of tars whose samples have `parts`, of `size_bytes` each (0 means any size)."""

    name: str
    samples: int
    shards: int
    parts: tuple[str, ...]
    size_bytes: tuple[int, ...]

    def folder(self, data: pathlib.Path) -> pathlib.Path:
        return data / f"{self.name}-{self.samples}"


def data_set_of(kind: str, samples: int) -> DataSet:
    if kind == "text":
        return DataSet("text", samples, min(20, samples), ("txt", "json"), (600, 200))
    if kind == "blob":
        return DataSet("blob", samples, min(8, samples), ("bin",), (1 << 20,))
    if kind == "image":
        return DataSet("peers-image", samples, min(10, samples), ("jpg", "json"), (0, 200))
    if kind == "words":
        return DataSet("peers-words", samples, min(10, samples), ("txt",), (800,))
    if kind == "tensors":
        return DataSet("peers-tensors", samples, 4, ("x.npy", "y.npy"), (0, 0))
    raise ValueError(f"datasets are text, words, image, blob and tensors, not '{kind}'")


def make(data: pathlib.Path, spec: DataSet, energon: str) -> pathlib.Path:
    """The folder of the dataset, written and prepared with `energon`, the program, if missing."""
    folder = spec.folder(data)
    if not (folder / ".nv-meta" / ".info.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for shard in range(spec.shards):
            write_shard(folder, spec, shard)
        command = [energon, "prepare", str(folder), "--non-interactive", "--no-progress"]
        command += ["--split-ratio", "1,0,0"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    yaml = folder / ".nv-meta" / "dataset.yaml"
    if not yaml.exists():  # missing in folders of the C++ benchmarks, but megatron-energon needs it
        yaml.write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")
    return folder


def write_shard(folder: pathlib.Path, spec: DataSet, shard: int) -> None:
    with open(folder / f"{shard:06}.tar", "wb") as file:
        first = spec.samples * shard // spec.shards
        for number in range(first, spec.samples * (shard + 1) // spec.shards):
            for part, name in enumerate(spec.parts):
                content = _content(spec, number, part)
                file.write(_header(f"{number:08}.{name}", len(content)))
                file.write(content)
                file.write(bytes(-len(content) % 512))
        file.write(bytes(1024))


def _header(name: str, size: int) -> bytes:
    """A header of ustar, as the C++ benchmarks write it."""
    head = bytearray(512)
    fields = [(0, name), (100, "0000644"), (108, "0001750"), (116, "0001750"), (124, f"{size:011o}")]
    fields += [(136, "14000000000"), (148, " " * 8), (156, "0"), (257, "ustar\0" + "00")]
    for place, text in fields:
        head[place : place + len(text)] = text.encode()
    head[148:155] = f"{sum(head):06o}\0".encode()
    return bytes(head)


def _content(spec: DataSet, number: int, part: int) -> bytes:
    if spec.parts[part] == "jpg":
        return _jpeg(number)
    if spec.name == "peers-words":
        return _sentences(number, spec.size_bytes[part])
    if spec.parts[part].endswith(".npy"):
        return _array(number, part)
    return _letters(number, part, spec.size_bytes[part], spec.parts[part] == "json")


def _mix(value: Any) -> Any:
    """SplitMix64: maps counters to 64 well mixed bits."""
    with np.errstate(over="ignore"):
        value = value + np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))


def _letters(number: int, part: int, size: int, is_json: bool) -> bytes:
    """Letters from 'a' to 'p' computed from (number, part); JSON is one object."""
    with np.errstate(over="ignore"):
        seed = _mix(np.array([number * 16 + part], np.uint64))
        words = _mix(seed + np.arange(0, size, 8, dtype=np.uint64))
    words = (words & np.uint64(0x0F0F0F0F0F0F0F0F)) + np.uint64(0x6161616161616161)
    text = words.astype("<u8").tobytes()[:size]
    return b'{"text":"' + text[9 : size - 2] + b'"}' if is_json else text


@functools.cache
def _vocabulary() -> list[str]:
    """Made-up words of one to four syllables."""
    random = np.random.default_rng(0)
    first, then = "b c d f g h l m n p r s t v w st th tr pl sh".split(), "a e i o u ai ea ou er in".split()
    syllables = [one + other for one in first for other in then]
    words = dict.fromkeys("the of and to in a is that for it as was with be by on not he his but".split())
    while len(words) < VOCABULARY:
        chosen = random.integers(0, len(syllables), random.integers(1, 5))
        words["".join(syllables[i] for i in chosen)] = None
    return list(words)


def _sentences(number: int, size: int) -> bytes:
    """Words whose frequencies are those of a language, by Zipf's law, with punctuation."""
    random = np.random.default_rng(number)
    known, words = _vocabulary(), []
    for rank in np.exp(random.random(size // 3) * np.log(VOCABULARY)).astype(np.int64) - 1:
        words.append(known[rank])
        words[-1] += {3: ".", 7: ","}.get(int(rank) % 10, "")
    return " ".join(words).encode()[:size]


def tokenizer_path(data: pathlib.Path) -> pathlib.Path:
    return data / "peers-tokenizer.json"


def train_tokenizer(data: pathlib.Path, spec: DataSet) -> None:
    """Trains a byte-level BPE, as GPT-2 has, on some of the texts, unless it exists."""
    path = tokenizer_path(data)
    if path.exists():
        return
    import tokenizers

    tokenizer = tokenizers.ByteLevelBPETokenizer()
    texts = (parts[0].decode() for parts in samples_in_order(spec, spec.folder(data)))
    tokenizer.train_from_iterator(itertools.islice(texts, 20_000), vocab_size=32_000)
    tokenizer.save(str(path))


def _jpeg(number: int) -> bytes:
    """A picture with blocks, gradients and noise; about 110 KB."""
    from PIL import Image

    random = np.random.default_rng(number)
    blocks = random.integers(30, 226, (GRID, GRID, 3)).repeat(HEIGHT // GRID, 0)
    pixels = blocks.repeat(WIDTH // GRID, 1).astype(np.float32)
    pixels += np.linspace(-20, 20, WIDTH, dtype=np.float32)[None, :, None]
    pixels += random.standard_normal((HEIGHT, WIDTH, 1), np.float32) * 21
    file = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=92)
    return file.getvalue()


def _array(number: int, part: int) -> bytes:
    file = io.BytesIO()
    shape, kind = ((64,), np.float32) if part == 0 else ((16,), np.int64)
    np.save(file, np.full(shape, number, kind))
    return file.getvalue()


def digest_of(parts: Any) -> int:
    """A digest of the bytes of all parts of a sample."""
    total = 0
    for place, part in enumerate(parts):
        total += zlib.crc32(part) * (2 * place + 1) << (8 * place)
    return total & MASK


def signature_of(picture: Any) -> Any:
    """Means of blocks of a picture, uint8 (HEIGHT, WIDTH, 3): decoders may differ by rounding."""
    blocks = np.asarray(picture).reshape(GRID, HEIGHT // GRID, GRID, WIDTH // GRID, 3)
    return blocks.mean((1, 3), dtype=np.float32).reshape(-1)


def index_of(data: pathlib.Path, spec: DataSet) -> dict[str, Any]:
    """Arrays with an entry for each sample: `shard`, `offset` and `size` (samples, parts), `digest`,
    and for pictures `signature`. Read once and kept below `data`."""
    path = data / "peers-index" / f"{spec.name}-{spec.samples}.npz"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        arrays = _read_index(spec, spec.folder(data))
        np.savez(path.with_suffix(".new.npz"), **arrays)
        path.with_suffix(".new.npz").rename(path)
    with np.load(path) as kept:
        return dict(kept)


def _read_index(spec: DataSet, folder: pathlib.Path) -> dict[str, Any]:
    rows: dict[str, list[Any]] = {"shard": [], "offset": [], "size": [], "digest": []}
    signatures = []
    tokenizer = None
    if spec.name == "peers-words":
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_path(folder.parent)))
    for shard, path in enumerate(tars_of(folder)):
        for members, parts in samples_of_tar(path, len(spec.parts)):
            rows["shard"].append(shard)
            rows["offset"].append([member.offset_data for member in members])
            rows["size"].append([member.size for member in members])
            if tokenizer is not None:  # loaders deliver the tokens
                ids = tokenizer.encode(parts[0].decode()).ids
                rows["digest"].append(digest_of([np.array(ids, np.int32).tobytes()]))
            else:
                rows["digest"].append(digest_of(parts))
            if spec.parts[0] == "jpg":
                signatures.append(signature_of(decoded(parts[0])))
    if len(rows["shard"]) != spec.samples:
        raise SystemExit(f"{folder} has {len(rows['shard'])} samples, expected {spec.samples}")
    types = {"shard": np.int32, "offset": np.int64, "size": np.int64, "digest": np.uint64}
    arrays = {name: np.array(rows[name], types[name]) for name in rows}
    return arrays | ({"signature": np.array(signatures)} if signatures else {})


def samples_of_tar(path: pathlib.Path, parts: int) -> Iterator[tuple[list[Any], list[bytes]]]:
    with tarfile.open(path, "r:") as tar:
        members: list[Any] = []
        contents: list[bytes] = []
        for member in tar:
            file = tar.extractfile(member)
            members.append(member)
            contents.append(file.read() if file else b"")
            tar.members = []  # otherwise they are kept
            if len(members) == parts:
                yield members, contents
                members, contents = [], []


def decoded(jpeg: bytes) -> Any:
    """uint8 (height, width, 3), by Pillow."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))


def tars_of(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("*.tar"))


def samples_in_order(spec: DataSet, folder: pathlib.Path) -> Iterator[list[bytes]]:
    """The parts of each sample, for converters."""
    for path in tars_of(folder):
        for _, contents in samples_of_tar(path, len(spec.parts)):
            yield contents


def converted_folder(folder: pathlib.Path, kind: str) -> pathlib.Path:
    return folder.parent / f"{folder.name}-{kind}"


def converted(folder: pathlib.Path, kind: str, write: Callable[[pathlib.Path], None]) -> str:
    """The folder of the same data in the format `kind`; `write` makes it if it is missing."""
    path = converted_folder(folder, kind)
    if not (path / "complete").exists():
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        write(path)
        (path / "complete").touch()
    return str(path)


def read_all(folder: pathlib.Path) -> int:
    """Reads the files of a folder, so that they are in the page cache. Returns their bytes."""
    buffer, count = bytearray(1 << 20), 0
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb", buffering=0) as file:
                while size := file.readinto(buffer):
                    count += size
    return count


def main() -> None:
    """python_data.py FOLDER PROGRAM {"text": samples, …}: makes what is missing."""
    data, energon, samples = pathlib.Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    data.mkdir(parents=True, exist_ok=True)
    for kind, count in samples.items():
        make(data, data_set_of(kind, count), energon)
        if kind == "words":
            train_tokenizer(data, data_set_of(kind, count))
        index_of(data, data_set_of(kind, count))


if __name__ == "__main__":
    main()
