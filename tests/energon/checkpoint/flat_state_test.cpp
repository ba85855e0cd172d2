// States as flat maps: IBM-18, IBM-19.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_forms.h"
#include "io/bytes.h"
#include "io/error.h"
#include "tests/energon/loader/job.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/recipe/pipeline.h"

namespace {

using energon::FlatState;
using energon::PipelineFactory;
using energon::SavableJobState;
using energon::TrainOptions;
using energon::testing::Job;
using energon::testing::MemoryLeaf;

PipelineFactory pipeline() {
  TrainOptions options;
  options.batch_size = 2;
  options.shuffle_buffer_size = 9;
  return energon::train_pipeline(std::shared_ptr<const MemoryLeaf>(std::make_shared<MemoryLeaf>(
                                     "s", std::vector<std::int64_t>{150, 90})),
                                 options);
}

TEST_CASE("IBM-18 twelve ranks find their own states by name, in any order", "[loader][ibm]") {
  // 24 logical shards of 12 ranks: "…/10" sorts before "…/2".
  Job job(pipeline(), {.world_size = 12, .logical_shards = 24});
  job.steps(7);
  const SavableJobState state = job.save();
  FlatState all;
  for (const auto& rank : state.ranks) {
    all.merge(flatten_state(rank));
  }
  CHECK(all.size() == 25);
  CHECK(flatten_state(state).size() == 25);
  for (int rank = 0; rank < 12; ++rank) {
    CAPTURE(rank);
    const auto& expected = state.ranks[static_cast<std::size_t>(rank)];
    CHECK(unflatten_state(all, rank) == expected);
    // A store that returns only the values that the rank stored.
    CHECK(unflatten_state(flatten_state(expected), rank) == expected);
  }
  FlatState torn = all;
  torn.erase("energon/logical_shard/14");
  CHECK(unflatten_state(torn, 3) == state.ranks[3]);
  CHECK_THROWS_WITH(unflatten_state(torn, 2), Catch::Contains("energon/logical_shard/14"));
  CHECK_THROWS_WITH(unflatten_state(all, 12), Catch::Contains("12 ranks"));

  job.steps(1);
  FlatState mixed = all;
  mixed["energon/logical_shard/14"] = flatten_state(job.save())["energon/logical_shard/14"];
  CHECK_THROWS_WITH(unflatten_state(mixed, 2), Catch::Contains("different steps: 7 and 8"));
}

TEST_CASE("IBM-19 a flat map or a file converts no value", "[loader][ibm]") {
  energon::SavableDataLoaderState state;
  state.config = energon::Config{
      {"rank", 0}, {"world_size", 1}, {"num_workers", 0}, {"pipeline", {{"x", 0.1}}}};
  energon::SavableDatasetCheckpoint& shard = state.checkpoints.emplace_back();
  shard.index = 3;
  shard.state =
      energon::State{"Outer",
                     {{"text", std::string("3.0 \xff\0 not a number", 20)},
                      {"table", std::vector<std::int64_t>{1, -2, INT64_MAX, INT64_MIN}},
                      {"one", std::int64_t{1}}},
                     {energon::State{"Inner", {{"generator", std::string(2500, '\x80')}}, {}},
                      energon::State{"Inner", {}, {energon::State{"Leaf", {}, {}}}}}};
  CHECK(unflatten_state(flatten_state(state), 0) == state);
  CHECK(energon::decode_loader_state(energon::encode_loader_state(state)) == state);

  // Stored as one blob and split again, as by a store that knows only sizes.
  const FlatState flat = flatten_state(state);
  std::string blob;
  for (const auto& [name, tensor] : flat) {
    blob += energon::as_text(tensor.data.view);
  }
  FlatState cut;
  std::size_t offset = 0;
  for (const auto& [name, tensor] : flat) {
    const auto text = std::make_shared<const std::string>(
        blob.substr(offset, static_cast<std::size_t>(tensor.shape.at(0))));
    offset += text->size();
    cut[name] = {
        .dtype = tensor.dtype, .shape = tensor.shape, .data = {energon::as_bytes(*text), text}};
  }
  CHECK(unflatten_state(cut, 0) == state);
}

}  // namespace
