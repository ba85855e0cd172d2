#include "wrappers/types/typed_structs.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/error.h"
#include "io/overloaded.h"
#include "io/recipe/typed_samples.h"

namespace energon {

// --- Numbers as tensors ---

namespace {

std::optional<float> number_of(const Value& value) {
  if (const auto* const integer = std::get_if<std::int64_t>(&value.base())) {
    return static_cast<float>(*integer);
  }
  if (const auto* const number = std::get_if<double>(&value.base())) {
    return static_cast<float>(*number);
  }
  return std::nullopt;
}

bool append_numbers(const List& list, std::vector<float>& numbers) {
  for (const Value& item : list) {
    const std::optional<float> number = number_of(item);
    if (!number) {
      return false;
    }
    numbers.push_back(*number);
  }
  return true;
}

Tensor tensor_of(const std::vector<float>& numbers, std::vector<std::int64_t> shape,
                 BufferAllocator& memory) {
  NewTensor made = new_tensor(DType::kFloat32, std::move(shape), memory);
  if (!numbers.empty()) {
    std::memcpy(made.bytes.data(), numbers.data(), made.bytes.size());
  }
  return std::move(made.tensor);
}

std::optional<Tensor> float_vector(const List& list, BufferAllocator& memory) {
  std::vector<float> numbers;
  if (!append_numbers(list, numbers)) {
    return std::nullopt;
  }
  return tensor_of(numbers, {static_cast<std::int64_t>(list.size())}, memory);
}

std::optional<Tensor> float_matrix(const List& rows, BufferAllocator& memory) {
  std::vector<float> numbers;
  std::size_t columns = 0;
  for (const Value& item : rows) {
    const auto* const row = std::get_if<List>(&item.base());
    if (row == nullptr || (&item != &rows.front() && row->size() != columns) ||
        !append_numbers(*row, numbers)) {
      return std::nullopt;
    }
    columns = row->size();
  }
  return tensor_of(numbers,
                   {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)},
                   memory);
}

template <class Number>
std::vector<float> converted(const Tensor& tensor) {
  std::vector<float> numbers(tensor.data.size() / sizeof(Number));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Number number{};
    std::memcpy(&number, tensor.data.view.data() + i * sizeof(Number), sizeof(Number));
    numbers[i] = static_cast<float>(number);
  }
  return numbers;
}

// Nullopt for dtypes in which no tool stores coordinates.
std::optional<std::vector<float>> converted_numbers(const Tensor& tensor) {
  switch (tensor.dtype) {
    case DType::kUInt8:
      return converted<std::uint8_t>(tensor);
    case DType::kInt8:
      return converted<std::int8_t>(tensor);
    case DType::kInt16:
      return converted<std::int16_t>(tensor);
    case DType::kInt32:
      return converted<std::int32_t>(tensor);
    case DType::kInt64:
      return converted<std::int64_t>(tensor);
    case DType::kFloat32:
      return converted<float>(tensor);
    case DType::kFloat64:
      return converted<double>(tensor);
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kBool:
      return std::nullopt;
  }
  return std::nullopt;
}

// `value` as a float32 tensor with `dimensions` (1 or 2), rounded to the nearest: a numeric tensor,
// a list of numbers, or a list of lists of equal length. An empty list of lists has the shape (0,
// 0). A float32 tensor is shared, others are stored in `memory`. Nullopt if `value` has another
// form. Throws whatever allocate() throws.
std::optional<Tensor> float_tensor(const Value& value, std::size_t dimensions,
                                   BufferAllocator& memory) {
  if (const auto* const tensor = std::get_if<Tensor>(&value.base())) {
    if (tensor->shape.size() != dimensions) {
      return std::nullopt;
    }
    if (tensor->dtype == DType::kFloat32) {
      return *tensor;
    }
    const std::optional<std::vector<float>> numbers = converted_numbers(*tensor);
    return numbers ? std::optional(tensor_of(*numbers, tensor->shape, memory)) : std::nullopt;
  }
  const auto* const list = std::get_if<List>(&value.base());
  if (list == nullptr) {
    return std::nullopt;
  }
  return dimensions == 1 ? float_vector(*list, memory) : float_matrix(*list, memory);
}

}  // namespace

// --- TypedFields ---

