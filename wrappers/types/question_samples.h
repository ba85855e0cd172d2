// Samples with a question about an image or a video. wrappers/types/image_samples.h says how these
// structs are used.
//
// Answer weights are float32 (answers). Numbers in lists, as JSON has them, are converted into
// `memory`.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

struct VqaSample {
  std::string key = {};
  Tensor image = {};
  std::string context = {};  ///< the question
  std::optional<std::vector<std::string>> answers = std::nullopt;
  std::optional<Tensor> answer_weights = std::nullopt;

  static VqaSample from(const Sample& sample, BufferAllocator& memory = heap_memory());
  Sample to_sample() const;
};

struct MultipleChoiceVqaSample {
  std::string key = {};
  Tensor image = {};
  std::string context = {};  ///< the question
  std::optional<std::vector<std::string>> choices = std::nullopt;
  std::int64_t correct_choice_idx = 0;

  static MultipleChoiceVqaSample from(const Sample& sample);
  Sample to_sample() const;
};

struct VideoQaSample {
  std::string key = {};
  SharedBytes video = {};    ///< a file, for an AvDecoder (media/av/av_decoder.h)
  std::string context = {};  ///< the question
  std::optional<std::vector<std::string>> answers = std::nullopt;
  std::optional<Tensor> answer_weights = std::nullopt;

  /// Videos must not be decoded: SampleDecoderOptions::av is AvMode::kBytes.
  static VideoQaSample from(const Sample& sample, BufferAllocator& memory = heap_memory());
  Sample to_sample() const;
};

}  // namespace energon
