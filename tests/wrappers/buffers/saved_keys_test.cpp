// Stages that hold samples save their keys. A state with keys of samples that do not exist, or
// belong to another logical shard, is refused when it is restored, whichever stage holds the
// samples.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "energon/stage/dataset.h"
#include "io/byte_codec.h"
#include "io/error.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/batching/group_batch.h"
#include "wrappers/batching/packing.h"
#include "wrappers/batching/sort_pool.h"
#include "wrappers/buffers/combine.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/stages/iter_map.h"
#include "wrappers/stages/map.h"

using energon::CallContext;
using energon::Dataset;
using energon::ErrorCode;
using energon::Packing;
using energon::PackingOptions;
using energon::RestoreKey;
using energon::Sample;
using energon::Stage;
using energon::State;
using energon::StateValue;

namespace {

// A stage, and a change of its state that makes it hold the sample of a key.
struct Holder {
  std::string name;
  std::function<std::unique_ptr<Dataset>(std::unique_ptr<Dataset>)> make;
  std::function<void(State& state, const RestoreKey& key)> hold;
};

void set(State& state, const std::string& name, StateValue value) {
  for (auto& field : state.fields) {
    if (field.first == name) {
      field.second = std::move(value);
      return;
    }
  }
  FAIL("no field " << name);
}

PackingOptions packing() {
  return {.buffer_size = 4,
          .select = energon::SelectFunction(
              [](std::span<const Sample>) { return std::vector<std::vector<std::size_t>>{{0}}; }),
          .pack = energon::PackFunction(
              [](std::span<Sample>, CallContext&) { return energon::Mapping(); })};
}

PackingOptions packing_by_generator() {
  PackingOptions options = packing();
  options.pack = energon::PackGenerator(
      [](std::span<Sample>, CallContext&) -> energon::FieldsGenerator { return nullptr; });
  return options;
}

PackingOptions packing_of_parts() {
  PackingOptions options = packing_by_generator();
  options.select = energon::SelectPartsFunction(
      [](std::span<const Sample>) { return std::vector<std::vector<energon::SelectedPart>>(); });
  return options;
}

PackingOptions packing_with_postencode() {
  PackingOptions options = packing_by_generator();
  options.postencode = [](Sample sample, CallContext&) { return sample; };
  return options;
}

std::function<std::unique_ptr<Dataset>(std::unique_ptr<Dataset>)> packed(PackingOptions options) {
  return [options](std::unique_ptr<Dataset> inner) {
    return std::make_unique<Packing>(std::move(inner), options);
  };
}

void run(State& state, const RestoreKey& key) {
  set(state, "running", RestoreKey::list(Stage::kPacking, {0}, {&key, 1}).bytes());
}

std::vector<Holder> holders() {
  return {
      {"samples that wait for a selection", packed(packing()),
       [](State& state, const RestoreKey& key) {
         set(state, "waiting", energon::encode_keys({&key, 1}));
       }},
      {"selected samples", packed(packing()),
       [](State& state, const RestoreKey& key) {
         set(state, "selected", energon::encode_keys({&key, 1}));
         set(state, "lengths", std::vector<std::int64_t>{1});
       }},
      {"selected parts", packed(packing_of_parts()),
       [](State& state, const RestoreKey& key) {
         const RestoreKey part = RestoreKey::around(Stage::kPacking, {0, 1}, key);
         set(state, "selected", energon::encode_keys({&part, 1}));
         set(state, "lengths", std::vector<std::int64_t>{1});
       }},
      {"samples that packs are made of", packed(packing_by_generator()), run},
      {"parts that packs are made of", packed(packing_of_parts()),
       [](State& state, const RestoreKey& key) {
         run(state, RestoreKey::around(Stage::kPacking, {0, 1}, key));
       }},
      {"encoded samples that packs are made of", packed(packing_with_postencode()),
       [](State& state, const RestoreKey& key) {
         run(state, RestoreKey::around(Stage::kMap, {0}, key));
       }},
      {"a sort pool",
       [](std::unique_ptr<Dataset> inner) {
         return std::make_unique<energon::SortPool>(
             std::move(inner), energon::SortPoolOptions{.cost = [](const Sample&) { return 1.0; }});
       },
       [](State& state, const RestoreKey& key) {
         set(state, "pool", energon::encode_keys({&key, 1}));
       }},
      {"a group",
       [](std::unique_ptr<Dataset> inner) {
         return std::make_unique<energon::GroupBatch>(
             std::move(inner),
             energon::GroupBatchOptions{
                 .criterion = [](const Sample&) { return energon::BatchGroup{.group = "all"}; },
                 .batch_size = 2});
       },
       [](State& state, const RestoreKey& key) {
         energon::ByteWriter buckets;
         buckets.u32(1);
         buckets.text("all");
         buckets.i64(2);
         buckets.text(energon::encode_keys({&key, 1}));
         set(state, "buckets", buckets.take());
       }},
      {"the sample of a flat map",
       [](std::unique_ptr<Dataset> inner) {
         return std::make_unique<energon::FlatMap>(
             std::move(inner),
             [](Sample, CallContext&) -> energon::SampleGenerator { return nullptr; },
             energon::StageOptions{.name = "flat map"});
       },
       [](State& state, const RestoreKey& key) { set(state, "sample", key.bytes()); }},
      {"the samples of an iter map",
       [](std::unique_ptr<Dataset> inner) {
         return std::make_unique<energon::IterMap>(
             std::move(inner),
             energon::IterMapOptions{.function = [](energon::Pull, CallContext&)
                                         -> energon::SampleGenerator { return nullptr; }});
       },
       [](State& state, const RestoreKey& key) {
         set(state, "pulled", energon::encode_keys({&key, 1}));
       }},
  };
}

}  // namespace

TEST_CASE("a state with keys of samples that the logical shard does not have is refused",
          "[wrappers][state]") {
  energon::HeapBufferPool memory;
  const energon::PipelineFactory pipeline = energon::train_pipeline(
      std::make_shared<const energon::testing::MemoryLeaf>("", std::vector<std::int64_t>{30, 25}));
  // The second of two ranks has the samples starting with 28.
  const energon::WorkerConfig rank = {.rank = 1, .world_size = 2};
  for (const Holder& holder : holders()) {
    CAPTURE(holder.name);
    const auto stage = holder.make(pipeline({.config = rank, .local_index = 0, .memory = memory}));
    const auto restored = [&](std::int64_t leaf, std::int64_t index) {
      State state = stage->save_state();
      holder.hold(state, RestoreKey::leaf(Stage::kWebdataset, {leaf, index}));
      return energon::testing::error_of([&] { stage->restore_state(state); }, ErrorCode::kMismatch);
    };
    CHECK(restored(0, 28) == "no error");
    CHECK(restored(0, 54) == "no error");
    CHECK_THAT(restored(0, 55), Catch::Contains("leaf 0 has 55 samples"));
    CHECK_THAT(restored(1, 30), Catch::Contains("refers to leaf 1"));
    CHECK_THAT(restored(0, 27),
               Catch::Contains("sample 27 of leaf 0, which does not belong to this logical shard"));
  }
}
