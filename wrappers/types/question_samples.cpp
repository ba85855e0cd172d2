#include "wrappers/types/question_samples.h"

#include "wrappers/types/typed_fields.h"

namespace energon {

VqaSample VqaSample::from(const Sample& sample, BufferAllocator& memory) {
  const TypedFields fields(SampleType::kVqa, sample, memory);
  return {.key = fields.key(),
          .image = fields.tensor("image"),
          .context = fields.text("context"),
          .answers = fields.optional_texts("answers"),
          .answer_weights = fields.optional_floats("answer_weights", 1)};
}

Sample VqaSample::to_sample() const {
  Sample sample;
  sample.set("image", image);
  sample.set("context", context);
  set_if(sample, "answers", answers);
  set_if(sample, "answer_weights", answer_weights);
  return sample;
}

MultipleChoiceVqaSample MultipleChoiceVqaSample::from(const Sample& sample) {
  const TypedFields fields(SampleType::kMultipleChoiceVqa, sample, heap_memory());
  return {.key = fields.key(),
          .image = fields.tensor("image"),
          .context = fields.text("context"),
          .choices = fields.optional_texts("choices"),
          .correct_choice_idx = fields.optional_integer("correct_choice_idx").value_or(0)};
}

Sample MultipleChoiceVqaSample::to_sample() const {
  Sample sample;
  sample.set("image", image);
  sample.set("context", context);
  set_if(sample, "choices", choices);
  sample.set("correct_choice_idx", correct_choice_idx);
  return sample;
}

VideoQaSample VideoQaSample::from(const Sample& sample, BufferAllocator& memory) {
  const TypedFields fields(SampleType::kVideoQa, sample, memory);
  return {.key = fields.key(),
          .video = fields.bytes("video"),
          .context = fields.text("context"),
          .answers = fields.optional_texts("answers"),
          .answer_weights = fields.optional_floats("answer_weights", 1)};
}

Sample VideoQaSample::to_sample() const {
  Sample sample;
  sample.set("video", video);
  sample.set("context", context);
  set_if(sample, "answers", answers);
  set_if(sample, "answer_weights", answer_weights);
  return sample;
}

}  // namespace energon
