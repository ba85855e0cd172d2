#include "energon/compat/energon_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/state/state_json.h"
#include "io/error.h"

namespace energon {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostBatches = std::int64_t{1} << 42;  // as check_loader_state()

std::int64_t batches(const JsonReader& reader) {
  const std::int64_t count = reader.count();
  if (count > kMostBatches) {
    reader.fail("it is more than any job delivers");
  }
  return count;
}

EnergonWorkerState worker_of(const JsonReader& json) {
  EnergonWorkerState worker{.sample_index = batches(json.member("sample_index")),
                            .offset = batches(json.member("offset"))};
  if (const JsonReader tree = json.member("state"); !tree.is_null()) {
    worker.tree = tree.json();
  }
  return worker;
}

EnergonRankState rank_of(const JsonReader& json, const std::string& path) {
  if (json.is_null()) {
    return {.path = path, .is_start = true};
  }
  EnergonRankState rank{.path = path,
                        .has_workers = json.member("has_workers").boolean(),
                        .next_worker_id = json.member("next_worker_id").count()};
  if (const JsonReader size = json.member("micro_batch_size"); !size.is_null()) {
    rank.micro_batch_size = size.count();
    if (*rank.micro_batch_size < 1 || *rank.micro_batch_size > std::numeric_limits<int>::max()) {
      size.fail("a batch has at least one sample and at most 2^31 - 1");
    }
  }
  for (const JsonReader& worker : json.member("workers").elements()) {
    rank.workers.push_back(worker_of(worker));
  }
  const std::int64_t workers = std::ssize(rank.workers);
  if (workers == 0 || (!rank.has_workers && workers != 1)) {
    json.member("workers").fail("a rank has at least one worker, without processes just one");
  }
  if (rank.next_worker_id >= workers) {
    json.member("next_worker_id").fail(fmt::format("there are {} workers", workers));
  }
  return rank;
}

int worker_count(const EnergonRankState& rank) {
  return rank.has_workers ? static_cast<int>(rank.workers.size()) : 0;
}

}  // namespace

std::vector<EnergonRankState> parse_energon_states(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format(
            "the reader of pickles wrote {} bytes that are no JSON: is it run by a Python 3?",
            text.size()));
  }
  check_depth(json, "states");
  const JsonReader states(json, "states");
  if (states.member("version").integer() != 1) {
    states.member("version").fail("expected 1: the reader of pickles is of another version");
  }
  std::vector<EnergonRankState> ranks;
  for (const JsonReader& file : states.member("files").elements()) {
    const std::string& path = file.member("path").text();
    for (const JsonReader& rank : file.member("ranks").elements()) {
      try {
        ranks.push_back(rank_of(rank, path));
      } catch (Error& error) {
        error.with({.path = path});
        throw;
      }
    }
  }
  return ranks;
}

WorkerConfig energon_layout(const std::vector<EnergonRankState>& states, WorkerConfig layout) {
  if (layout.logical_shards) {
    throw Error(ErrorCode::kInvalidArgument,
                "Energon has no logical shards: import the state without logical_shards, then "
                "bring it to another layout with `energon checkpoint rescale`");
  }
  const bool is_one_of_many = states.size() == 1 && layout.world_size > 1;
  if (!is_one_of_many && std::ssize(states) != layout.world_size) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("there are states of {} ranks, the job has {}: give the states of all "
                            "ranks by rank, or that of one with its rank and the world size",
                            states.size(), layout.world_size));
  }
  const auto begun = std::find_if(states.begin(), states.end(),
                                  [](const EnergonRankState& rank) { return !rank.is_start; });
  if (begun == states.end()) {
    return layout;  // nothing was delivered: any number of workers
  }
  layout.num_workers = worker_count(*begun);
  for (const EnergonRankState& rank : states) {
    if (!rank.is_start && worker_count(rank) != layout.num_workers) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("the rank has {} workers, that of {} has {}", worker_count(rank),
                              printable(begun->path), layout.num_workers),
                  {.path = rank.path});
    }
  }
  return layout;
}

}  // namespace energon
