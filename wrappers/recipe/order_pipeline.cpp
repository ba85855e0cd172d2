#include "wrappers/recipe/order_pipeline.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/read/leaf_dataset.h"
#include "io/error.h"

namespace energon {

// --- Leaves of references ---

namespace {

class ReferenceReader final : public LeafReader {
 public:
  explicit ReferenceReader(std::shared_ptr<const LeafDataset> inner) : inner_(std::move(inner)) {}

  void read(std::span<const std::int64_t> indexes, BufferAllocator& /*allocator*/,
            std::vector<Sample>& samples) override {
    samples.resize(samples.size() + indexes.size());
  }
  FailedSample describe(std::int64_t index) override {
    return inner_->open_reader()->describe(index);
  }
  std::optional<std::int64_t> broken_file(std::int64_t /*index*/) override { return std::nullopt; }
  bool needs_file(std::int64_t /*index*/, std::int64_t /*file*/) const override { return false; }

 private:
  const std::shared_ptr<const LeafDataset> inner_;
};

class ReferenceLeaf final : public LeafDataset {
 public:
  explicit ReferenceLeaf(std::shared_ptr<const LeafDataset> inner) : inner_(std::move(inner)) {}

  const std::vector<std::int64_t>& shard_counts() const override { return inner_->shard_counts(); }
  std::int64_t sample_count() const override { return inner_->sample_count(); }
  const std::vector<std::int64_t>& excluded() const override { return inner_->excluded(); }
  Config config() const override { return inner_->config(); }
  std::unique_ptr<LeafReader> open_reader() const override {
    return std::make_unique<ReferenceReader>(inner_);
  }

 private:
  const std::shared_ptr<const LeafDataset> inner_;
};

// A leaf with the same positions and the same configuration as `inner`. Its samples have no keys
// and no fields, but their restore keys refer to the samples of `inner`.
std::shared_ptr<const LeafDataset> reference_leaf(std::shared_ptr<const LeafDataset> inner) {
  return std::make_shared<const ReferenceLeaf>(std::move(inner));
}

}  // namespace

// --- Pipelines ---

namespace {

const MapFunction kUnchanged = [](Sample sample, CallContext&) { return sample; };

/// The stages of a configuration between the order and the end of the epoch.
struct SavedStages {
  TaskEncoder encoder = {};
  bool has_batches = false;
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
};

// Without functions, an order shows where a job stopped, but not which of the samples that it read
// ahead were left out.
void add_batched_map(bool reads_samples, TaskEncoder& encoder) {
  if (!reads_samples) {
    throw Error(ErrorCode::kUnsupported,
                "the state belongs to a pipeline with the stage BatchedMap, which reads samples "
                "ahead: their order does not show which of them were left out. Read them "
                "(replay_pipeline), or ask the program itself (DeliveredItems with its own "
                "pipeline)");
  }
  encoder.encode_samples = [](std::vector<Sample> samples, CallContext&) { return samples; };
}

// `caller` has the decoder and the tokenizer of the caller, if any.
void add_map(const std::string& name, const TaskEncoder& caller, TaskEncoder& encoder) {
  if (name == stage_names::kCook) {
    encoder.cookers = {{.cook = [](Sample crude, CookContext&) { return crude; }}};
    encoder.decoder = caller.decoder;  // decoding and cooking are one stage
  } else if (name == stage_names::kDecode) {
    encoder.decoder = caller.decoder.value_or(SampleDecoderOptions());
  } else if (name == stage_names::kLoadSample) {
    encoder.decoder = caller.decoder;  // the leaves have the function
  } else if (name == stage_names::kTokenize) {
    encoder.tokenizer = caller.tokenizer.value_or(TokenizeOptions{.fields = {}});
  } else if (name == stage_names::kEncodeSample) {
    encoder.encode_sample = kUnchanged;
  } else if (name == stage_names::kPreencodeSample) {
    encoder.preencode_sample = kUnchanged;
  } else if (name == stage_names::kPostencodeSample) {
    encoder.postencode_sample = kUnchanged;
  } else if (name == stage_names::kEncodeBatch) {
    encoder.encode_batch = kUnchanged;
  } else {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the state belongs to a pipeline with a stage '{}', which "
                            "train_pipeline() and val_pipeline() do not have",
                            printable(name)));
  }
}