namespace {

/// The fields of one sample. All functions throw Error (kNotFound if a required field is missing,
/// kInvalidArgument if its content has the wrong type) with the type, the field, its content and
/// the key. An optional field is absent if it is missing or Null.
class TypedFields {
 public:
  /// Both must outlive the object. Converted tensors are stored in `memory`.
  TypedFields(SampleType type, const Sample& sample, BufferAllocator& memory)
      : type_(type), sample_(sample), memory_(memory) {}

  std::string key() const;

  Tensor tensor(std::string_view name) const;
  std::vector<Tensor> tensors(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  SharedBytes bytes(std::string_view name) const;
  const List& list(std::string_view name) const;

  std::optional<std::string> optional_text(std::string_view name) const;
  std::optional<std::vector<std::string>> optional_texts(std::string_view name) const;
  std::optional<std::int64_t> optional_integer(std::string_view name) const;
  std::optional<std::vector<std::int64_t>> optional_integers(std::string_view name) const;
  std::optional<SharedBytes> optional_bytes(std::string_view name) const;
  /// float32 with this number of dimensions, from a tensor of numbers or from lists of them.
  std::optional<Tensor> optional_floats(std::string_view name, std::size_t dimensions) const;
  /// float32 (N, 4 or 5).
  std::optional<Tensor> optional_boxes(std::string_view name) const;

  /// True if there is a value that is not Null.
  bool has(std::string_view name) const;
  /// Throws the Error for a field with content other than `expected`.
  [[noreturn]] void refuse(std::string_view name, std::string_view expected) const;

 private:
  template <class Read>
  auto of_field(std::string_view name, Read read) const;

  SampleType type_;
  const Sample& sample_;
  BufferAllocator& memory_;
};

/// Adds the field, if there is a value.
template <class Field>
void set_if(Sample& sample, std::string_view name, const std::optional<Field>& value) {
  if (value) {
    sample.set(name, *value);
  }
}

/// A list of the items of `values`.
template <class Item>
List list_of(const std::vector<Item>& values) {
  return List(values.begin(), values.end());
}
template <class Item>
void set_if(Sample& sample, std::string_view name, const std::optional<std::vector<Item>>& values) {
  if (values) {
    sample.set(name, list_of(*values));
  }
}

// Adds type, field and key to an Error.
template <class Read>
auto TypedFields::of_field(std::string_view name, Read read) const {
  try {
    return read();
  } catch (const Error& error) {
    ErrorContext context = error.context();
    if (!sample_.keys.empty()) {
      context.sample_key = key();
    }
    throw Error(error.code(),
                fmt::format("field '{}' of {}: {}", name, class_name(type_), error.message()),
                std::move(context));
  }
}

void TypedFields::refuse(std::string_view name, std::string_view expected) const {
  of_field(name, [&] {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("it holds {}, expected {}", describe(sample_.at(name)), expected));
  });
  throw Error(ErrorCode::kInternal, "not reached");
}

bool TypedFields::has(std::string_view name) const {
  const Value* const value = sample_.find(name);
  return value != nullptr && !std::holds_alternative<Null>(value->base());
}

std::string TypedFields::key() const {
  return sample_.keys.empty() ? "" : std::string(sample_.keys.front());
}

Tensor TypedFields::tensor(std::string_view name) const {
  return of_field(name, [&] { return sample_.tensor(name); });
}

std::vector<Tensor> TypedFields::tensors(std::string_view name) const {
  std::vector<Tensor> result;
  for (const Value& item : list(name)) {
    const auto* const tensor = std::get_if<Tensor>(&item.base());
    if (tensor == nullptr) {
      refuse(name,
             fmt::format("a list of images, but item {} is {}", result.size(), describe(item)));
    }
    result.push_back(*tensor);
  }
  return result;
}

std::string TypedFields::text(std::string_view name) const {
  return of_field(name, [&] { return std::string(sample_.text(name)); });
}

std::vector<std::string> TypedFields::texts(std::string_view name) const {
  return of_field(name, [&] {
    const std::vector<std::string_view> views = sample_.text_list(name);
    return std::vector<std::string>(views.begin(), views.end());
  });
}

SharedBytes TypedFields::bytes(std::string_view name) const {
  return of_field(name, [&] { return sample_.bytes(name); });
}

const List& TypedFields::list(std::string_view name) const {
  return *of_field(name, [&] { return &sample_.list(name); });
}

std::optional<std::string> TypedFields::optional_text(std::string_view name) const {
  return has(name) ? std::optional(text(name)) : std::nullopt;
}

std::optional<std::vector<std::string>> TypedFields::optional_texts(std::string_view name) const {
  return has(name) ? std::optional(texts(name)) : std::nullopt;
}

std::optional<std::int64_t> TypedFields::optional_integer(std::string_view name) const {
  if (!has(name)) {
    return std::nullopt;
  }
  return of_field(name, [&] { return sample_.integer(name); });
}

std::optional<std::vector<std::int64_t>> TypedFields::optional_integers(
    std::string_view name) const {
  if (!has(name)) {
    return std::nullopt;
  }
  std::vector<std::int64_t> result;
  for (const Value& item : list(name)) {
    const auto* const integer = std::get_if<std::int64_t>(&item.base());
    if (integer == nullptr) {
      refuse(name, fmt::format("a list of whole numbers, but item {} is {}", result.size(),
                               describe(item)));
    }
    result.push_back(*integer);
  }
  return result;
}

std::optional<SharedBytes> TypedFields::optional_bytes(std::string_view name) const {
  return has(name) ? std::optional(bytes(name)) : std::nullopt;
}

std::optional<Tensor> TypedFields::optional_floats(std::string_view name,
                                                   std::size_t dimensions) const {
  if (!has(name)) {
    return std::nullopt;
  }
  std::optional<Tensor> tensor = float_tensor(sample_.at(name), dimensions, memory_);
  if (!tensor) {
    refuse(name,
           dimensions == 1 ? "a list of numbers" : "a list of lists of numbers, all of one length");
  }
  return tensor;
}

std::optional<Tensor> TypedFields::optional_boxes(std::string_view name) const {
  constexpr std::int64_t kWithoutConfidence = 4;
  constexpr std::int64_t kWithConfidence = 5;
  std::optional<Tensor> boxes = optional_floats(name, 2);
  if (!boxes) {
    return std::nullopt;
  }
  std::int64_t& numbers = boxes->shape[1];
  if (boxes->shape[0] == 0 && numbers == 0) {
    numbers = kWithoutConfidence;  // an empty list
  }
  if (numbers != kWithoutConfidence && numbers != kWithConfidence) {
    refuse(name, fmt::format("boxes of x, y, width, height[, confidence], found {} numbers a box",
                             numbers));
  }
  return boxes;
}

}  // namespace

