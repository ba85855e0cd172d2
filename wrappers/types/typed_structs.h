// Structs for the sample types of Energon: typed copies of a sample whose fields have the names of
// io/recipe/typed_samples.h.
//
// Tensors, strings in lists and bytes are shared or copied, never decoded. from() throws Error
// (kNotFound, kInvalidArgument) with the type, the field and the key. to_sample() returns a sample
// with the fields that are set; its key and sources are those of the sample that the function of
// the stage was called with, so an encode function may return it.
//
// An image is a tensor in the decoder's image mode; by default float32 (3, height, width) from 0 to
// 1. Numbers in lists, as JSON has them, are converted into `memory`.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

// --- One image: alone, with a caption, with a class ---

struct ImageSample {
  std::string key = {};
  Tensor image = {};

  static ImageSample from(const Sample& sample);
  Sample to_sample() const;
};

struct CaptioningSample {
  std::string key = {};
  Tensor image = {};
  std::string caption = {};

  static CaptioningSample from(const Sample& sample);
  Sample to_sample() const;
};

struct ImageClassificationSample {
  std::string key = {};
  Tensor image = {};
  std::optional<std::int64_t> label = std::nullopt;
  std::optional<std::string> label_name = std::nullopt;

  static ImageClassificationSample from(const Sample& sample);
  Sample to_sample() const;
};

// --- Text ---

struct TextSample {
  std::string key = {};
  std::string text = {};

  static TextSample from(const Sample& sample);
  Sample to_sample() const;
};

// --- A question about an image or a video ---
//
// Answer weights are float32 (answers).

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

  /// Videos must not be decoded: set SampleDecoderOptions::av to AvMode::kBytes.
  static VideoQaSample from(const Sample& sample, BufferAllocator& memory = heap_memory());
  Sample to_sample() const;
};

// --- Text in an image, and where it stands ---
//
// Boxes are float32 (N, 4 or 5): x, y, width, height[, confidence], in pixels of the image; texts
// and classes have N items, which is not checked.

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

// --- Several images and texts ---
//
// A field map can make lists of strings from JSON, and lists of tensors only from parts that hold
// them; other sequences are made by a cooker.

struct InterleavedSample {
  std::string key = {};
  std::vector<std::variant<Tensor, std::string>> sequence = {};  ///< images and strings, in order

  static InterleavedSample from(const Sample& sample);
  Sample to_sample() const;
};

/// Images and texts without a known order, only with their similarities.
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
