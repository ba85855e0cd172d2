#include "tests/energon/loader/every_stage.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/order/sharder.h"
#include "energon/order/slice_order.h"
#include "energon/read/jsonl_dataset.h"
#include "io/hash.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/batching/batch_functions.h"
#include "wrappers/batching/group_batch.h"
#include "wrappers/batching/packing.h"
#include "wrappers/batching/sort_pool.h"
#include "wrappers/orders/blend.h"
#include "wrappers/orders/repeat.h"
#include "wrappers/orders/shuffle_buffer.h"
#include "wrappers/stages/batched_map.h"
#include "wrappers/stages/epochs.h"
#include "wrappers/stages/iter_map.h"
#include "wrappers/stages/map.h"
#include "wrappers/stages/read_samples.h"

namespace energon::testing {
namespace {

using Mode = ShuffleOverEpochs::Mode;
using Leaves = std::vector<std::shared_ptr<const LeafDataset>>;

Sample with_draw(Sample sample, CallContext& context) {
  sample.fields.emplace_back("draw", std::int64_t{context.rng()()});
  return sample;
}

// Yields the sample once or twice.
SampleGenerator copies(Sample sample, CallContext& context) {
  const auto count = static_cast<std::int64_t>(1 + context.rng()() % 2);
  return [sample = std::move(sample), count, given = std::int64_t{0}]() mutable {
    if (given == count) {
      return std::optional<Sample>();
    }
    Sample copy;
    copy.keys = sample.keys;
    copy.sources = sample.sources;
    copy.fields = {{"copy", given++}};
    return std::optional(std::move(copy));
  };
}

// Makes three samples of every two.
SampleGenerator three_of_two(Pull pull, CallContext& /*context*/) {
  return [pull = std::move(pull), samples = std::vector<Sample>(),
          given = std::size_t{0}]() mutable -> std::optional<Sample> {
    while (samples.size() < 2) {
      std::optional<Sample> sample = pull();
      if (!sample) {
        break;
      }
      samples.push_back(std::move(*sample));
    }
    if (samples.empty() || given == 3) {
      return std::nullopt;
    }
    Sample output;
    output.fields = {{"output", static_cast<std::int64_t>(given++)}};
    return output;
  };
}

double drawn_cost(const Sample& /*sample*/, CallContext& context) {
  return context.rng().uniform();
}

// Packs of three, as many complete ones as a buffer holds.
std::vector<std::vector<std::size_t>> threes(std::span<const Sample> samples) {
  std::vector<std::vector<std::size_t>> packs;
  for (std::size_t i = 0; i + 3 <= samples.size(); i += 3) {
    packs.push_back({i + 2, i, i + 1});
  }
  return packs;
}

std::vector<Sample> as_they_are(std::vector<Sample> samples, CallContext&) { return samples; }

Mapping pack(std::span<Sample> samples, CallContext& context) {
  return {{"samples", static_cast<std::int64_t>(samples.size())},
          {"draw", std::int64_t{context.rng()()}}};
}

BatchGroup by_first_key(const Sample& sample) {
  const bool is_even = sample.keys.front().back() % 2 == 0;
  return {.group = is_even ? "even" : "odd", .batch_size = is_even ? 2 : 3};
}

class Orders {
 public:
  Orders(const Leaves& leaves, const PipelineContext& context)
      : leaves_(leaves), context_(context) {}

  std::unique_ptr<Order> slices(std::uint32_t leaf, const ShuffleOverEpochs& shuffle,
                                std::vector<std::int64_t> excluded = {}) const {
    const SharderInput input{.shard_counts = leaves_[leaf]->shard_counts(),
                             .logical_shard_count = context_.config.logical_shard_count(),
                             .division = context_.config.effective_division(),
                             .max_samples_per_sequence = 4};
    return std::make_unique<SliceOrder>(
        slice_bounds(input, context_.logical_shard()), std::move(excluded),
        SliceOrderOptions{.shuffle_over_epochs = shuffle,
                          .parallel_slices = shuffle.mode == Mode::kNone ? 1 : 3,
                          .seed = context_.seed(),
                          .leaf = leaf});
  }

