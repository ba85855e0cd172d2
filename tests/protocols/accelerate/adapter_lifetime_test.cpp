// ACC-17, ACC-20 and ACC-21: objects that adapters start, own and end.

#include <signal.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/loader/savable_data_loader.h"
#include "protocols/accelerate/dispatch_adapter.h"
#include "protocols/accelerate/shard_adapter.h"
#include "protocols/accelerate/skip_first.h"
#include "protocols/indexed_source.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/protocols/accelerate/adapter_fixture.h"
#include "tests/protocols/numbered_batches.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/pipeline.h"

using energon::Comm;
using energon::DispatchAdapter;
using energon::Sample;
using energon::SavableDataLoader;
using energon::ShardAdapter;
using energon::testing::adapt;
using energon::testing::AdapterKind;
using energon::testing::eventually;
using energon::testing::kAdapterKinds;
using energon::testing::keys;
using energon::testing::numbered_dataset;
using energon::testing::ProcessCounts;
using energon::testing::RealLoaders;
using energon::testing::run_group;
using energon::testing::ScriptedSource;
using energon::testing::TempDir;

TEST_CASE("ACC-17 ranks whose seeds differ agree on one, and constructing starts and draws nothing",
          "[distributed][acc][fork]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {32, 32, 32});
  const auto reports = run_group(2, [&](Comm& comm) -> std::string {
    const std::uint32_t own = 1000U * (1U + static_cast<unsigned>(comm.rank()));
    const std::uint32_t seed = energon::shared_seed(comm, own);
    for (const std::string& other : comm.all_gather(std::to_string(seed))) {
      if (other != std::to_string(seed)) {
        return "the seeds differ";
      }
    }
    const auto loader = std::make_shared<SavableDataLoader>(
        energon::train_pipeline(dataset,
                                {.batch_size = 4, .shuffle_buffer_size = 10, .repeat = false}),
        energon::LoaderOptions{
            .worker_config = {
                .rank = comm.rank(), .world_size = 2, .num_workers = 2, .seed_offset = seed}});
    ShardAdapter adapter(loader);
    if (!loader->worker_pids().empty()) {
      return "constructing started workers";
    }
    std::string all;
    while (const auto batch = adapter.next()) {
      all += fmt::format("{} ", fmt::join(batch->keys, " "));
    }
    return all;
  });
  std::multiset<std::string> seen;
  for (const auto& report : reports) {
    std::istringstream words(report.text);
    for (std::string word; words >> word;) {
      seen.insert(word);
    }
  }
  CHECK(seen.size() == 96);
  CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 96);

  // Neither adapters nor queries to them start the workers of a loader.
  const RealLoaders loaders;
  for (const AdapterKind kind : kAdapterKinds) {
    CAPTURE(kind);
    const auto loader = loaders.loader(2);
    const auto adapter = adapt(kind, loader);
    CHECK(loader->worker_pids().empty());
    CHECK_FALSE(adapter->end_of_dataloader());
    adapter->save_state_rank();
    CHECK(loader->worker_pids().empty());
    adapter->next();
    CHECK(loader->worker_pids().size() == 2);
  }
  const auto silent = std::make_shared<ScriptedSource>(
      [](std::int64_t) -> std::optional<Sample> { return std::nullopt; });
  for (const AdapterKind kind : kAdapterKinds) {
    CAPTURE(kind);
    const auto adapter = adapt(kind, silent);
    adapter->save_state_rank();
    CHECK(silent->calls() == 0);
  }
}

TEST_CASE("ACC-20 an adapter dropped in the middle ends its workers", "[distributed][acc][fork]") {
  const RealLoaders loaders;
  for (const AdapterKind kind : kAdapterKinds) {
    CAPTURE(kind);
    const auto before = ProcessCounts::now();
    auto loader = loaders.loader(2);
    const std::weak_ptr<SavableDataLoader> watched = loader;
    auto adapter = adapt(kind, std::move(loader));
    keys(*adapter, 3);
    adapter->end_of_dataloader();
    const std::vector<int> workers = watched.lock()->worker_pids();
    REQUIRE(workers.size() == 2);
    CHECK(ProcessCounts::now().descriptors > before.descriptors);
    const auto begin = std::chrono::steady_clock::now();
    adapter.reset();
    for (const int pid : workers) {
      CAPTURE(pid);
      CHECK(eventually([&] { return ::kill(pid, 0) != 0; }));
    }
    CHECK(std::chrono::steady_clock::now() - begin <= std::chrono::seconds(2));
    CHECK(watched.expired());
    CHECK(ProcessCounts::settled(before) == before);
  }
}

TEST_CASE("ACC-21 adapters have one owner of their position: they can be neither copied nor moved",
          "[distributed][acc]") {
  // In Python, this concerns attribute forwarding and pickling; in C++, the compiler refuses
  // copies.
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<ShardAdapter>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<ShardAdapter>);
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<DispatchAdapter>);
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<energon::SkipFirst>);
  STATIC_REQUIRE_FALSE(std::is_copy_assignable_v<SavableDataLoader>);
  STATIC_REQUIRE_FALSE(std::is_base_of_v<SavableDataLoader, ShardAdapter>);
  STATIC_REQUIRE_FALSE(std::is_base_of_v<SavableDataLoader, DispatchAdapter>);
  // Functions that only a loader has are called on the loader itself.
  const RealLoaders loaders;
  const auto source = loaders.loader(0);
  const ShardAdapter adapter(source);
  CHECK(source->worker_pids().empty());
}
