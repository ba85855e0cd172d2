"""The task encoders of a configuration: the same class body for both packages."""

from __future__ import annotations

import inspect
import json
import types
import zlib
from typing import Any, Iterator

import torch

from peer_types import Types, types_over


def as_text(value: Any) -> str:
    """Text of a part, decoded or not."""
    return value if isinstance(value, str) else bytes(value).decode()


def as_json(value: Any) -> Any:
    return value if isinstance(value, (dict, list)) else json.loads(bytes(value))


def text_of(sample: Any) -> str:
    """The fields that every kind of sample has."""
    for name in ("text", "caption", "context"):
        value = sample.get(name) if isinstance(sample, dict) else getattr(sample, name, None)
        if value is not None:
            return as_text(value)
    raise ValueError("a sample without text")


def number_of(key: str, salt: int) -> int:
    return zlib.crc32(f"{salt} {key}".encode())


def make_cookers(energon: types.ModuleType, kinds: Types, only_lines: bool) -> list[Any]:
    @energon.stateless
    def cook_lines(sample: Any) -> Any:
        line = as_json(sample["json"])
        return kinds.cooked(
            **energon.basic_sample_keys(sample), text=line["text"], number=line["number"], more=None
        )

    @energon.stateless
    def cook_crude(sample: Any) -> Any:
        number = as_json(sample["json"])["number"]
        more = {name: sample[name] for name in ("cls", "bin", "json")}
        # A decoded array is a tensor as the option `tensors` says (docs/python.md, "What a batch
        # is").
        array = sample["npy"]
        more["npy"] = array.tolist() if hasattr(array, "tolist") else array
        text = as_text(sample["txt"])
        keys = energon.basic_sample_keys(sample)
        return kinds.cooked(**keys, text=text, number=number, more=more)

    @energon.stateless
    @energon.cooker(need_primary=True)
    def cook_primary(sample: Any, primary: Any) -> Any:
        question = as_json(primary.get(".json", sample))
        image = primary.get(f"{sample['__key__']}.seg.png", sample)
        media = primary.get_media_metadata(f"{sample['__key__']}.seg.png")
        more = {"image": image, "width": media.width, "mode": media.mode}
        return kinds.cooked(
            **energon.basic_sample_keys(sample),
            text=question["question"],
            number=question["pair"][0],
            more=more,
        )

    @energon.stateless
    def cook_aux(sample: Any, captions: Any, files: Any) -> Any:
        number = as_json(sample["json"])["number"]
        image = captions.get(f"{number % 40:05}.png", sample)
        more = [image, files.get(f"{number % 10}.txt", sample)]
        text = as_text(sample["txt"])
        keys = energon.basic_sample_keys(sample)
        return kinds.cooked(**keys, text=text, number=number, more=more)

    if only_lines:
        return [energon.Cooker(cook_lines)]
    return [
        energon.Cooker(cook_primary, has_subflavors={"kind": "media"}),
        energon.Cooker(cook_aux, has_subflavors={"kind": "aux"}),
        energon.Cooker(cook_crude, has_subflavors={"kind": "crude"}),
        energon.Cooker(cook_lines),
    ]


def sample_stage(energon: types.ModuleType, kinds: Types, options: dict[str, Any]) -> Any:
    """The work of encode_sample or preencode_sample."""
    salt = options["salt"]

    def encoded(sample: Any, part: int = 0) -> Any:
        number = number_of(sample.__key__, salt)
        if options["skips"] and number % 7 == 0:
            raise energon.SkipSample()
        if options["fails"] and number % 11 == 0:
            raise ValueError(f"no good: {sample.__key__}")
        text = text_of(sample)
        return kinds.encoded.derive_from(
            sample, text=text, tokens=torch.tensor(list(text.encode())), number=number + part
        )

    @energon.stateless
    def encode(self: Any, sample: Any) -> Any:
        return encoded(sample)

    @energon.stateless
    def generate(self: Any, sample: Any) -> Iterator[Any]:
        for part in range(number_of(sample.__key__, salt + 1) % 3):
            yield encoded(sample, part)

    return generate if options["generates"] else encode


