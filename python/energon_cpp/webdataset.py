"""Tars with the interface of the package webdataset: a chain of methods, and a loop over it.

    dataset = (
        energon.WebDataset("shards-{000..099}.tar")
        .shuffle(1000)
        .decode("torchrgb")
        .to_tuple("jpg", "json")
        .batched(32)
    )
    with dataset.loader(num_workers=4) as loader:
        for images, infos in loader:
            ...

The tars need no preparation: the first run indexes them, and later runs find the indices in the
cache folder.
"""

from __future__ import annotations

import dataclasses
import operator
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Sequence

from ._shard_paths import Urls, shards_path
from ._webdataset_chain import Collation, WebDatasetChain, dataset_of
from ._webdataset_names import explains_webdataset_options, no_such_method
from ._webdataset_stages import (
    Associate,
    ExtractKeys,
    Function,
    Map,
    MapDict,
    MapTuple,
    Rename,
    Select,
    ToTuple,
    as_list,
    collate,
)
from .datasets import Dataset
from .decoder import SampleDecoder
from .loader import get_savable_loader
from .loaders import SavableDataLoader
from .worker_config import WorkerConfig, default_worker_config


class WebDataset:
    """Samples of tars, and the functions applied to them. Immutable: each method returns a new
    object.

    The core runs the stages in a fixed order: shards, shuffle, decode, functions of samples,
    batches, functions of batches. A call out of this order raises ValueError. Each rank and worker
    reads its own share, and each sample once per epoch. The order depends on the seed and on the
    numbers of ranks and workers.

    Args:
        urls: A tar, a brace pattern such as "shards/{000..099}.tar", a folder, several of these
            joined by "::", or a list of these.
        num_workers: Forked processes; 0, the default, runs everything in this process.
        worker_config: Rank, seed and logical shards; None means the rank of torch.distributed or
            torchrun.
        shardshuffle: Whether shards are read in random order; None means only with shuffle().
        resampled: Draw samples with replacement, without end.
        on_error: 'raise', or 'skip' to leave out samples that fail.
        cache_dir: Folder for the indices of tars; None means the standard cache folder.
    """

    @explains_webdataset_options
    def __init__(
        self,
        urls: Urls,
        *,
        num_workers: int | None = None,
        worker_config: WorkerConfig | None = None,
        shardshuffle: bool | None = None,
        resampled: bool = False,
        on_error: str = "raise",
        cache_dir: str | None = None,
    ) -> None:
        self._chain = WebDatasetChain(
            path=shards_path(urls),
            num_workers=num_workers,
            worker_config=worker_config,
            options={"on_error": on_error, "cache_dir": cache_dir},
            shuffles_shards=shardshuffle,
            resamples=resampled,
        )
        self._own_loader: SavableDataLoader | None = None

    @explains_webdataset_options
    def shuffle(self, size: int) -> WebDataset:
        """Reads shards in random order, and samples through a buffer of `size`; 0 keeps the
        order."""
        self._check("shuffle", self._chain.batch_size is None, "before batched()")
        return self._with(shuffle_buffer=_count("shuffle", size, 0))

    @explains_webdataset_options
    def decode(
        self, image: str | None = None, *more: Any, only: str | Sequence[str] | None = None
    ) -> WebDataset:
        """Decodes parts according to their names: json, txt, cls, npy and others.

        If to_tuple() or rename(keep=False) follows, with no map() or select() in between, only the
        parts that they use are decoded.

        Args:
            image: Mode of images, such as "torchrgb" or "torchrgb8" (torch tensors) or "rgb8"
                (NumPy arrays); None leaves images as bytes.
            only: Names of the parts to decode, as a list or separated by spaces; None means all
                parts.
        """
        if more or callable(image):
            raise TypeError(
                f"decode() takes one image mode, not {[image, *more]}: apply your own functions to "
                "single parts with map_dict(name=function) after it"
            )
        fits = not self._chain.sample_stages and self._chain.batch_size is None
        self._check("decode", fits, "before functions of samples; use map() for your own parts")
        names = only.split() if isinstance(only, str) else only
        parts = None if names is None else tuple(names)
        return self._with(decoder=SampleDecoder(image_decode=image, parts=parts))

    @explains_webdataset_options
    def to_tuple(self, *names: str, missing_is_error: bool = True) -> WebDataset:
        """Makes a tuple of the named parts. "jpg;png" is the first of these that the sample has,
        "__key__" the key, "__url__" the path of the shard.

        Args:
            *names: Names as separate arguments, or in one string separated by spaces.
            missing_is_error: Whether a missing part raises KeyError; otherwise it is None.
        """
        parts = tuple(names[0].split()) if len(names) == 1 else names
        return self._with_sample_stage("to_tuple", ToTuple(parts, missing_is_error))

    @explains_webdataset_options
    def extract_keys(
        self, *patterns: str, duplicate_is_error: bool = True, ignore_missing: bool = False
    ) -> WebDataset:
        """Makes a tuple of the parts whose names match patterns such as "*.jpg;*.png".

        Args:
            *patterns: Alternatives separated by semicolons.
            duplicate_is_error: Whether several matches of a pattern raise KeyError; otherwise the
                first match is used.
            ignore_missing: Whether a pattern without a match is left out of the tuple; otherwise it
                raises KeyError.
        """
        stage = ExtractKeys(patterns, duplicate_is_error, ignore_missing)
        return self._with_sample_stage("extract_keys", stage)

    def associate(self, source: Mapping[str, Any] | Callable[[str], Any]) -> WebDataset:
        """Adds to each sample the parts that `source` has for its key. `source` is a mapping, which
        need not have all keys, or a function of the key."""
        return self._with_sample_stage("associate", Associate(source))

    def rename(self, keep: bool = True, **new_names: str) -> WebDataset:
        """Renames parts: `rename(image="jpg;png")`.

        Args:
            keep: Whether to keep the other parts.
            **new_names: The old name for each new name, or alternatives separated by semicolons.
        """
        return self._with_sample_stage("rename", Rename(new_names, keep))

    @explains_webdataset_options
    def map(self, function: Function) -> WebDataset:
        """Calls `function` for each sample, or after batched() for each batch. A sample or batch
        for which it returns None is left out."""
        return self._with_stage(Map(function))

    def map_dict(self, **functions: Function) -> WebDataset:
        """Calls a function for each named part: `map_dict(json=len)`."""
        return self._with_stage(MapDict(functions))

    @explains_webdataset_options
    def map_tuple(self, *functions: Function) -> WebDataset:
        """Calls a function for each of the first items of a tuple."""
        return self._with_stage(MapTuple(functions))

    @explains_webdataset_options
    def select(self, predicate: Callable[[Any], Any]) -> WebDataset:
        """Keeps only samples, or after batched() batches, for which `predicate` is true."""
        return self._with_stage(Select(predicate))

    @explains_webdataset_options
    def batched(
        self, size: int, collation_fn: Collation | None = collate, partial: bool = True
    ) -> WebDataset:
        """Makes batches of `size` samples.

        Args:
            size: Samples in a batch.
            collation_fn: Makes a batch of a list of samples; None keeps the list. The standard
                collation makes a tuple of columns from tuples and, natively, a Batch from samples
                to which no function was applied.
            partial: Whether the last batch of an epoch may be smaller; otherwise it is dropped.
        """
        self._check("batched", self._chain.batch_size is None, "once")
        self._check("batched", self._chain.epoch is None, "before with_epoch()")
        self._check("batched", self._chain.slice_count is None, "before slice()")
        is_native = collation_fn is collate and not self._chain.sample_stages
        collation = None if is_native else collation_fn or as_list
        return self._with(
            batch_size=_count("batched", size, 1), collation=collation, drops_last=not partial
        )

    @explains_webdataset_options
    def repeat(self) -> WebDataset:
        """Starts the data again at its end. An epoch then has no end, unless with_epoch() sets
        one."""
        return self._with(repeats=True)

    @explains_webdataset_options
    def with_epoch(self, count: int) -> WebDataset:
        """Sets the length of an epoch to `count` batches of this rank, or samples without
        batched(). The data starts again at its end, and the next epoch continues where this one
        ended."""
        return self._with(epoch=_count("with_epoch", count, 1), repeats=True)

    def slice(self, count: int) -> WebDataset:
        """Limits each epoch to the first `count` batches of this rank, or samples without
        batched(). Needs data in a fixed order: with shuffle() or repeat(), opening the data raises
        ValueError."""
        return self._with(slice_count=_count("slice", count, 1))

    @explains_webdataset_options
    def with_length(self, count: int) -> WebDataset:
        """Sets the value of len(), which is otherwise the exact number of batches of this rank."""
        return self._with(length=_count("with_length", count, 0))

    def dataset(self, num_workers: int | None = None) -> Dataset:
        """Returns the dataset for get_savable_loader() and get_loader()."""
        return dataset_of(self._chain, self._worker_config(num_workers))

    def loader(self, num_workers: int | None = None, **options: Any) -> SavableDataLoader:
        """Returns a loader with its own position. Takes the options of get_savable_loader()."""
        return get_savable_loader(self.dataset(num_workers), **options)

    def __iter__(self) -> Iterator[Any]:
        """Iterates over a loader that this object keeps. A loop is an epoch and continues after a
        break."""
        return iter(self._loader())

    def __len__(self) -> int:
        """Batches of this rank in an epoch, or samples without batched().

        Raises:
            TypeError: The epoch has no end, or functions decide how many there are.
        """
        length = self._loader().size if self._chain.length is None else self._chain.length
        if length is None:
            raise TypeError("the length is not known: set it with with_length() or with_epoch()")
        return length

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the loops over this object, as a dict of plain types."""
        return self._loader().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from `state_dict`."""
        self._loader().load_state_dict(state_dict)

    def close(self) -> None:
        """Ends the workers of the loops over this object. The next loop starts over."""
        if self._own_loader is not None:
            self._own_loader.close()
            self._own_loader = None

    def __enter__(self) -> WebDataset:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Called only for attributes that the object does not have.
            raise no_such_method(name)

    def __repr__(self) -> str:
        default = WebDatasetChain(path="")
        settings = [
            f"{name}={value!r}"
            for name, value in vars(self._chain).items()
            if name != "options" and value != getattr(default, name)
        ]
        return f"WebDataset({', '.join(settings)})"

    def _loader(self) -> SavableDataLoader:
        if self._own_loader is None:
            self._own_loader = self.loader()
        return self._own_loader

    def _worker_config(self, num_workers: int | None) -> WorkerConfig:
        config = self._chain.worker_config or default_worker_config(0)
        count = self._chain.num_workers if num_workers is None else num_workers
        return config if count is None else dataclasses.replace(config, num_workers=count)

    def _with(self, **changes: Any) -> WebDataset:
        changed = WebDataset.__new__(WebDataset)
        changed._chain = dataclasses.replace(self._chain, **changes)
        changed._own_loader = None
        return changed

    def _with_stage(self, stage: Function) -> WebDataset:
        if self._chain.batch_size is None:
            return self._with(sample_stages=(*self._chain.sample_stages, stage))
        return self._with(batch_stages=(*self._chain.batch_stages, stage))

    def _with_sample_stage(self, method: str, stage: Function) -> WebDataset:
        self._check(method, self._chain.batch_size is None, "before batched()")
        return self._with_stage(stage)

    def _check(self, method: str, fits: bool, place: str) -> None:
        if not fits:
            raise ValueError(f"{method}() must be called {place}: {self!r}")


def _count(method: str, count: int, least: int) -> int:
    """Returns the count as an int. Raises TypeError or ValueError for an unusable count."""
    try:
        number = operator.index(count)
    except TypeError:
        raise TypeError(f"{method}() needs an integer, not {count!r}") from None
    if number < least:
        raise ValueError(f"{method}({number}): the number must be at least {least}")
    return number
