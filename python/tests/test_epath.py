"""EPath: Energon's path class, here for local files."""

from __future__ import annotations

import os
import pathlib
import pickle
from typing import Any

import pytest
from conftest import config

import energon_cpp as energon
from energon_cpp.epathlib import DEFAULT_PROFILE_NAME, EPath
from energon_cpp.epathlib.epath import EPath as SameEPath


def test_it_is_one_class() -> None:
    assert EPath is SameEPath and issubclass(EPath, os.PathLike)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/data/a.tar", "/data/a.tar"),
        ("a.tar", "{cwd}/a.tar"),
        ("./x/../a.tar", "{cwd}/a.tar"),
        ("/data/./b/../a.tar/", "/data/a.tar"),
        ("//data//a.tar", "/data/a.tar"),
        (pathlib.Path("b") / "a.tar", "{cwd}/b/a.tar"),
        (EPath("/data/a.tar"), "/data/a.tar"),
        ("file:///data/a.tar", "/data/a.tar"),
        ("file://data/a.tar", "{cwd}/data/a.tar"),
        (f"msc://{DEFAULT_PROFILE_NAME}/data/../a.tar", "/a.tar"),
        ("msc://default/data", "/data"),
        ("/", "/"),
        ("/a/b://c", "/a/b:/c"),
        ("a/b://c", "{cwd}/a/b:/c"),
    ],
)
def test_paths_are_absolute(given: Any, expected: str) -> None:
    path = EPath(given)
    expected = expected.format(cwd=os.getcwd())
    assert str(path) == path.url == os.fspath(path) == expected
    assert path.local_path() == pathlib.Path(expected) and path.is_local()
    assert repr(path) == f"EPath('{expected}')"


@pytest.mark.parametrize("address", ["s3://bucket/a.tar", "msc://profile/a"])
def test_addresses_are_refused(address: str) -> None:
    with pytest.raises(energon.UnsupportedError, match=f"'{address}' is an address.*mount"):
        EPath(address)
    with pytest.raises(energon.UnsupportedError, match="is an address"):
        EPath("/data") / address


def test_paths_above_the_root_are_refused() -> None:
    with pytest.raises(ValueError, match="leads above the root"):
        EPath("/a/../../b")
    assert EPath("/").parent == EPath("/")


def test_parts() -> None:
    path = EPath("/data/set/part.tar")
    assert (path.name, path.display_name, path.profile) == ("part.tar", "part.tar", "__filesystem__")
    assert path.parent == EPath("/data/set") == path / ".."
    assert path.with_suffix(".idx") == EPath("/data/set/part.idx")
    assert path.relative_to(EPath("/data")) == path.relative_to("/data") == "set/part.tar"
    with pytest.raises(ValueError):
        path.relative_to("/other")


def test_joins() -> None:
    path = EPath("/data")
    assert path / "a/b" == path / pathlib.PurePath("a") / "b" == EPath("/data/a/b")
    assert path / "a/b://c" == EPath("/data/a/b:/c")
    assert path / "/abs" == path / EPath("/abs") == path / "file:///abs" == EPath("/abs")


def test_comparisons_and_pickles() -> None:
    paths = [EPath("/b"), EPath("/a/z"), EPath("/a")]
    assert sorted(paths) == [EPath("/a"), EPath("/a/z"), EPath("/b")]
    assert EPath("/a") < EPath("/b") <= EPath("/b")
    with pytest.raises(TypeError, match="not supported between instances of 'EPath' and 'str'"):
        assert EPath("/a") < "/b"  # type: ignore[operator]
    assert len({EPath("/a"), EPath("/x/../a")}) == 1
    assert EPath("/a") == pathlib.Path("/a") == EPath("/a") != pathlib.Path("/b")
    assert {EPath("/a"): 1}[pathlib.Path("/a")] == 1 and EPath("/a") != "/a"  # type: ignore[index]
    assert pickle.loads(pickle.dumps(paths)) == paths


