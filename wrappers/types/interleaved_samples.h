// Samples with several images and texts. wrappers/types/image_samples.h says how these structs are
// used.
//
// A field map can give lists of texts from JSON, and lists of tensors only from parts that hold
// them; other sequences are made by a cooker.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

struct InterleavedSample {
  std::string key = {};
  std::vector<std::variant<Tensor, std::string>> sequence = {};  ///< images and texts, in order

  static InterleavedSample from(const Sample& sample);
  Sample to_sample() const;
};

/// Images and texts whose order is not known, only how similar they are.
struct SimilarityInterleavedSample {
  std::string key = {};
  std::vector<Tensor> images = {};
  std::vector<std::string> texts = {};
  std::optional<SharedBytes> audio = std::nullopt;  ///< a file, for an AvDecoder
  std::optional<SharedBytes> video = std::nullopt;  ///< a file, for an AvDecoder
  /// float32 (images, texts).
  std::optional<Tensor> similarity_matrix = std::nullopt;
  /// For each image, the position in `texts` that it belongs to.
  std::optional<std::vector<std::int64_t>> matched_text_indices = std::nullopt;

  /// Sound and video must not be decoded: SampleDecoderOptions::av is AvMode::kBytes.
  static SimilarityInterleavedSample from(const Sample& sample,
                                          BufferAllocator& memory = heap_memory());
  Sample to_sample() const;
};

}  // namespace energon
