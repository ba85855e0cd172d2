// Decodes the parts of samples, in front of another function.

#pragma once

#include "media/decode/sample_decoder.h"
#include "wrappers/stages/map.h"

namespace energon {

/// A function that decodes each part of a sample by its name (media/decode/sample_decoder.h) into
/// the memory of the batch, so that images of one size are stacked without a copy, and gives the
/// result to `next`, if there is one. Throws Error (kInvalidArgument) for an unknown image mode.
MapFunction decode_then(SampleDecoderOptions options, MapFunction next = nullptr);

}  // namespace energon