std::string text_of(const Config& node, const char* member) {
  const auto found = node.find(member);
  return found != node.end() && found->is_string() ? found->get<std::string>() : std::string();
}

SavedStages stages_in(const Config& config, const TaskEncoder& caller, bool reads_samples) {
  SavedStages stages;
  const auto pipeline = config.find("pipeline");
  const Config* node = pipeline != config.end() ? &*pipeline : nullptr;
  while (node != nullptr && node->is_object()) {
    const std::string type = text_of(*node, "type");
    if (type == "ReadSamples") {
      return stages;
    }
    if (type == "Map") {
      add_map(text_of(*node, "name"), caller, stages.encoder);
    } else if (type == "BatchedMap") {
      add_batched_map(reads_samples, stages.encoder);
    } else if (type == "Batch") {
      stages.has_batches = true;
      stages.remainder = text_of(*node, "remainder") == "drop"
                             ? BatchOptions::Remainder::kDrop
                             : BatchOptions::Remainder::kSmallerBatch;
    } else if (type != "Epochize" && type != "Limit" && type != "RepeatEpochs") {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("the state belongs to a pipeline with the stage {}: a function of its "
                      "program decides which samples an item has. Ask the program itself "
                      "(DeliveredItems with its own pipeline), or take the restore keys of "
                      "its debug log (energon get --restore-key)",
                      printable(type)));
    }
    const auto inner = node->find("inner");
    node = inner != node->end() ? &*inner : nullptr;
  }
  throw Error(ErrorCode::kCorruptData,
              "the state's configuration does not belong to a pipeline that reads samples");
}

template <class Options>
void take_stages(const Config& config, const TaskEncoder& caller, bool reads_samples,
                 Options& options) {
  SavedStages stages = stages_in(config, caller, reads_samples);
  options.task_encoder = std::move(stages.encoder);
  options.task_encoder.batch = [](std::span<Sample>) { return Mapping(); };
  options.remainder = stages.remainder;
  if (!stages.has_batches) {
    options.batch_size.reset();
  }
  options.sort_pool_size.reset();
  options.packing_buffer_size.reset();
  options.errors = {};
  options.watchdog.reset();
  options.log_path.clear();
}

// A job may have gone on with another exclusion, at the same place of the order.
void check_not_excluded(const LeafDataset& leaf) {
  if (!leaf.excluded_in_place().empty()) {
    throw Error(ErrorCode::kUnsupported,
                "the order does not show since when a job excludes samples (exclude_files): read "
                "them (replay_pipeline), or ask the program itself (DeliveredItems with its own "
                "pipeline)");
  }
}

PipelineData references_to(PipelineData data) {
  for (PipelineLeaf& leaf : data.leaves) {
    check_not_excluded(*leaf.dataset);
    leaf.dataset = reference_leaf(std::move(leaf.dataset));
    leaf.typed.reset();
    leaf.load = leaf.load ? kUnchanged : nullptr;
    leaf.primary = nullptr;
    leaf.aux.clear();
  }
  return data;
}

template <class Options>
void take_replay(const Config& config, Options& options) {
  const TaskEncoder caller = std::move(options.task_encoder);
  take_stages(config, caller, true, options);
  options.errors.standard = {.action = FailureAction::kSkip, .tolerance = 0};
}

}  // namespace

PipelineFactory order_pipeline(PipelineData data, TrainOptions options, const Config& config) {
  take_stages(config, {}, false, options);
  return train_pipeline(references_to(std::move(data)), std::move(options));
}

PipelineFactory order_pipeline(PipelineData data, ValOptions options, const Config& config) {
  take_stages(config, {}, false, options);
  return val_pipeline(references_to(std::move(data)), std::move(options));
}

PipelineFactory replay_pipeline(PipelineData data, TrainOptions options, const Config& config) {
  take_replay(config, options);
  return train_pipeline(std::move(data), std::move(options));
}

PipelineFactory replay_pipeline(PipelineData data, ValOptions options, const Config& config) {
  take_replay(config, options);
  return val_pipeline(std::move(data), std::move(options));
}

}  // namespace energon