// --- Structs ---

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

TextSample TextSample::from(const Sample& sample) {
  const TypedFields fields(SampleType::kText, sample, heap_memory());
  return {.key = fields.key(), .text = fields.text("text")};
}

Sample TextSample::to_sample() const {
  Sample sample;
  sample.set("text", text);
  return sample;
}

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

InterleavedSample InterleavedSample::from(const Sample& sample) {
  constexpr std::string_view kField = "sequence";
  const TypedFields fields(SampleType::kInterleaved, sample, heap_memory());
  InterleavedSample result{.key = fields.key()};
  for (const Value& item : fields.list(kField)) {
    if (const auto* const image = std::get_if<Tensor>(&item.base())) {
      result.sequence.emplace_back(*image);
    } else if (const auto* const text = std::get_if<std::string>(&item.base())) {
      result.sequence.emplace_back(*text);
    } else {
      fields.refuse(kField, fmt::format("a list of images and texts, but item {} is {}",
                                        result.sequence.size(), describe(item)));
    }
  }
  return result;
}

Sample InterleavedSample::to_sample() const {
  List list;
  for (const auto& item : sequence) {
    std::visit([&](const auto& value) { list.emplace_back(value); }, item);
  }
  Sample sample;
  sample.set("sequence", std::move(list));
  return sample;
}

SimilarityInterleavedSample SimilarityInterleavedSample::from(const Sample& sample,
                                                              BufferAllocator& memory) {
  const TypedFields fields(SampleType::kSimilarityInterleaved, sample, memory);
  return {.key = fields.key(),
          .images = fields.tensors("images"),
          .texts = fields.texts("texts"),
          .audio = fields.optional_bytes("audio"),
          .video = fields.optional_bytes("video"),
          .similarity_matrix = fields.optional_floats("similarity_matrix", 2),
          .matched_text_indices = fields.optional_integers("matched_text_indices")};
}

Sample SimilarityInterleavedSample::to_sample() const {
  Sample sample;
  sample.set("images", list_of(images));
  sample.set("texts", list_of(texts));
  set_if(sample, "audio", audio);
  set_if(sample, "video", video);
  set_if(sample, "similarity_matrix", similarity_matrix);
  set_if(sample, "matched_text_indices", matched_text_indices);
  return sample;
}

}  // namespace energon
