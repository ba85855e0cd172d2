"""Names of the package webdataset that WebDataset does not have, and what to use instead."""

from __future__ import annotations

from ._explained_options import explains_options

_NO_CACHE = "samples are read in place from files, so there is nothing to cache"
_STREAMS = (
    "the position of a function over a whole stream cannot be saved; use map(), select() and "
    "batched(), or a TaskEncoder with get_train_dataset()"
)
_SHARES = "each rank and worker always reads its own share"

_METHODS = {
    "cached": _NO_CACHE,
    "compose": _STREAMS,
    "ddp_equalize": "with_epoch(n) gives each rank n batches",
    "listed": "batched(n, collation_fn=None) makes lists",
    "lmdb_cached": _NO_CACHE,
    "log_keys": "which_keys() and which_step() return the samples of each step",
    "mcached": _NO_CACHE,
    "pipe": _STREAMS,
    "rename_keys": "rename(image='jpg;png') takes names of parts; extract_keys() takes patterns",
    "rsample": "select(lambda sample: random.random() < p) draws the same samples in every run",
    "then": _STREAMS,
    "to_dict": "rename(keep=False, image='jpg;png') makes dicts of the named parts",
    "unbatched": "leave batched() out for single samples; after it, loop over the batch",
    "unlisted": "leave batched() out for single samples; after it, loop over the batch",
    "xdecode": "decode() goes by the names of parts; use map_dict(name=function) for your own",
}

_OPTIONS = {
    "batchsize": "pass the size as the first argument, batched(size)",
    "cache_size": _NO_CACHE,
    "detshuffle": "the seed always determines the order: WorkerConfig(seed_offset=...)",
    "handler": 'WebDataset(..., on_error="skip") leaves out samples that fail',
    "initial": "the buffer holds references to samples, not their data, and is full at once",
    "nbatches": "with_epoch(n) ends an epoch after n batches",
    "nepochs": "a loop is one epoch; with_epoch(n) ends an epoch after n batches",
    "nodesplitter": _SHARES,
    "none_is_error": "map(function) may return None to leave a sample out",
    "partial": "batched(n, partial=False) drops the last batch; decode() leaves unknown parts as "
    "bytes",
    "post": "map_dict(name=function) after decode()",
    "pre": "map_dict(name=function), instead of decode() for this part",
    "rename_files": "rename(new='old') renames parts",
    "repeat": "call the method repeat()",
    "rng": "the seed determines the random numbers: WorkerConfig(seed_offset=...)",
    "seed": "WorkerConfig(seed_offset=...) determines the order",
    "select_files": "to_tuple() and rename(keep=False) select parts; others are not decoded",
    "splitter": _SHARES,
    "workersplitter": _SHARES,
}

explains_webdataset_options = explains_options(_OPTIONS)


def no_such_method(name: str) -> AttributeError:
    hint = f": {_METHODS[name]}" if name in _METHODS else ""
    return AttributeError(f"WebDataset has no attribute '{name}'{hint}")
