#include "wrappers/types/ocr_samples.h"

#include <string_view>

#include "io/overloaded.h"
#include "wrappers/types/typed_fields.h"

namespace energon {
namespace {

TextBoxes boxes_of(const TypedFields& fields, const std::string& kind) {
  return {.boxes = fields.optional_boxes(kind + "_boxes"),
          .text = fields.optional_texts(kind + "_text")};
}

void set_boxes(Sample& sample, const std::string& kind, const TextBoxes& boxes) {
  set_if(sample, kind + "_boxes", boxes.boxes);
  set_if(sample, kind + "_text", boxes.text);
}

BlockClasses classes_of(const TypedFields& fields, const Sample& sample, std::string_view name) {
  if (!fields.has(name)) {
    return {};
  }
  if (std::holds_alternative<Tensor>(sample.at(name).base())) {
    return fields.tensor(name);
  }
  const List& list = fields.list(name);
  if (!list.empty() && std::holds_alternative<std::int64_t>(list.front().base())) {
    return *fields.optional_integers(name);
  }
  return fields.texts(name);
}

void set_classes(Sample& sample, std::string_view name, const BlockClasses& classes) {
  std::visit(
      Overloaded{[](std::monostate) {}, [&](const Tensor& tensor) { sample.set(name, tensor); },
                 [&](const auto& values) { sample.set(name, list_of(values)); }},
      classes);
}

}  // namespace

OcrSample OcrSample::from(const Sample& sample, BufferAllocator& memory) {
  const TypedFields fields(SampleType::kOcr, sample, memory);
  return {.key = fields.key(),
          .image = fields.tensor("image"),
          .text = fields.text("text"),
          .block = boxes_of(fields, "block"),
          .block_classes = classes_of(fields, sample, "block_classes"),
          .lines = boxes_of(fields, "lines"),
          .words = boxes_of(fields, "words"),
          .chars = boxes_of(fields, "chars")};
}

Sample OcrSample::to_sample() const {
  Sample sample;
  sample.set("image", image);
  sample.set("text", text);
  set_if(sample, "block_boxes", block.boxes);
  set_classes(sample, "block_classes", block_classes);
  set_if(sample, "block_text", block.text);
  set_boxes(sample, "lines", lines);
  set_boxes(sample, "words", words);
  set_boxes(sample, "chars", chars);
  return sample;
}

VqaOcrSample VqaOcrSample::from(const Sample& sample, BufferAllocator& memory) {
  const TypedFields fields(SampleType::kVqaOcr, sample, memory);
  return {.key = fields.key(),
          .image = fields.tensor("image"),
          .context = fields.text("context"),
          .text = fields.text("text"),
          .answers = fields.optional_texts("answers"),
          .answer_weights = fields.optional_floats("answer_weights", 1),
          .words = boxes_of(fields, "words")};
}

Sample VqaOcrSample::to_sample() const {
  Sample sample;
  sample.set("image", image);
  sample.set("context", context);
  sample.set("text", text);
  set_if(sample, "answers", answers);
  set_if(sample, "answer_weights", answer_weights);
  set_boxes(sample, "words", words);
  return sample;
}

}  // namespace energon
