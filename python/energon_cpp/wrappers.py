"""Functions over batches, under the name of Energon's package. The wrappers themselves are native
stages; to change their behavior, override functions of a TaskEncoder."""

from .batching import concat_pad, generic_concat, homogeneous_concat_mix

__all__ = ["concat_pad", "generic_concat", "homogeneous_concat_mix"]