def test_files(tmp_path: pathlib.Path) -> None:
    root = EPath(tmp_path)
    file = root / "made" / "on" / "demand.txt"
    assert root.is_dir() and not root.is_file()
    assert not file.is_file() and not file.parent.is_dir()
    file.write_text("tür")
    assert file.is_file() and file.size() == file.stat().st_size == 4
    assert file.read_text() == "tür" and file.read_bytes() == "tür".encode()
    with file.open("wb", block_size=100, prefetch_file=True) as out:
        out.write(b"12")
    with file.open("rb") as data:
        assert data.read() == b"12"
    file.unlink()
    assert not file.is_file()
    for use in (file.unlink, file.size, file.read_bytes):
        with pytest.raises(FileNotFoundError):
            use()


def test_folders(tmp_path: pathlib.Path) -> None:
    root = EPath(tmp_path)
    (root / "a" / "b").mkdir()
    (root / "a" / "b").mkdir(parents=True)
    with pytest.raises(FileExistsError):
        (root / "a").mkdir(exist_ok=False)
    assert (root / "a" / "b").is_dir()


def test_copies_and_moves(tmp_path: pathlib.Path) -> None:
    root = EPath(tmp_path)
    (root / "from" / "x" / "one").write_text("1")
    (root / "from" / "two").write_text("2")
    (root / "from" / "two").copy(root / "new" / "two")
    assert (root / "new" / "two").read_text() == "2"
    (root / "from").copy(root / "new")
    assert (root / "new" / "x" / "one").read_text() == "1"
    (root / "new" / "two").move(root / "other" / "two")
    assert not (root / "new" / "two").is_file()
    (root / "from" / "x" / "one").move(root / "other" / "two")
    assert (root / "other" / "two").read_text() == "1"


def test_walk_and_glob(tmp_path: pathlib.Path) -> None:
    root = EPath(tmp_path) / "odd [name]"
    for name in ("a.tar", ".hidden.tar", "sub/b.tar", "sub/c.txt"):
        (root / name).write_text("")
    (root / "link").local_path().symlink_to(root / "sub")

    def names(paths: Any) -> list[str]:
        return [path.relative_to(root) for path in sorted(paths)]

    sub = ["link/b.tar", "link/c.txt", "sub/b.tar", "sub/c.txt"]
    assert names(root.walk()) == [".hidden.tar", "a.tar", *sub]
    assert names((root / "link").walk()) == sub[:2]
    assert names(root.glob("*")) == ["a.tar", "link", "sub"]
    assert names(root.glob("**/*.tar")) == ["a.tar", "link/b.tar", "sub/b.tar"]
    assert names(root.glob("sub/[a-b].tar")) == ["sub/b.tar"]


def test_functions_take_them(texts: str) -> None:
    path = EPath(texts)
    dataset = energon.get_val_dataset(path, worker_config=config(), batch_size=4)
    assert len(list(energon.get_loader(dataset))) == 15
    assert energon.get(path, "0003")["txt"] == energon.get(texts, "0003")["txt"]


def test_addresses_of_datasets_are_folders(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "charts" / "v1" / "images").mkdir(parents=True)
    file = tmp_path / "charts" / "v1" / "images" / "a.jpg"
    file.write_bytes(b"jpg")
    with pytest.raises(energon.UnsupportedError, match="NVDATASET_CACHE_DIR.*charts/v1"):
        EPath("dss://charts@v1")
    monkeypatch.setenv("NVDATASET_CACHE_DIR", str(tmp_path))
    root = EPath("dss://charts@v1")
    path = root / "images" / "a.jpg"
    assert str(path) == path.url == "dss://charts@v1/images/a.jpg"
    assert path.local_path() == file and os.fspath(path) == str(file)
    assert path.read_bytes() == b"jpg"
    for found in (root.walk(), root.glob("*/*")):
        assert [str(one) for one in found] == [str(path)]
    assert path.relative_to(root) == "images/a.jpg" and str(path.parent.parent) == "dss://charts@v1"
    assert str(root.parent) == str(tmp_path / "charts")
    assert pickle.loads(pickle.dumps(path)).url == path.url
    with pytest.raises(ValueError, match="leads above its dataset"):
        EPath("dss://charts@v1/../x")
    with pytest.raises((AssertionError), match="must include a dataset version separated by '@'"):
        EPath("dss://charts")
