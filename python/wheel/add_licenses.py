"""Adds the licenses of bundled libraries to a wheel.

    python add_licenses.py WHEEL FFMPEG_FOLDER

The licenses come from /usr/share/doc, where Debian installs them, for the packages of the libraries
that the module and the program are linked with, and from the small FFmpeg. SOURCES.txt names the
source packages.
"""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile

# Linked statically, or headers only.
BUILT_IN = ["libarchive-dev", "libboost1.74-dev", "libcli11-dev"]
BUILT_IN += ["nlohmann-json3-dev"]
# Libraries of the system on which a wheel is installed.
NOT_BUNDLED = ["libc6", "libgcc-s1", "libstdc++6", "zlib1g"]
LONG_TEXT = 100_000


def linked_libraries(wheel: pathlib.Path) -> set[str]:
    """The paths of the shared libraries that the wheel's module and program load."""
    paths = set()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so") or "/bin/" in name:
                file = archive.extract(name, folder)
                text = subprocess.check_output(["ldd", file], text=True)
                paths |= set(re.findall(r"=> (/\S+)", text))
    return paths


def package_of(path: str) -> str:
    """The Debian package of the library. dpkg has some paths from before /usr was merged."""
    real = str(pathlib.Path(path).resolve())
    for name in (path, real, real.removeprefix("/usr"), path.removeprefix("/usr")):
        found = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True).stdout
        if found:
            return found.split(":")[0]
    sys.exit(f"{path} does not belong to a Debian package, so its license is not known")


def license_of(path: pathlib.Path) -> str:
    """The text of a license. A long text (Boost's has 2 MB) comes without its list of files."""
    text = path.read_text(encoding="utf-8")
    if len(text) < LONG_TEXT:
        return text
    paragraphs = text.split("\n\n")
    return "\n\n".join(part for part in paragraphs if part.startswith(("Format:", "License:")))


def source_of(package: str) -> str:
    """The line of SOURCES.txt for an installed package."""
    form = "-f=${source:Package} ${source:Version}"
    source = subprocess.check_output(["dpkg-query", "-W", form, package], text=True)
    return f"{package}: Debian's source package {source}\n"


def ffmpeg_licenses(folder: pathlib.Path) -> tuple[dict[str, list[pathlib.Path]], str]:
    """The licenses of the libraries that build_ffmpeg.sh built in `folder`, and their lines of
    SOURCES.txt."""
    names = ("COPYING.LGPLv2.1", "LICENSE.md")
    files = {
        "ffmpeg": [folder / "source" / name for name in names],
        "libdav1d6": [folder / "tools/usr/share/doc/libdav1d6/copyright"],
    }
    config = (folder / "source/ffbuild/config.mak").read_text()
    (line,) = re.findall(r"^FFMPEG_CONFIGURATION=(.*)", config, re.MULTILINE)
    own = ("--cc=", "--prefix=", "--x86asmexe=")
    options = " ".join(option for option in shlex.split(line) if not option.startswith(own))
    versions = (folder / "built").read_text().split()[0].removesuffix(".dsc").replace("_", " ", 1)
    dav1d = next(folder.glob("libdav1d6_*.deb")).name.split("_")[1]
    text = f"ffmpeg: Debian's source package {versions}, built with {options}\n"
    return files, f"{text}libdav1d6: Debian's source package dav1d {dav1d}\n"


def main() -> None:
    wheel, ffmpeg = map(pathlib.Path, sys.argv[1:])
    libraries = linked_libraries(wheel)
    debian_libraries = {path for path in libraries if not path.startswith(str(ffmpeg.resolve()))}
    files: dict[str, list[pathlib.Path]] = {}
    sources = ""
    if debian_libraries != libraries:
        files, sources = ffmpeg_licenses(ffmpeg)
    packages = {package_of(path) for path in debian_libraries} | set(BUILT_IN)
    for package in sorted(packages - set(NOT_BUNDLED)):
        files[package] = [pathlib.Path("/usr/share/doc") / package / "copyright"]
        sources += source_of(package)
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED) as archive:
        info = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        folder = f"{info.removesuffix('METADATA')}licenses/third_party"
        archive.writestr(f"{folder}/SOURCES.txt", sources)
        for package, texts in sorted(files.items()):
            for text in texts:
                archive.writestr(f"{folder}/{package}/{text.name}", license_of(text))


if __name__ == "__main__":
    main()
