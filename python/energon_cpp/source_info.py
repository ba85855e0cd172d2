"""SourceInfo, under the name of Energon's module."""

from ._core import SourceInfo
from ._file_stores import add_source as add_source_info
from ._handlers import sources_of as get_source_info

__all__ = ["SourceInfo", "add_source_info", "get_source_info"]
