"""Makes the files in stored/: states of the real megatron-energon, and its batches after them.

    python make_stored_states.py ENERGON_PROGRAM

Needs megatron-energon and torch. Tests of the import, which need neither, read the files.
expected.json contains, for each file, the sizes of the shards, the flags of the job, and by rank the
numbers of the samples in the batches that follow.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from import_jobs import flags_of
from make_states import DATASETS

HERE = pathlib.Path(__file__).resolve().parent
POINT = 9
COUNT = 40
SHUFFLED = {"shuffle_buffer_size": 5, "max_samples_per_sequence": 6}
# The stored files: the name in make_states.py, and the name here.
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "shuffled.pt": ("pt", {"num_workers": 0, "options": SHUFFLED}),
    "workers.pickle": ("protocol4", {"num_workers": 2, "checkpoint_every_sec": 1000}),
    "ranks_of_old_torch.pt": ("old", {"num_workers": 0, "ranks": 2, "mode": "val"}),
}


def main() -> None:
    stored = HERE / "stored"
    jobs = [
        {"name": name, "path": "a", "points": [POINT], "count": COUNT, "forms": True, **spec}
        for name, (_, spec) in JOBS.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-B", str(HERE / "make_states.py"), sys.argv[1], folder]
        made = subprocess.run(
            command, input=json.dumps(jobs), stdout=subprocess.PIPE, text=True, check=True
        )
        results = json.loads(made.stdout)
        for name, (form, _) in JOBS.items():
            shutil.copyfile(f"{folder}/{name}.{POINT}.{form}", stored / name)
    expected = []
    for job in jobs:
        delivered = [[item for item in rank if item] for rank in results[job["name"]]]
        expected.append(
            {
                "file": job["name"],
                "shards": DATASETS["a"],
                "flags": [*(flags_of(job) or []), "--num-workers", str(job["num_workers"])],
                "ranks": [[numbers(batch) for batch in rank[POINT:]] for rank in delivered],
            }
        )
    lines = ",\n".join(json.dumps(entry) for entry in expected)
    (stored / "expected.json").write_text(f"[\n{lines}\n]\n")


def numbers(batch: list[str]) -> list[int]:
    return [int(key[1:]) for key in batch]


if __name__ == "__main__":
    main()