def pack_stages(energon: types.ModuleType, kinds: Types, options: dict[str, Any]) -> dict[str, Any]:
    capacity = options["capacity"]

    def select_samples_to_pack(self: Any, samples: list[Any]) -> list[list[Any]]:
        packs: list[list[Any]] = []
        room: list[int] = []
        for sample in sorted(samples, key=lambda sample: -len(sample.tokens)):
            length = len(sample.tokens)
            if length > capacity:
                continue  # left out
            fits = [i for i, left in enumerate(room) if left >= length]
            if not fits:
                packs.append([])
                room.append(capacity)
                fits = [len(packs) - 1]
            packs[fits[0]].append(sample)
            room[fits[0]] -= length
        return packs

    def packed(samples: list[Any], part: int) -> Any:
        return kinds.encoded.derive_from(
            samples[0],
            text=" | ".join(sample.__key__ for sample in samples),
            tokens=torch.cat([sample.tokens for sample in samples]),
            number=part,
        )

    @energon.stateless
    def pack_selected_samples(self: Any, samples: list[Any]) -> Any:
        return packed(samples, len(samples))

    @energon.stateless
    def pack_generator(self: Any, samples: list[Any]) -> Iterator[Any]:
        for part in range(number_of(samples[0].__key__, 1) % 3):
            yield packed(samples, part)

    @energon.stateless
    def postencode_sample(self: Any, sample: Any) -> Any:
        changes = {"text": sample.text.upper(), "tokens": sample.tokens + 1}
        return kinds.encoded.derive_from(sample, number=sample.number, **changes)

    pack = pack_generator if options["pack generates"] else pack_selected_samples
    stages = {"select_samples_to_pack": select_samples_to_pack, "pack_selected_samples": pack}
    return stages | ({"postencode_sample": postencode_sample} if options["postencodes"] else {})


def batch_stages(
    energon: types.ModuleType, kinds: Types, options: dict[str, Any]
) -> dict[str, Any]:
    def batch_group_criterion(self: Any, sample: Any) -> tuple[Any, int | None]:
        group = len(text_of(sample)) % 3
        size = None if options["group"] == "fixed" else group + 1
        return (group, "g") if options["salt"] % 2 else group, size

    @energon.stateless
    def batch(self: Any, samples: list[Any]) -> Any:
        number = number_of(samples[0].__key__, options["salt"])
        if options["batch fails"] and number % 5 == 0:
            raise ValueError(f"no good: {samples[0].__key__}")
        if options["batch skips"] and number % 5 == 1:
            raise energon.SkipSample()
        tokens = energon.batch_pad_stack([sample.tokens for sample in samples])
        return kinds.raw_batch.from_samples(samples, tokens=tokens, total=len(samples))

    @energon.stateless
    def encode_batch(self: Any, batch: Any) -> Any:
        total, tokens = batch.total + 1, batch.tokens * 2
        return kinds.raw_batch.derive_from(batch, text=batch.text, tokens=tokens, total=total)

    @energon.stateless
    def batch_generator(self: Any, batch: Any) -> Iterator[Any]:
        for part in range(1 + batch.total % 2):
            fields = {"text": batch.text, "tokens": batch.tokens}
            yield kinds.raw_batch.derive_from(batch, **fields, total=part)

    stages = {} if options["group"] is None else {"batch_group_criterion": batch_group_criterion}
    if options["batch"]:
        stages["batch"] = batch
        if options["encode batch"]:
            generates = options["encode batch"] == "generates"
            stages["encode_batch"] = batch_generator if generates else encode_batch
    return stages


def make_encoder(energon: types.ModuleType, options: dict[str, Any]) -> Any:
    """The task encoder of `options`, for either package."""
    kinds = types_over(energon)
    stages: dict[str, Any] = {
        "cookers": make_cookers(energon, kinds, options["only lines"])
    }
    if not options["decodes"]:
        stages["decoder"] = None
    if options["encodes"]:
        name = "preencode_sample" if options["preencodes"] else "encode_sample"
        stages[name] = sample_stage(energon, kinds, options)
    if options["capacity"]:
        stages |= pack_stages(energon, kinds, options)
    stages |= batch_stages(energon, kinds, options)
    names = {"dict": dict, "class": kinds.only_text, None: None}
    for stage in stages.values():  # Energon looks for functions by their own names
        if inspect.isfunction(stage):
            stage.__name__ = next(name for name in stages if stages[name] is stage)
    types_of: dict[str, Any] = {"encoded_sample_type": names[options["encoded type"]]}
    types_of["batch_type"] = names[options["batch type"]]
    return type("Encoder", (energon.DefaultTaskEncoder,), stages)(**types_of)
