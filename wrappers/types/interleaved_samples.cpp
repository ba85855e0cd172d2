#include "wrappers/types/interleaved_samples.h"

#include <utility>

#include <fmt/format.h>

#include "wrappers/types/typed_fields.h"

namespace energon {

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
