"""WorkerConfig, under the name of Energon's module."""

from .worker_config import WorkerConfig

__all__ = ["WorkerConfig"]
