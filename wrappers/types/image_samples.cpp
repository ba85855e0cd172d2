#include "wrappers/types/image_samples.h"

#include "wrappers/types/typed_fields.h"

namespace energon {

ImageSample ImageSample::from(const Sample& sample) {
  const TypedFields fields(SampleType::kImage, sample, heap_memory());
  return {.key = fields.key(), .image = fields.tensor("image")};
}

Sample ImageSample::to_sample() const {
  Sample sample;
  sample.set("image", image);
  return sample;
}

CaptioningSample CaptioningSample::from(const Sample& sample) {
  const TypedFields fields(SampleType::kCaptioning, sample, heap_memory());
  return {.key = fields.key(), .image = fields.tensor("image"), .caption = fields.text("caption")};
}

Sample CaptioningSample::to_sample() const {
  Sample sample;
  sample.set("image", image);
  sample.set("caption", caption);
  return sample;
}

ImageClassificationSample ImageClassificationSample::from(const Sample& sample) {
  const TypedFields fields(SampleType::kImageClassification, sample, heap_memory());
  return {.key = fields.key(),
          .image = fields.tensor("image"),
          .label = fields.optional_integer("label"),
          .label_name = fields.optional_text("label_name")};
}

Sample ImageClassificationSample::to_sample() const {
  Sample sample;
  sample.set("image", image);
  set_if(sample, "label", label);
  set_if(sample, "label_name", label_name);
  return sample;
}

}  // namespace energon
