// Samples with text in an image, and where it stands. wrappers/types/image_samples.h says how these
// structs are used.
//
// Boxes are float32 (N, 4 or 5): x, y, width, height[, confidence], in pixels of the image; texts
// and classes have N items, which is not checked. Numbers in lists, as JSON has them, are converted
// into `memory`.

#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

/// The boxes of one kind and the text in each.
struct TextBoxes {
  std::optional<Tensor> boxes = std::nullopt;
  std::optional<std::vector<std::string>> text = std::nullopt;
};

/// A class for each block: none are known, numbers (a tensor as stored), or names.
using BlockClasses =
    std::variant<std::monostate, Tensor, std::vector<std::int64_t>, std::vector<std::string>>;

struct OcrSample {
  std::string key = {};
  Tensor image = {};
  std::string text = {};  ///< of the whole image
  TextBoxes block = {};   ///< fields block_boxes, block_text
  BlockClasses block_classes = {};
  TextBoxes lines = {};
  TextBoxes words = {};
  TextBoxes chars = {};

  static OcrSample from(const Sample& sample, BufferAllocator& memory = heap_memory());
  Sample to_sample() const;
};

struct VqaOcrSample {
  std::string key = {};
  Tensor image = {};
  std::string context = {};  ///< the question
  std::string text = {};     ///< of the whole image
  std::optional<std::vector<std::string>> answers = std::nullopt;
  std::optional<Tensor> answer_weights = std::nullopt;  ///< float32 (answers)
  TextBoxes words = {};

  static VqaOcrSample from(const Sample& sample, BufferAllocator& memory = heap_memory());
  Sample to_sample() const;
};

}  // namespace energon
