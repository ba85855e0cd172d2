// Verbs for tests of stateful loaders.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/stage/dataset.h"
#include "io/error.h"
#include "protocols/indexed_source.h"
#include "protocols/torchdata/stateful_data_loader.h"

namespace energon::testing {

using Dict = nlohmann::ordered_json;
using Batches = std::vector<std::string>;

/// The keys of a batch, joined by commas.
std::string keys_of(const Sample& batch);
/// The rest of the pass, at most `limit` batches. If there are fewer, the end was reported.
Batches take(StatefulDataLoader& loader, std::size_t limit = SIZE_MAX);
/// A whole pass, started here.
Batches pass(StatefulDataLoader& loader);
/// All except the first `count`.
Batches after(const Batches& batches, std::size_t count);

/// The states of the workers in the state of a loader over pipelines.
const Dict& checkpoints(const Dict& dict);

/// The result of writing `dict` as text and reading it.
Dict through_text(const Dict& dict);

/// GrowingDatasets: one of 137 samples without workers; 0, 100 and 37 for three workers; otherwise
/// 20 each. In batches or single.
PipelineFactory uneven_workers(std::optional<std::int64_t> batch_size = std::nullopt);

/// Shuffled batches of four of 100 samples, which end.
PipelineFactory shuffled_batches();

/// A loader over `pipeline` with this number of workers.
std::unique_ptr<StatefulDataLoader> make(PipelineFactory pipeline, int workers,
                                         const StatefulOptions& options = {});
void resume(StatefulDataLoader& loader, const Dict& dict);

/// The code and text of the Error that `call` throws.
std::pair<ErrorCode, std::string> failure_of(const std::function<void()>& call);

/// Map-style data: 100 indices in batches of seven, with their numbers as keys.
std::shared_ptr<IndexedSource> indexed(std::optional<std::uint32_t> shuffle_seed);

/// Process ids of the workers of a loader over pipelines.
std::vector<int> worker_pids(StatefulDataLoader& loader);

/// Counters that forked processes share, all 0 at first.
class SharedCounters {
 public:
  static constexpr std::size_t kCount = 8;
  SharedCounters();
  std::atomic<std::int64_t>& at(std::size_t index) const { return counters_.get()[index]; }

 private:
  std::shared_ptr<std::atomic<std::int64_t>> counters_;
};

}  // namespace energon::testing
