"""Random configurations. Each is a dict of plain values, from which both packages make the same
loaders. Configurations that differ by design are not drawn; comments name the documentation."""

from __future__ import annotations

import json
import random
from typing import Any

HEAD = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"

# The ways to mix, and the options that they need in an entry of a metadataset.
TEXTS: dict[str, dict[str, Any]] = {"texts": {}, "unicode": {}, "captions": {}, "questions": {}}
CRUDE: dict[str, dict[str, Any]] = {
    "crude": {},
    "crude_media": {},
    "lines.jsonl": {"subflavors": {"kind": "lines"}},
    "few_lines.jsonl": {"subflavors": {"kind": "lines"}},
}
AUX = {
    "subflavors": {"kind": "aux"},
    "aux": {"captions": "../captions", "files": "filesystem://../files"},
}


class Recipe:
    """Draws one configuration for a seed and a number."""

    def __init__(self, seed: int, number: int) -> None:
        self.draw = random.Random(f"configuration {seed} {number}")
        self.number = number
        self.metadataset: str | None = None
        self.mode = self.draw.choice(["train", "train", "train", "epochs", "val", "val"])
        self.split = "val" if self.mode == "val" else "train"
        self.world_size = self.draw.choice([1, 1, 1, 2, 2, 3])
        self.num_workers = self.draw.choice([0, 0, 1, 2, 2, 3])
        # A dataset this small has samples for each worker only if there are few: Energon ends
        # with an assertion for a worker without samples (docs/guarantees.md, "Not guaranteed").
        if self.mode == "val" and self.world_size * self.num_workers > 4:
            self.world_size = 1

    def maybe(self, probability: float) -> bool:
        return self.draw.random() < probability

    # --- Data ---

    def subset(self, leaf: str, may_be_absolute: bool) -> dict[str, Any]:
        if may_be_absolute and self.maybe(0.4):
            end = self.draw.choice([12, 14, "end"])
            return {"range": [self.draw.randint(0, 2), end]}
        return {"range": [f"{self.draw.randint(0, 20)}%", f"{self.draw.randint(80, 100)}%"]}

    def entry(self, leaf: str, mixing: str) -> dict[str, Any]:
        """A reference to a dataset or to the metadataset with the join, as YAML values."""
        entry: dict[str, Any] = {"path": f"../{leaf}"}
        wanted = {**TEXTS, **CRUDE}.get(leaf, {})
        if leaf == "crude" and self.maybe(0.4):
            wanted = AUX
        entry |= json.loads(json.dumps(wanted))
        if self.maybe(0.3):
            entry.setdefault("subflavors", {})["drawn"] = self.draw.choice([1, "one", True, 2.5])
        if self.mode != "val" and not leaf.startswith("joined") and self.maybe(0.25):
            entry["subset"] = self.subset(leaf, not leaf.endswith(".jsonl"))
        if self.maybe(0.1) and not leaf.endswith((".yaml", ".jsonl")):
            entry["split_part"] = "train"
        if self.mode != "val" and self.maybe(0.2):
            # Not null, because Energon asserts. -1 draws endlessly.
            choices = [2, 3, -1] if mixing == "blend" else [2, 3]
            entry["shuffle_over_epochs_multiplier"] = self.draw.choice(choices)
        if mixing == "blend":
            entry["weight"] = self.draw.choice([1, 2, 3, 0.5, 7.25])
        elif self.mode == "epochs":
            # Fractions only if one epoch is compared (docs/pipelines.md, "By repetitions").
            entry["repetitions"] = self.draw.choice([1, 1, 2, 3, 0.5, 1.5, 2.25])
        else:
            entry["repetitions"] = self.draw.choice([1, 1, 2, 3])
        return entry

    def write_metadataset(self, leaves: list[str]) -> None:
        mixing = "blend" if self.mode == "train" and self.maybe(0.75) else "blend_epochized"
        self.mixing = mixing
        entries = [self.entry(leaf, mixing) for leaf in leaves]
        if len(entries) > 2 and self.maybe(0.4):
            inner = [entries.pop(), entries.pop()]
            share = "weight" if mixing == "blend" else "repetitions"
            self.inner = f"{HEAD}  {self.split}: {json.dumps({mixing: inner})}\n"
            nested = {"path": f"inner_{self.number}.yaml", share: self.draw.choice([1, 2])}
            if self.maybe(0.3) and not any("subset" in entry for entry in inner):
                nested["subset"] = self.subset("", False)
            entries.append(nested)
        content: dict[str, Any] = {mixing: entries}
        if len(entries) == 1 and self.maybe(0.5):  # a reference alone
            content = entries[0]
            content.pop("weight", None)
            content.pop("repetitions", None)
        # Version 1 has none of these and, in Energon, neither JSONL files nor joins.
        newer = any({"subset", "aux"} & set(entry) for entry in entries) or bool(self.inner)
        newer = newer or any(name in f"{entries}" for name in ("joined", ".jsonl"))
        if "blend" in content and not newer and self.maybe(0.5):
            content = {"datasets": entries}
        head = "splits:\n" if "datasets" in content else HEAD
        self.metadataset = f"{head}  {self.split}: {json.dumps(content, ensure_ascii=False)}\n"

    def choose_data(self) -> dict[str, Any]:
        """The path, the metadatasets to write, and the kind of the samples."""
        self.mixing, self.inner = "none", ""
        joined = f"joined_{self.split}.yaml"
        kind = self.draw.choice(["typed", "typed", "crude", "lines", "joined"] + 5 * ["mixed"])
        if kind == "mixed":
            pool = [*TEXTS, "crude", "crude_media", "lines.jsonl", joined]
            leaves = self.draw.sample(pool, self.draw.randint(1, 4))
            if self.maybe(0.3):
                leaves += [self.draw.choice(["few", "few_lines.jsonl", leaves[0]])]
            self.write_metadataset(leaves)
            path, leaf = f"recipes/outer_{self.number}.yaml", "mixed"
        else:
            leaf = {
                "typed": self.draw.choice(list(TEXTS)),
                "crude": self.draw.choice(["crude", "crude_media"]),
                "lines": "lines.jsonl",
                "joined": joined,
            }[kind]
            path = leaf
        return {"path": path, "leaf": leaf, "outer": self.metadataset, "inner": self.inner}

    # --- Functions ---

    def choose_functions(self, leaf: str) -> dict[str, Any]:
        draw = self.draw
        options: dict[str, Any] = {
            # Energon cannot select a cooker by subflavors if there are none.
            "only lines": leaf == "lines.jsonl",
            "salt": draw.randrange(1000),
            # A field map with "json[question]" needs a decoder.
            "decodes": "questions" in f"{self.data}" or self.maybe(0.75),
            "encodes": leaf == "mixed" or self.maybe(0.6),
            "preencodes": False,
            "skips": self.maybe(0.3),
            "fails": self.maybe(0.2),
            "generates": self.maybe(0.25),
            "capacity": 0,
            "pack generates": False,
            "postencodes": False,
            "group": None,
            "batch": False,
            "batch fails": self.maybe(0.2),
            "batch skips": self.maybe(0.2),
            "encode batch": None,
            "encoded type": None,
            "batch type": None,
        }
        if options["encodes"]:
            options["capacity"] = draw.choice([0, 0, 60, 150])
            options["batch"] = self.maybe(0.4)
            options["encode batch"] = draw.choice([None, "maps", "generates"])
        elif leaf in ("texts", "unicode"):
            options["encoded type"] = draw.choice([None, "dict", "class"])
            options["batch type"] = draw.choice([None, "dict"])
        if options["capacity"]:
            options["preencodes"] = self.maybe(0.6)
            options["postencodes"] = options["preencodes"] and self.maybe(0.6)
            options["pack generates"] = self.maybe(0.25)
        if self.maybe(0.25):
            options["group"] = draw.choice(["fixed", "own"])
        return options

    # --- All ---

    def made(self) -> dict[str, Any]:
        draw = self.draw
        data = self.data = self.choose_data()
        functions = self.choose_functions(data["leaf"])
        batch_size: int | None = draw.choice([1, 2, 3, 5, 8])
        single = not functions["batch"] and functions["group"] is None and self.maybe(0.1)
        if functions["group"] == "own" or single:
            batch_size = None
        options: dict[str, Any] = {"batch_size": batch_size, "batch_drop_last": self.maybe(0.3)}
        if functions["capacity"]:
            options["packing_buffer_size"] = draw.choice([3, 8, 20])
        if self.mode == "val":
            options |= {"limit": draw.choice([None, None, 1, 3, 7])}
        else:
            options |= self.training_options()
        return {
            "number": self.number,
            "mode": self.mode,
            "data": data,
            "tree": draw.choice(["by_energon_cpp", "by_energon"]),
            "world_size": self.world_size,
            "num_workers": self.num_workers,
            "seed_offset": draw.choice([0, 0, 1, 42]),
            "handler": draw.choice(["quiet", "quiet", "reraise"]),
            "options": options,
            "functions": functions,
            "batches": draw.randint(6, 14),
            "saved_after": draw.randint(0, 5),
            "energon resumes": self.energon_resumes(options, functions),
            "each": self.mode == "val" and self.maybe(0.2),
        }

    def energon_resumes(self, options: dict[str, Any], functions: dict[str, Any]) -> bool:
        """Energon 7.4.1 cannot rebuild samples of joins, which its buffers need. With several datasets
        in validation, it starts with the first. A worker that has finished its share of the epoch
        starts over, although others or a buffer have not finished. It cannot rebuild groups or packs
        with postencode_sample, which later generators and groups need."""
        if "joined" in f"{self.data['path']} {self.data['outer']} {self.data['inner']}":
            return False
        groups, generates = functions["group"], functions["encode batch"] == "generates"
        if (groups and generates) or (functions["postencodes"] and (groups or generates)):
            return False
        if self.mode == "train":
            return self.num_workers <= 1 or not options.get("virtual_epoch_length")
        buffers = (options.get("shuffle_buffer_size") or 0) > 1
        buffers = buffers or functions["capacity"] > 0 or functions["group"] is not None
        is_one = self.mode != "val" or self.data["leaf"] != "mixed"
        return is_one and not buffers and self.num_workers <= 1

    def training_options(self) -> dict[str, Any]:
        draw = self.draw
        drawn = [-1] if self.mixing == "blend" else []
        options: dict[str, Any] = {
            "shuffle_buffer_size": draw.choice([None, 1, 2, 10, 50]),
            "max_samples_per_sequence": draw.choice([None, None, 1, 2, 4, 7]),
            "shuffle_over_epochs_multiplier": draw.choice([1, 1, 1, 2, *drawn]),
            "repeat": self.mode != "epochs",
        }
        if self.maybe(0.5):
            options["parallel_shard_iters"] = draw.choice([1, 3, 16])
        if self.maybe(0.4):
            options["virtual_epoch_length"] = draw.choice([2, 5, 6])
        return options


def draw_configuration(seed: int, number: int) -> dict[str, Any]:
    return Recipe(seed, number).made()
