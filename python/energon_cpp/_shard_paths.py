"""Paths as strings for the core, and the shards of a WebDataset as one path."""

from __future__ import annotations

import os
from typing import Any, Sequence, Union

from ._errors import UnsupportedError

Urls = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def path_text(path: Any) -> str:
    """Returns the path as a str.

    Raises:
        TypeError: `path` is not a path.
        ValueError: The path contains a NUL character or is not valid UTF-8.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"a path must be a str or an os.PathLike, not {type(path).__name__}")
    text = os.fsdecode(path)
    if "\0" in text:
        raise ValueError(f"the path {text!r} contains a NUL character, which is not allowed")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"the path {text!r} is not valid UTF-8: rename the file or folder, or link to it"
        ) from None
    return text


def shards_path(urls: Urls) -> str:
    """Returns one brace pattern for a path, a pattern, a folder, several of these joined by "::",
    or a list of these.

    Raises:
        UnsupportedError: A shard is a command or the address of a server.
        ValueError: The list is empty, or a path in it contains a comma.
    """
    listed = [urls] if isinstance(urls, (str, bytes, os.PathLike)) else list(urls)
    paths = [_local(part) for url in listed for part in path_text(url).split("::")]
    if not paths:
        raise ValueError("WebDataset needs at least one shard, but the list is empty")
    if len(paths) == 1:
        return paths[0]
    for path in paths:  # they become alternatives of a pattern
        if "," in path and "{" not in path:
            raise ValueError(
                f"a list of shards cannot contain '{path}': commas separate the alternatives of a "
                "brace pattern; rename the shard, or pass its folder alone"
            )
    return "/{" + ",".join(os.path.join(os.getcwd(), path).lstrip("/") for path in paths) + "}"


def _local(url: str) -> str:
    scheme, colon, rest = url.partition(":")
    if colon and scheme == "file":
        return _local(rest.removeprefix("//"))
    if colon and (scheme == "pipe" or rest.startswith("//")):
        kind = "a command" if scheme == "pipe" else "an address"
        raise UnsupportedError(
            f"'{url}' is {kind}; shards must be files on this machine or a mounted file system, "
            "because samples are read in place: copy or mount the shards, and pass paths "
            'such as "shards/{000..099}.tar"'
        )
    return os.path.expanduser(os.path.expandvars(url))
