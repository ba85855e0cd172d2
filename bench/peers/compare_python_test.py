"""compare_python.sh with little data and the loaders that always exist: the report is complete, and a loader that delivers wrong data
ends the comparison. Exits with 77 if torch is missing."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SMALL = "--rounds 1 --seconds 0.05 --warmup 0 --text-samples 400 --images 20 --blobs 16 --verify 30"
LAYOUT = "--works text image decoded --workers 2 --batches 64 4 --loaders energon_cpp torch"


def run(folder, json_path, options):
    command = [str(HERE / "compare_python.sh"), folder, *options.split()]
    done = subprocess.run(command, env=os.environ | {"PEERS_JSON": str(json_path)}, text=True, capture_output=True, timeout=1200)
    if done.returncode == 77:
        print(done.stdout)
        sys.exit(77)
    return done


def check_report(report):
    names = [result["name"] for result in report["results"]]
    for work, peer in (("text", "bytes"), ("image", "bytes"), ("image", "tensor"), ("decoded", "torchvision")):
        for batch in (64, 4):
            for who in ("energon_cpp", f"torch DataLoader, {peer}"):
                assert f"{work}: {who}, 2 workers, batch {batch}" in names, (work, who, names)
    assert "resume at 99 % of an epoch, energon_cpp" in names, names
    for result in report["results"]:
        assert 0 < result["min"] <= result["median"] <= result["max"], result
        if "work" in result:
            assert result["pss_bytes"] > 1e6 and result["first_batch_seconds"] > 0, result
    targets = [target["name"] for target in report["targets"]]
    assert targets == ["Python, text of 0.8 KB: ratio to torch DataLoader", "Python, JPEGs of 110 KB, raw: ratio to torch DataLoader",
                       "Python loop over C++, a batch of tensors"], targets


def spoil(folder):
    """Changes a letter in the text of each sample, which the tars' headers do not show."""
    for path in pathlib.Path(folder).glob("text-400/*.tar"):
        with open(path, "r+b") as tar:
            for place in range(700, path.stat().st_size - 1024, 2560):
                tar.seek(place)
                tar.write(b"Z")


def python_with_torch():
    """The Python of PEERS_PYTHON or of the environment that compare_python.sh made, or None, because a test installs nothing."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    path = os.environ.get("PEERS_PYTHON", str(cache / "energon-bench/python/bin/python"))
    return path if pathlib.Path(path).exists() else None


def main():
    python = python_with_torch()
    if python is None:
        print("SKIPPED: no Python with torch; run bench/peers/compare_python.sh once, or set PEERS_PYTHON")
        sys.exit(77)
    os.environ["PEERS_PYTHON"] = python
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.json"
        done = run(folder, path, f"{SMALL} {LAYOUT}")
        assert done.returncode == 0, done.stdout + done.stderr
        check_report(json.loads(path.read_text(encoding="utf-8")))
        assert "samples verified" in done.stdout, done.stdout
        spoil(folder)
        done = run(folder, path, f"{SMALL} --works text --workers 0 --batches 4 --loaders energon_cpp")
        assert done.returncode != 0 and "those of no sample" in done.stderr, done.stdout + done.stderr
    print("compare_python: the report is complete, and wrong data are found")


if __name__ == "__main__":
    main()
