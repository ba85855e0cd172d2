"""SPDL: threads of one process instead of workers (at least one), over the same precomputed offsets and
os.pread as torch_loader.py, a batch for each task; it decodes pictures itself."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import numpy as np
import spdl.io
from spdl.pipeline import PipelineBuilder

from loaders import offsets
from loaders.peer import BYTES, Job


def can_decode() -> bool:
    """Whether SPDL finds all of FFmpeg's libraries, which it loads here, including libavdevice and
    libavfilter."""
    try:
        spdl.io.demux_image(b"no picture")
    except RuntimeError as error:
        return "Failed to import libspdl" not in str(error)
    return True


class Loader(offsets.OffsetPeer):
    WORKS = {"text": BYTES, "image": BYTES, "blob": BYTES}
    READS = "as many threads as workers, at least one"
    if can_decode():
        WORKS["decoded"] = ("",)
    MODULES = ("spdl.io",)

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.data = offsets.TarSamples(job)
        for shard in range(len(self.data.paths)):
            self.data.file(shard)  # opened before threads read
        threads = max(1, job.workers)
        read = self.pictures if job.work == "decoded" else self.data.__getitems__
        builder = PipelineBuilder().add_source(self.numbers())
        builder = builder.pipe(read, concurrency=threads, output_order="input").add_sink(4)
        self.stack = contextlib.ExitStack()
        self.pipeline: Any = builder.build(num_threads=threads, max_failures=0)
        self.stack.enter_context(self.pipeline.auto_stop())

    def numbers(self) -> Iterator[list[int]]:
        count, batch = len(self.data), []
        while True:
            for number in range(count):
                batch.append(number)
                if len(batch) == self.job.batch_size:
                    yield batch
                    batch = []

    def pictures(self, numbers: list[int]) -> Any:
        frames = []
        for number in numbers:
            packets = spdl.io.demux_image(self.data.read(number)[0])
            frames.append(spdl.io.decode_packets(packets))
        return np.array(spdl.io.to_numpy(spdl.io.convert_frames(frames)), copy=False)

    def batches(self) -> Iterator[Any]:
        return iter(self.pipeline)

    def samples(self, batch: Any) -> list[list[Any]]:
        if self.job.work == "decoded":
            return [[picture] for picture in batch]
        return super().samples(batch)

    def close(self) -> None:
        with contextlib.suppress(TimeoutError):  # it waits for the source, which is endless
            self.stack.close()
