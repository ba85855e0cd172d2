"""Uses an installed wheel like a new user. run.sh runs it on a system without libraries.

    python use_wheel.py MEDIA_FOLDER LIBRARY_FOLDER

MEDIA_FOLDER contains small images, sounds and videos.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

# Python is isolated (-I), so the folder of this file is not in its path.
sys.path.append(str(pathlib.Path(__file__).parent))
import import_cost  # noqa: E402
import media_digests  # noqa: E402

MEDIA = pathlib.Path(sys.argv[1])
SYSTEM = pathlib.Path(sys.argv[2])
DATA = pathlib.Path("dataset")
STEPS = 12


def check(what: str, holds: bool) -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)
    if not holds:
        sys.exit(1)


def ran(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_bareness() -> None:
    """Without isolation, this test proves nothing."""
    check("there is no compiler", not any(map(shutil.which, ("gcc", "g++", "cc", "clang", "ld"))))
    check("there are no headers", os.listdir("/usr/include") == [])
    own = ("libarchive", "libsqlite3", "libavcodec", "libjpeg", "libpng", "libyaml-cpp", "libfmt")
    there = [path.name for path in SYSTEM.iterdir()]
    check("there are no libraries", there != [] and not any(n.startswith(own) for n in there))
    check("LD_LIBRARY_PATH is empty", "LD_LIBRARY_PATH" not in os.environ)


def check_import() -> None:
    seconds, foreign = import_cost.import_cost("-I")
    if seconds >= 0.2:
        print(import_cost.slowest_imports("-I"))
    check(f"import takes {seconds:.3f} s, less than 0.2", seconds < 0.2)
    check(f"it imports nothing but Python's own modules {foreign}", foreign == [])


def check_program() -> None:
    import importlib.metadata

    import energon_cpp as energon

    version = importlib.metadata.version("energon_cpp")
    check("one version", energon.__version__ == version)
    check("energon --version", ran("energon", "--version").split() == ["energon-cpp", version])
    ran(sys.executable, "-I", "-m", "energon_cpp", "prepare", str(DATA), "--split-ratio", "1,0,0")
    check("python -m energon_cpp prepare", (DATA / ".nv-meta/index.sqlite").exists())
    info = ran("energon", "get", str(DATA), "0003", "--json")
    check("energon get", json.loads(info)["key"] == "0003")
    wrong = subprocess.run(["energon", "nothing"], capture_output=True, timeout=60)
    check("its exit code comes through", wrong.returncode == 2)


def make_data() -> None:
    import numpy

    random = numpy.random.default_rng(0)
    DATA.mkdir()
    for shard in range(2):
        with tarfile.open(DATA / f"shard_{shard}.tar", "w") as tar:
            for i in range(40):
                array = io.BytesIO()
                label = int(random.integers(4))
                numpy.save(array, (random.random(16) + numpy.eye(16)[label]).astype("float32"))
                parts = {"x.npy": array.getvalue(), "cls": str(label).encode()}
                for name, data in parts.items():
                    member = tarfile.TarInfo(f"{40 * shard + i:04}.{name}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


class Training:
    """Learns to tell four kinds of vectors apart."""

    def __init__(self, energon, num_workers: int) -> None:
        import numpy

        class Encoder(energon.DefaultTaskEncoder):
            def encode_sample(self, sample):
                noise = numpy.random.random(16).astype("float32")
                x = numpy.asarray(sample["x.npy"]) + 0.1 * noise
                return {**energon.basic_sample_keys(sample), "x": x, "y": sample["cls"]}

        config = energon.WorkerConfig(rank=0, world_size=1, num_workers=num_workers)
        self.dataset = energon.get_train_dataset(
            DATA, worker_config=config, batch_size=8, shuffle_buffer_size=16,
            task_encoder=Encoder(), tensors="numpy",
        )  # fmt: skip
        self.loader = energon.get_savable_loader(self.dataset)
        self.weights = numpy.zeros((16, 4), "float32")
        self.batches: list[list[str]] = []
        self.restore_key = None

    def run(self, steps: int) -> list[float]:
        import numpy

        losses = []
        for batch in self.loader:
            x, y = numpy.asarray(batch["x"]), numpy.asarray(batch["y"])
            scores = numpy.exp(x @ self.weights)
            chance = scores / scores.sum(1, keepdims=True)
            losses.append(float(-numpy.log(chance[numpy.arange(len(y)), y]).mean()))
            self.weights -= 0.5 * x.T @ (chance - numpy.eye(4, dtype="float32")[y]) / len(y)
            self.batches.append(list(batch["__key__"]))
            self.restore_key = batch["__restore_key__"]
            if len(losses) == steps:
                break
        return losses


def check_training() -> None:
    import energon_cpp as energon

    for num_workers in (0, 2):
        first = Training(energon, num_workers)
        before = first.run(STEPS)
        saved, weights = first.loader.state_dict(), first.weights.copy()
        after = first.run(STEPS)
        first.loader.close()
        second = Training(energon, num_workers)
        second.loader.load_state_dict(saved)
        second.weights = weights
        same = second.run(STEPS) == after and second.batches == first.batches[STEPS:]
        check(f"{num_workers} workers: it learns", sum(after) < sum(before))
        check(f"{num_workers} workers: a resumed run has the same losses", same)
        state = second.loader.save_state_rank()
        step = energon.which_keys(second.dataset, state, 2 * STEPS - 1)[0]
        check("which_keys", step.keys == second.batches[-1])
        again = energon.restore_sample(second.dataset, second.restore_key)
        check("restore_sample", list(again["__key__"]) == second.batches[-1])
        second.loader.close()


def check_media() -> None:
    kinds = set(media_digests.IMAGES)
    if "WITHOUT_FFMPEG" not in os.environ:
        kinds |= media_digests.SOUND_AND_VIDEO
    files = media_digests.media_files([MEDIA], kinds)
    check(f"{len(files)} files: {' '.join(sorted(kinds))}", {p.suffix[1:] for p in files} == kinds)
    lines = [line for path in files for line in media_digests.lines_of(path)]
    expected = media_digests.expected_lines(kinds)
    for line in sorted(set(lines) ^ set(expected)):
        print(f"     {'the wheel' if line in lines else 'the normal build'}: {line}")
    check("they are decoded as by the normal build", lines == expected)


def check_libraries() -> None:
    """Every loaded library belongs to Python or the wheel, or was left in the system."""
    loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
    prefixes = (sys.prefix, sys.base_prefix, str(SYSTEM), "/lib/", "/lib64/", "/usr/lib64/")
    foreign = sorted(path for path in loaded if not path.startswith(prefixes))
    check(f"no library of elsewhere is loaded {foreign}", foreign == [])
    ours = [path for path in loaded if "/energon_cpp.libs/" in path]
    check(f"{len(ours)} libraries come from the wheel", len(ours) >= 10)


def main() -> None:
    begin = time.monotonic()
    check_bareness()
    check_import()
    make_data()
    check_program()
    check_training()
    check_media()
    check_libraries()
    print(f"all of it in {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
