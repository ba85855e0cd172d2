"""Dataset classes, sample types and functions that dataset.yaml names, over the package that
PEER_PACKAGE names. Written as users of Megatron-Energon write them."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
from dataclasses import dataclass
from typing import Any, List, Optional

import torch
from webdataset.autodecode import Decoder, imagehandler

energon: Any = importlib.import_module(os.environ["PEER_PACKAGE"])
flavors: Any = importlib.import_module(os.environ["PEER_PACKAGE"] + ".flavors")


@dataclass
class ChatMLSample(energon.Sample):  # type: ignore[misc]
    conversation: str
    imgs: Optional[List[torch.Tensor]] = None


class PickledPictures:
    """A handler of webdataset's decoder."""

    def __init__(self, spec: str) -> None:
        self.picture = imagehandler(spec)

    def __call__(self, key: str, data: bytes) -> Any:
        if re.sub(r".*[.]", "", key) != "jpgs":
            return None
        return [self.picture("jpg", one) for one in pickle.loads(data)]


class ChatMLWebdataset(flavors.DefaultDecoderWebdatasetFactory):  # type: ignore[misc]
    __sample_type__ = ChatMLSample

    def __init__(
        self, path: Any, *, auto_decode: bool = True, spec: str = "torchrgb", **kwargs: Any
    ) -> None:
        kwargs["decoder"] = None
        super().__init__(path, **kwargs)
        if auto_decode:
            self._decoder = Decoder([imagehandler(spec), PickledPictures(spec)])


@energon.edataclass
class PictureSample(energon.Sample):  # type: ignore[misc,name-defined]
    picture: Any
    words: Any
    place: Any = None


def encoder_over(package: Any) -> Any:
    """Makes dicts of the samples of all kinds. Lists keep their values from being stacked."""

    class Encoder(package.DefaultTaskEncoder):  # type: ignore[misc]
        @package.stateless
        def encode_sample(self, sample: Any) -> Any:
            names = "conversation imgs picture words place text image caption".split()
            fields = {name: [getattr(sample, name, None)] for name in names}
            own = ("__key__", "__restore_key__", "__subflavors__", "__sources__")
            made = {name: getattr(sample, name) for name in own}
            labels = json.dumps(sample.__subflavors__, sort_keys=True)
            return {**made, "kind": type(sample).__name__, "labels": labels, **fields}

    return Encoder()


def join_both(chat: Any, words: Any) -> Any:
    both = [chat.conversation, words.words]
    return PictureSample.derive_from(chat, picture=chat.imgs, words=both)
