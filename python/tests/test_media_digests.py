"""The normal build decodes media as listed in wheel/media_digests.txt, with which a wheel is compared."""

from __future__ import annotations

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE / "wheel"))
import media_digests  # noqa: E402

FOLDERS = [HERE.parents[1] / "tests" / "media" / name / "data" for name in ("av", "image")]
KINDS = sorted(media_digests.IMAGES | media_digests.SOUND_AND_VIDEO)


@pytest.mark.parametrize("kind", KINDS)
def test_normal_build_decodes_as_listed(kind: str) -> None:
    files = media_digests.media_files(FOLDERS, {kind})
    assert files != []
    lines = [line for path in files for line in media_digests.lines_of(path)]
    assert lines == media_digests.expected_lines({kind})
