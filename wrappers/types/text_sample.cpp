#include "wrappers/types/text_sample.h"

#include "wrappers/types/typed_fields.h"

namespace energon {

TextSample TextSample::from(const Sample& sample) {
  const TypedFields fields(SampleType::kText, sample, heap_memory());
  return {.key = fields.key(), .text = fields.text("text")};
}

Sample TextSample::to_sample() const {
  Sample sample;
  sample.set("text", text);
  return sample;
}

}  // namespace energon
