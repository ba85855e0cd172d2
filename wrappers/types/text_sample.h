// A sample of text. wrappers/types/image_samples.h says how these structs are used.

#pragma once

#include <string>

#include "energon/sample/sample.h"

namespace energon {

struct TextSample {
  std::string key = {};
  std::string text = {};

  static TextSample from(const Sample& sample);
  Sample to_sample() const;
};

}  // namespace energon