  std::unique_ptr<Order> all() const {
    std::vector<std::unique_ptr<Order>> parts;
    parts.push_back(std::make_unique<Repeat>(slices(0, {.epochs = 2}), 1.5));
    std::vector<WeightedOrder> blended;
    blended.push_back({std::make_unique<Repeat>(slices(1, {}), 2.0), 2});
    blended.push_back({slices(2, {}, {3, 30}), 1});
    parts.push_back(std::make_unique<Blend>(std::move(blended), context_.seed()));
    std::vector<SharedOrder> shared;
    shared.push_back({slices(0, {.mode = Mode::kNone}), 3});
    shared.push_back({slices(2, {.mode = Mode::kReplacement}), 1,
                      [](std::int64_t index) { return 1 + index % 2; }});
    parts.push_back(std::make_unique<ShareBlend>(std::move(shared)));
    return std::make_unique<ShuffleBuffer>(std::make_unique<Concat>(std::move(parts)), 9,
                                           context_.seed());
  }

 private:
  const Leaves& leaves_;
  const PipelineContext& context_;
};

std::shared_ptr<const MemoryLeaf> memory_leaf(const std::string& name,
                                              std::vector<std::int64_t> counts) {
  return std::make_shared<const MemoryLeaf>(name, std::move(counts));
}

}  // namespace

PipelineFactory every_stage(std::shared_ptr<const Webdataset> dataset) {
  const Leaves leaves = {memory_leaf("a", {7, 5, 9}), memory_leaf("b", {11}), std::move(dataset)};
  return [leaves](const PipelineContext& context) -> std::unique_ptr<Dataset> {
    const auto stage = [&context](const char* name) {
      return StageOptions{.name = name, .seed = worker_seed(0, context.config.seed_offset)};
    };
    std::unique_ptr<Dataset> stream = std::make_unique<ReadSamples>(
        Orders(leaves, context).all(), leaves, context.memory, stage("read"), context.readers);
    stream = std::make_unique<Map>(std::move(stream), with_draw, stage("map"));
    stream = std::make_unique<BatchedMap>(
        std::move(stream),
        BatchedMapOptions{.function = as_they_are, .samples_per_call = 4, .stage = stage("many")});
    stream = std::make_unique<Filter>(
        std::move(stream), [](const Sample&, CallContext& call) { return call.rng()() % 5 != 0; },
        stage("filter"));
    stream = std::make_unique<FlatMap>(std::move(stream), copies, stage("flat_map"));
    stream = std::make_unique<IterMap>(
        std::move(stream), IterMapOptions{.function = three_of_two, .stage = stage("iter_map")});
    stream = std::make_unique<SortPool>(
        std::move(stream),
        SortPoolOptions{.cost = drawn_cost, .pool_size = 5, .stage = stage("cost")});
    stream = std::make_unique<Packing>(
        std::move(stream),
        PackingOptions{.buffer_size = 8, .select = threes, .postencode = with_draw, .pack = pack});
    stream = std::make_unique<GroupBatch>(
        std::move(stream), GroupBatchOptions{.criterion = by_first_key, .batch_size = 2});
    return std::make_unique<Epochize>(std::move(stream), 6);
  };
}

PipelineFactory batches_in_order(std::shared_ptr<const Webdataset> dataset,
                                 const std::string& jsonl_path) {
  ValOptions options;
  options.task_encoder.encode_sample = MapFunction([](Sample sample, CallContext& context) {
    sample.fields = {{"draw", List{std::int64_t{context.rng()()}}}};
    return sample;
  });
  options.task_encoder.batch = mix_batch();
  options.batch_size = 4;
  options.limit = 17;
  return val_pipeline(
      PipelineData(Leaves{std::make_shared<const JsonlDataset>(jsonl_path, std::nullopt),
                          std::move(dataset)}),
      options);
}

PipelineFactory equal_slices() {
  return train_pipeline(memory_leaf("", std::vector<std::int64_t>(16, 16)));
}

PipelineFactory equal_blend() {
  PipelineData data(Leaves{memory_leaf("a", {9}), memory_leaf("b", {9}), memory_leaf("c", {9}),
                           memory_leaf("d", {9})});
  data.mixing = Mixing::kWeighted;
  return train_pipeline(std::move(data));
}

std::vector<std::string> describe_next(SavableDataLoader& loader, std::size_t count) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < count; ++i) {
    const auto batch = loader.next();
    lines.push_back(batch ? fmt::format("{} key {} content {}", fmt::join(batch->keys, ","),
                                        to_hex(xxh3_64(as_bytes(batch->restore_key.bytes()))),
                                        to_hex(digest(*batch)))
                          : kEpochEnd);
  }
  return lines;
}

}  // namespace energon::testing
