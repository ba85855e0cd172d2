"""Tars as in the package webdataset: a chain of methods, and a loop over it.

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

Nothing has to be prepared: the first run indexes the tars, later ones find the indexes in the cache
folder.
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
    """Samples of tars, and what is done with them. Immutable: each method returns a new one.

    The core runs the stages in a fixed order: shards, shuffle, decode, functions of samples,
    batches, functions of batches. A call that contradicts it is a ValueError. Each rank and worker
    reads its own share, each sample once in an epoch. The order follows from the seed, the number
    of ranks and of workers.

    urls: a tar, a brace pattern such as "shards/{000..099}.tar", a folder, several of these joined
    by "::" or as a list. num_workers: forked processes; 0, the default: this process.
    worker_config: rank, seed and logical shards; None: the rank of torch.distributed or torchrun.
    shardshuffle: whether shards come in random order; None: if there is a shuffle(). resampled:
    samples are drawn with replacement, without end. on_error: "skip" leaves out samples that fail.
    cache_dir: folder for the indexes of tars; None: the standard cache folder.
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
        """Shards in random order, and samples through a buffer of `size`; 0: as they were."""
        self._check("shuffle", self._chain.batch_size is None, "before batched()")
        return self._with(shuffle_buffer=_count("shuffle", size, 0))

    @explains_webdataset_options
    def decode(
        self, image: str | None = None, *more: Any, only: str | Sequence[str] | None = None
    ) -> WebDataset:
        """Parts by their names: json, txt, cls, npy and others; images with a mode such as
        "torchrgb", "torchrgb8" (torch tensors) or "rgb8" (NumPy arrays), else they stay bytes.
        only: names of the parts that are decoded. If to_tuple() or rename(keep=False) follows, with
        no map() or select() between them, only the parts that are used are decoded anyway."""
        if more or callable(image):
            raise TypeError(
                f"decode() takes one mode of images, not {[image, *more]}: functions of yours for "
                "single parts are map_dict(name=function) after it"
            )
        fits = not self._chain.sample_stages and self._chain.batch_size is None
        self._check("decode", fits, "before functions of samples; use map() for parts of your own")
        names = only.split() if isinstance(only, str) else only
        parts = None if names is None else tuple(names)
        return self._with(decoder=SampleDecoder(image_decode=image, parts=parts))

    @explains_webdataset_options
    def to_tuple(self, *names: str, missing_is_error: bool = True) -> WebDataset:
        """A tuple of the parts. "jpg;png" is the first of them that the sample has; none is a
        KeyError, or None in the tuple. "__key__" is the key, "__url__" the path of the shard."""
        wanted = tuple(names[0].split()) if len(names) == 1 else names
        return self._with_sample_stage("to_tuple", ToTuple(wanted, missing_is_error))

    @explains_webdataset_options
    def extract_keys(
        self, *patterns: str, duplicate_is_error: bool = True, ignore_missing: bool = False
    ) -> WebDataset:
        """A tuple of the parts whose names match "*.jpg;*.png" and so on. None that matches a
        pattern, or several, are a KeyError; or nothing in the tuple, or the first of them."""
        stage = ExtractKeys(patterns, duplicate_is_error, ignore_missing)
        return self._with_sample_stage("extract_keys", stage)

    def associate(self, source: Mapping[str, Any] | Callable[[str], Any]) -> WebDataset:
        """Adds to each sample the parts that `source` has for its key: a mapping, whose other keys
        add nothing, or a function of the key."""
        return self._with_sample_stage("associate", Associate(source))

    def rename(self, keep: bool = True, **new_names: str) -> WebDataset:
        """`rename(image="jpg;png")`: parts under new names. keep: whether the others stay."""
        return self._with_sample_stage("rename", Rename(new_names, keep))

    @explains_webdataset_options
    def map(self, function: Function) -> WebDataset:
        """`function` of each sample, after batched() of each batch; None leaves it out."""
        return self._with_stage(Map(function))

    def map_dict(self, **functions: Function) -> WebDataset:
        """A function for each named part: `map_dict(json=len)`."""
        return self._with_stage(MapDict(functions))

    @explains_webdataset_options
    def map_tuple(self, *functions: Function) -> WebDataset:
        """A function for each of the first entries of a tuple."""
        return self._with_stage(MapTuple(functions))

    @explains_webdataset_options
    def select(self, predicate: Callable[[Any], Any]) -> WebDataset:
        """Leaves out what `predicate` is not true for."""
        return self._with_stage(Select(predicate))

    @explains_webdataset_options
    def batched(
        self, size: int, collation_fn: Collation | None = collate, partial: bool = True
    ) -> WebDataset:
        """Batches of `size`. collation_fn: makes a batch of a list of samples; None: the list. The
        standard one makes of tuples a tuple of columns; of samples without functions, a Batch,
        natively. partial: whether the last batch of an epoch may be smaller."""
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
        """Begins the data again at its end: an epoch has no end, unless with_epoch() says it."""
        return self._with(repeats=True)

    @explains_webdataset_options
    def with_epoch(self, count: int) -> WebDataset:
        """An epoch is `count` batches of this rank, or samples without batched(). The data begins
        again at its end, and the next epoch goes on where this one ended."""
        return self._with(epoch=_count("with_epoch", count, 1), repeats=True)

    def slice(self, count: int) -> WebDataset:
        """Only the first `count` batches of this rank in each epoch, or samples without batched().
        For data in a fixed order: ValueError with shuffle() or repeat() when the data is opened."""
        return self._with(slice_count=_count("slice", count, 1))

    @explains_webdataset_options
    def with_length(self, count: int) -> WebDataset:
        """What len() says. Without it, len() is the exact number of batches of this rank."""
        return self._with(length=_count("with_length", count, 0))

    def dataset(self, num_workers: int | None = None) -> Dataset:
        """For get_savable_loader() and get_loader()."""
        return dataset_of(self._chain, self._worker_config(num_workers))

    def loader(self, num_workers: int | None = None, **options: Any) -> SavableDataLoader:
        """A loader with a position of its own; the options are those of get_savable_loader()."""
        return get_savable_loader(self.dataset(num_workers), **options)

    def __iter__(self) -> Iterator[Any]:
        """Over a loader that this object keeps: a loop is an epoch, and goes on after a break."""
        return iter(self._loader())

    def __len__(self) -> int:
        """Batches of this rank in an epoch, or samples. TypeError if it has no end."""
        return len(self._loader()) if self._chain.length is None else self._chain.length

    def state_dict(self) -> dict[str, Any]:
        """The position of the loops over this object, as a dict of plain types."""
        return self._loader().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from there."""
        self._loader().load_state_dict(state_dict)

    def close(self) -> None:
        """Ends the workers of the loops over this object. The next loop begins again."""
        if self._own_loader is not None:
            self._own_loader.close()
            self._own_loader = None

    def __enter__(self) -> WebDataset:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Called only for what the object does not have.
            raise no_such_method(name)

    def __repr__(self) -> str:
        default = WebDatasetChain(path="")
        said = [
            f"{name}={value!r}"
            for name, value in vars(self._chain).items()
            if name != "options" and value != getattr(default, name)
        ]
        return f"WebDataset({', '.join(said)})"

    def _loader(self) -> SavableDataLoader:
        if self._own_loader is None:
            self._own_loader = self.loader()
        return self._own_loader

    def _worker_config(self, num_workers: int | None) -> WorkerConfig:
        config = self._chain.worker_config or default_worker_config(0)
        said = self._chain.num_workers if num_workers is None else num_workers
        return config if said is None else dataclasses.replace(config, num_workers=said)

    def _with(self, **changes: Any) -> WebDataset:
        made = WebDataset.__new__(WebDataset)
        made._chain = dataclasses.replace(self._chain, **changes)
        made._own_loader = None
        return made

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
    """The count as an int. TypeError, ValueError."""
    try:
        number = operator.index(count)
    except TypeError:
        raise TypeError(f"{method}() needs an integer, not {count!r}") from None
    if number < least:
        raise ValueError(f"{method}({number}): the number must be at least {least}")
    return number
