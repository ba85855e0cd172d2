// States of adapters and protocols that earlier programs wrote continue as they did. Files written
// today equal the newest set of golden files (tests/support/golden.h).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/loader/savable_data_loader.h"
#include "protocols/accelerate/dispatch_adapter.h"
#include "protocols/accelerate/shard_adapter.h"
#include "protocols/accelerate/skip_first.h"
#include "protocols/accelerate/state_files.h"
#include "protocols/cerebras/restartable_rank.h"
#include "protocols/cerebras/restartable_stream.h"
#include "protocols/indexed_source.h"
#include "protocols/torchdata/stateful_data_loader.h"
#include "protocols/torchdata/stateless_source.h"
#include "tests/support/golden.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::testing {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

PipelineFactory shuffled_batches() {
  TrainOptions options;
  options.batch_size = 3;
  options.shuffle_buffer_size = 9;
  options.repeat = false;
  return train_pipeline(std::make_shared<const MemoryLeaf>("s", std::vector<std::int64_t>{21, 17}),
                        options);
}

std::shared_ptr<SavableDataLoader> rank_loader() {
  return std::make_shared<SavableDataLoader>(
      shuffled_batches(), LoaderOptions{.worker_config = {.world_size = 1, .logical_shards = 2}});
}

std::string golden_line(const std::optional<Sample>& batch) {
  return batch ? fmt::format("{} key {}", fmt::join(batch->keys, ","), batch->restore_key.text())
               : "end of epoch";
}

template <class Loader>
Lines taken_lines(Loader& loader, std::size_t count) {
  Lines lines;
  for (std::size_t i = 0; i < count; ++i) {
    lines.push_back(golden_line(loader.next()));
  }
  return lines;
}

// Five batches, a save, and the batches that follow; then the states of all sets.
void check_adapter(const std::string& name,
                   const std::function<std::shared_ptr<BatchSource>()>& make) {
  constexpr std::size_t kBefore = 5;
  constexpr std::size_t kAfter = 14;
  const auto source = make();
  taken_lines(*source, kBefore);
  const SavableDataLoaderState state = source->save_state_rank();
  check_golden(name + ".bin", encode_state_file(state, 1, 0));
  check_golden(name + ".json", source_state_to_json(state).dump() + "\n");
  check_golden(name + ".next", taken_lines(*source, kAfter));
  for (const std::string& set : golden_sets()) {
    INFO("set " << set << ", adapter " << name);
    const Lines next = golden_lines(set, name + ".next");
    const auto from_file = make();
    from_file->restore_state_rank(decode_state_file(read_golden(set, name + ".bin"), 1, 0));
    CHECK(taken_lines(*from_file, kAfter) == next);
    const auto from_json = make();
    const Json json = Json::parse(read_golden(set, name + ".json"));
    from_json->restore_state_rank(source_state_from_json(json, "state"));
    CHECK(taken_lines(*from_json, kAfter) == next);
  }
}

std::shared_ptr<BatchSource> indexed_source() {
  const IndexedOptions options{
      .samples = 40, .batch_size = 4, .shuffle_seed = 7, .processes = 2, .process = 1};
  return std::make_shared<IndexedSource>(options, [](std::span<const std::int64_t> indexes) {
    Sample batch;
    for (const std::int64_t index : indexes) {
      batch.keys.push_back(std::to_string(index));
    }
    return batch;
  });
}

std::shared_ptr<BatchSource> stateless_source() {
  return std::make_shared<StatelessSource>([] {
    return [number = 0]() mutable -> std::optional<Sample> {
      Sample sample;
      sample.keys = {std::to_string(number)};
      return number++ < 9 ? std::optional(sample) : std::nullopt;
    };
  });
}

}  // namespace

TEST_CASE("golden: states of adapters continue", "[protocols][golden]") {
  static SingleProcessComm comm;
  check_adapter("shard_of_loader", [] {
    return skip_first_batches(std::make_shared<ShardAdapter>(
                                  rank_loader(), ShardOptions{.even_batches = true, .comm = &comm}),
                              2);
  });
  check_adapter("dispatch", [] { return std::make_shared<DispatchAdapter>(rank_loader(), comm); });
  check_adapter("indexed", indexed_source);
  check_adapter("stateless", stateless_source);
}

TEST_CASE("golden: a state file with adapters continues", "[protocols][golden]") {
  constexpr std::size_t kAfter = 14;
  static SingleProcessComm comm;
  const auto make = [] {
    return skip_first_batches(std::make_shared<ShardAdapter>(
                                  rank_loader(), ShardOptions{.even_batches = true, .comm = &comm}),
                              2);
  };
  const auto source = make();
  taken_lines(*source, 5);
  check_golden("adapters.state", encode_loader_state(source->save_state_rank()));
  check_golden("adapters.next", taken_lines(*source, kAfter));
  const auto resumed = make();
  resumed->restore_state_rank(
      decode_loader_state(read_golden(newest_golden_set(), "adapters.state")));
  CHECK(taken_lines(*resumed, kAfter) == golden_lines(newest_golden_set(), "adapters.next"));
}

TEST_CASE("golden: dictionaries of a stateful loader continue", "[protocols][golden]") {
  constexpr std::size_t kAfter = 10;
  const auto make = [] {
    return std::make_unique<StatefulDataLoader>(shuffled_batches(), LoaderOptions{});
  };
  const auto loader = make();
  loader->iterate();
  taken_lines(*loader, 4);
  check_golden("stateful.json", loader->state_dict().dump() + "\n");
  check_golden("stateful.next", taken_lines(*loader, kAfter));
  for (const std::string& set : golden_sets()) {
    INFO("set " << set);
    const auto resumed = make();
    resumed->load_state_dict(Json::parse(read_golden(set, "stateful.json")));
    resumed->iterate();
    CHECK(taken_lines(*resumed, kAfter) == golden_lines(set, "stateful.next"));
  }
}

TEST_CASE("golden: dictionaries of restartable loaders continue", "[protocols][golden]") {
  constexpr std::size_t kAfter = 10;
  RestartableRank rank(rank_loader());
  taken_lines(rank, 7);
  check_golden("restartable_rank.json",
               rank.aggregate_state_dict(std::vector{rank.state_dict()}).dump() + "\n");
  check_golden("restartable_rank.next", taken_lines(rank, kAfter));

  HeapBufferPool memory;
  const PipelineContext context{.config = {.seed_offset = 5}, .memory = memory};
  RestartableStream stream(context, shuffled_batches());
  taken_lines(stream, 7);
  check_golden("restartable_stream.json",
               stream.aggregate_state_dict(std::vector{stream.state_dict()}).dump() + "\n");
  check_golden("restartable_stream.next", taken_lines(stream, kAfter));

  for (const std::string& set : golden_sets()) {
    INFO("set " << set);
    RestartableRank resumed_rank(rank_loader());
    const Json job = Json::parse(read_golden(set, "restartable_rank.json"));
    resumed_rank.load_state_dict(resumed_rank.deaggregate_state_dict(job, Strictness::kStrict),
                                 Strictness::kStrict);
    CHECK(taken_lines(resumed_rank, kAfter) == golden_lines(set, "restartable_rank.next"));
    RestartableStream resumed(context, shuffled_batches());
    const Json streams = Json::parse(read_golden(set, "restartable_stream.json"));
    resumed.load_state_dict(resumed.deaggregate_state_dict(streams, Strictness::kStrict),
                            Strictness::kStrict);
    CHECK(taken_lines(resumed, kAfter) == golden_lines(set, "restartable_stream.next"));
  }
}

}  // namespace energon::testing
