// Decodes images into tensors.

#pragma once

#include <cstddef>
#include <span>

#include "io/bytes.h"
#include "media/image/image_options.h"
#include "media/tensor_decoder.h"

namespace energon {

/// Gives the first image of a file as uint8 or float32, in the shape that ImageOptions::layout
/// says. A damaged image is an error even if its damage would leave most pixels whole; nothing is
/// filled with gray. Warnings of codecs count as damage unless they cannot change pixels.
class ImageDecoder final : public TensorDecoder {
 public:
  /// Throws Error (kInvalidArgument) if options.dtype is neither kUInt8 nor kFloat32.
  explicit ImageDecoder(const ImageOptions& options = {});

  TensorSpec probe(ByteView encoded) const override;

  /// Throws Error (kInvalidArgument) too, if `to` has another size or alignment than it should.
  void decode_into(ByteView encoded, std::span<std::byte> to) const override;

 private:
  ImageOptions options_;
};

}  // namespace energon
