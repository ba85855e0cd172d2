// A recipe with blending, packing and an error policy:    recipe METADATASET
//
// Texts of all datasets are packed into sequences of at most 256 bytes; unusable samples are
// skipped and counted.

#include <cstdio>
#include <string>
#include <string_view>

#include "energon/energon.h"

using namespace energon;

constexpr std::int64_t kSequenceLength = 256;

// The caption of an image, or the whole line of a JSONL file.
static Sample cook(Sample crude, CookContext&) {
  const Value* text = crude.find("txt") != nullptr ? crude.find("txt") : crude.find("json");
  if (text == nullptr) {
    throw SkipSample();
  }
  Sample cooked;
  cooked.set("text", *text);
  return cooked;
}

static Mapping pack(std::span<Sample> samples, CallContext&) {
  std::string sequence;
  for (const Sample& sample : samples) {
    sequence += sample.text("text");
  }
  const auto length = static_cast<std::int64_t>(sequence.size());
  return {{"sequence", std::move(sequence)}, {"length", length}};
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: recipe METADATASET\n");
    return 2;
  }
  try {
    TaskEncoder encoder;
    encoder.cookers = {{.cook = cook}};
    encoder.select_samples_to_pack = pack_by_length(
        [](const Sample& sample) { return static_cast<std::int64_t>(sample.text("text").size()); },
        kSequenceLength);
    encoder.pack_selected_samples = pack;
    SavableDataLoader loader(
        train_dataset(argv[1], {.split = "train"},
                      {.task_encoder = encoder,
                       .batch_size = 4,
                       .packing_buffer_size = 50,
                       .shuffle_buffer_size = 100,
                       .virtual_epoch_length = 20,
                       .errors = {.standard = {.action = FailureAction::kSkip}}}),
        {.worker_config = {.num_workers = 2}});
    std::int64_t packs = 0;
    std::int64_t texts = 0;
    std::int64_t bytes = 0;
    while (const auto batch = loader.next()) {
      packs += batch->tensor("length").shape.at(0);  // int64, (packs)
      texts += static_cast<std::int64_t>(batch->keys.size());
      for (const std::string_view sequence : batch->text_list("sequence")) {
        bytes += static_cast<std::int64_t>(sequence.size());
      }
    }
    std::printf("%lld texts in %lld sequences, %.1f %% full\n", static_cast<long long>(texts),
                static_cast<long long>(packs),
                100.0 * static_cast<double>(bytes) / static_cast<double>(packs * kSequenceLength));
    for (const FailureCount& failure : loader.stats().failures) {
      std::printf("left out by %s: %llu of %s\n", failure.stage.c_str(),
                  static_cast<unsigned long long>(failure.samples), failure.shard_name.c_str());
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "recipe: %s\n", error.what());
    return 1;
  }
  return 0;
}
