// Samples with one image: the image alone, with a caption, with a class.
//
// The structs of this folder are typed copies of a sample whose fields have the names of
// io/recipe/typed_samples.h; tensors, texts in lists and bytes are shared or copied, never decoded.
// from() throws Error (kNotFound, kInvalidArgument) with the type, the field and the key.
// to_sample() gives a sample with the fields that are set; its key and sources are those of the
// sample that the function of the stage was called with, so an encode function may return it.
//
// An image is a tensor as the image mode of the decoder says; by default float32 (3, height, width)
// from 0 to 1.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "energon/sample/sample.h"

namespace energon {

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

}  // namespace energon
