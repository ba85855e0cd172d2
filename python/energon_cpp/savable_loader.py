"""The loaders, under the name of Energon's module."""

from ._core import LoaderState as SavableDataLoaderState
from .loaders import BasicDataLoader, SavableDataLoader

__all__ = ["BasicDataLoader", "SavableDataLoader", "SavableDataLoaderState"]
