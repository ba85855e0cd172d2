// ACC-09, ACC-11 … ACC-15, ACC-17 … ACC-21 and ACC-23: shard, dispatcher and skip over indexed
// sources and over real loaders.

#include <signal.h>

#include <algorithm>
#include <map>
#include <set>
#include <type_traits>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/checkpoint/own_position.h"
#include "energon/compat/loader_registry.h"
#include "energon/compat/shared_seed.h"
#include "energon/compat/skip_first.h"
#include "energon/compat/state_files.h"
#include "energon/distributed/dispatch_adapter.h"
#include "energon/distributed/shard_adapter.h"
#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/energon/distributed/numbered_batches.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/pipeline.h"

using energon::Adapter;
using energon::BatchSource;
using energon::Comm;
using energon::DispatchAdapter;
using energon::IndexedOptions;
using energon::IndexedSource;
using energon::LoaderRegistry;
using energon::RegisteredLoader;
using energon::Sample;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::ShardAdapter;
using energon::SingleProcessComm;
using energon::skip_first_batches;
using energon::testing::numbered_batch;
using energon::testing::numbered_dataset;
using energon::testing::numbered_source;
using energon::testing::ProcessCounts;
using energon::testing::run_group;
using energon::testing::ScriptedSource;
using energon::testing::take;
using energon::testing::TempDir;
using energon::testing::texts;

namespace {

using Texts = std::vector<std::string>;

SingleProcessComm& alone() {
  static SingleProcessComm comm;
  return comm;
}

// The three adapters over a source.
enum class Kind { kShard, kDispatch, kSkip };
constexpr Kind kKinds[] = {Kind::kShard, Kind::kDispatch, Kind::kSkip};

std::shared_ptr<Adapter> adapt(Kind kind, std::shared_ptr<BatchSource> source) {
  switch (kind) {
    case Kind::kShard:
      return std::make_shared<ShardAdapter>(std::move(source));
    case Kind::kDispatch:
      return std::make_shared<DispatchAdapter>(std::move(source), alone());
    case Kind::kSkip:
      return skip_first_batches(adapt(Kind::kShard, std::move(source)), 0);
  }
  return nullptr;
}

// The same, on a registry while it is iterated.
std::shared_ptr<RegisteredLoader> adapt(Kind kind, std::shared_ptr<BatchSource> source,
                                        LoaderRegistry& registry) {
  return std::make_shared<RegisteredLoader>(adapt(kind, std::move(source)), registry);
}

// The state of the source below the adapters.
SavableDataLoaderState innermost(SavableDataLoaderState state) {
  state.adapters.clear();
  return state;
}

// Loaders over 64 samples, 16 batches of 4 an epoch, on one of `ranks` ranks.
class RealLoaders {
 public:
  std::shared_ptr<SavableDataLoader> loader(int workers, int rank = 0, int ranks = 1,
                                            std::int64_t seed_offset = 0,
                                            std::int64_t checkpoint_every = 1) const {
    const auto pipeline = energon::train_pipeline(
        dataset_, {.batch_size = 4, .shuffle_buffer_size = 10, .repeat = false});
    return std::make_shared<SavableDataLoader>(
        pipeline, energon::LoaderOptions{.worker_config = {.rank = rank,
                                                           .world_size = ranks,
                                                           .num_workers = workers,
                                                           .seed_offset = seed_offset},
                                         .checkpoint_every_batches = checkpoint_every});
  }
  // Whose states depend on what was delivered only: workers store one at their start.
  std::shared_ptr<SavableDataLoader> sparse_source(int workers) const {
    return loader(workers, 0, 1, 0, 1'000'000'000);
  }
  std::shared_ptr<SavableDataLoader> source(int workers, int rank = 0, int ranks = 1) const {
    return loader(workers, rank, ranks);
  }

 private:
  TempDir folder_;
  std::shared_ptr<const energon::Webdataset> dataset_ = numbered_dataset(folder_, {16, 16, 16, 16});
};

std::string keys_of(const Sample& batch) { return fmt::format("[{}]", fmt::join(batch.keys, ",")); }

// The rest of the epoch, or the next `limit` batches, by key.
Texts keys(BatchSource& source, std::size_t limit = SIZE_MAX) {
  Texts batches;
  while (batches.size() < limit) {
    const auto batch = source.next();
    if (!batch) {
      break;
    }
    batches.push_back(keys_of(*batch));
  }
  return batches;
}

Texts from(const Texts& all, std::size_t begin) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.end()};
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const energon::Error& error) {
    return fmt::format("{}: {}", to_string(error.code()), error.what());
  }
  return "no error";
}

}  // namespace

TEST_CASE("ACC-09 the end of an epoch is told with its last batch, in each pass",
          "[distributed][acc]") {
  for (const Kind kind : kKinds) {
    for (const bool saving : {false, true}) {
      const auto adapter = adapt(kind, numbered_source(16, 4));
      for (int pass = 0; pass < 2; ++pass) {
        std::vector<bool> ends;
        while (adapter->next()) {
          if (saving) {
            adapter->save_state_rank();
          }
          ends.push_back(adapter->end_of_dataloader());
        }
        CHECK(ends == std::vector<bool>{false, false, false, true});
      }
    }
  }
}

TEST_CASE("ACC-11 skipped batches are not read, and only this pass is shorter",
          "[distributed][acc]") {
  for (const Kind kind : kKinds) {
    std::vector<std::int64_t> fetched;
    const auto source = std::make_shared<IndexedSource>(
        IndexedOptions{.samples = 16, .batch_size = 4}, [&](std::span<const std::int64_t> indexes) {
          fetched.insert(fetched.end(), indexes.begin(), indexes.end());
          return numbered_batch(indexes);
        });
    const auto original = adapt(kind, source);
    const auto skipping = skip_first_batches(original, 2);
    CHECK(skipping->size() == 2);
    CHECK(take(*skipping) == "[8,9,10,11] [12,13,14,15]");
    CHECK(*std::min_element(fetched.begin(), fetched.end()) == 8);
    CHECK(skipping->size() == 4);
    CHECK(take(*skipping) == "[0,1,2,3] [4,5,6,7] [8,9,10,11] [12,13,14,15]");
    CHECK(take(*original) == "[0,1,2,3] [4,5,6,7] [8,9,10,11] [12,13,14,15]");
  }
  const auto beyond = skip_first_batches(adapt(Kind::kShard, numbered_source(16, 4)), 9);
  CHECK(beyond->size() == 0);
  CHECK(take(*beyond).empty());
  CHECK(take(*beyond, 1) == "[0,1,2,3]");
  CHECK_THROWS_WITH(skip_first_batches(beyond, -1), Catch::Contains("-1"));
}

TEST_CASE("ACC-12 skipping and resuming keep the number of the epoch", "[distributed][acc]") {
  const auto make = [] {
    return adapt(
        Kind::kShard,
        std::make_shared<IndexedSource>(
            IndexedOptions{.samples = 16, .batch_size = 4, .shuffle_seed = 7}, numbered_batch));
  };
  std::vector<std::string> epochs;
  const auto reference = make();
  for (int epoch = 0; epoch < 5; ++epoch) {
    epochs.push_back(take(*reference));
  }
  CHECK(std::set<std::string>(epochs.begin(), epochs.end()).size() == 5);

  const auto chosen = make();
  chosen->set_epoch(1);
  const auto skipping = skip_first_batches(chosen, 2);
  CHECK(skipping->epoch() == 1);
  const std::string rest = take(*skipping);
  CHECK(epochs[1].substr(epochs[1].size() - rest.size()) == rest);
  CHECK(skipping->epoch() == 2);
  CHECK(take(*skipping) == epochs[2]);

  const auto running = make();
  running->set_epoch(3);
  take(*running, 2);
  CHECK_THROWS_WITH(running->set_epoch(0), Catch::Contains("within an epoch"));
  const auto resumed = make();
  resumed->restore_state_rank(running->save_state_rank());
  CHECK(resumed->epoch() == 3);
  CHECK(take(*resumed) == take(*running));
  CHECK(resumed->epoch() == 4);
  CHECK(take(*resumed) == epochs[4]);
}

TEST_CASE("ACC-13 a state in the middle continues with the rest, for all adapters and workers",
          "[distributed][acc][fork]") {
  const RealLoaders loaders;
  for (const int workers : {0, 2}) {
    const Texts values = keys(*loaders.source(workers));
    REQUIRE(values.size() >= 16);
    for (const Kind kind : kKinds) {
      const auto first = adapt(kind, loaders.source(workers));
      keys(*first, 2);
      const SavableDataLoaderState state = first->save_state_rank();
      CHECK(keys(*first) == from(values, 2));
      const auto second = adapt(kind, loaders.source(workers));
      second->restore_state_rank(state);
      CHECK(keys(*second) == from(values, 2));
    }
  }
}

TEST_CASE("ACC-14 after the same batches the source below each adapter has the same state",
          "[distributed][acc][fork]") {
  const RealLoaders loaders;
  for (const int workers : {0, 2}) {
    for (const std::size_t consumed : {0, 1, 7, 15}) {
      CAPTURE(workers, consumed);
      const auto base = loaders.sparse_source(workers);
      keys(*base, consumed);
      const SavableDataLoaderState expected = base->save_state_rank();
      const Texts rest = keys(*base);
      const auto resumed_base = loaders.sparse_source(workers);
      resumed_base->restore_state_rank(expected);
      CHECK(keys(*resumed_base) == rest);
      LoaderRegistry registry;
      for (const Kind kind : kKinds) {
        const auto adapter = adapt(kind, loaders.sparse_source(workers), registry);
        keys(*adapter, consumed);
        const SavableDataLoaderState state = adapter->save_state_rank();
        // Workers store their state at a moment of their own: the position may be said in two ways.
        if (workers == 0) {
          CHECK(innermost(state) == expected);
        }
        const auto from_innermost = loaders.sparse_source(workers);
        from_innermost->restore_state_rank(innermost(state));
        CHECK(keys(*from_innermost) == rest);
        CHECK(keys(*adapter) == rest);
        const auto resumed = adapt(kind, loaders.sparse_source(workers), registry);
        resumed->restore_state_rank(state);
        if (workers == 0) {
          CHECK(innermost(resumed->save_state_rank()) == expected);
        }
        CHECK(keys(*resumed) == rest);
        CHECK(registry.innermost() == nullptr);
      }
    }
  }
}

TEST_CASE("ACC-15 two ranks saved at step 2 continue with what was left, indexed and streamed",
          "[distributed][acc][fork]") {
  const RealLoaders loaders;
  const TempDir folder;
  for (const bool indexed : {true, false}) {
    for (const bool dispatched : {false, true}) {
      for (const bool by_folder : {false, true}) {
        const auto reports = run_group(2, [&](Comm& comm) -> std::string {
          const auto make = [&]() -> std::shared_ptr<Adapter> {
            const int rank = dispatched ? 0 : comm.rank();
            const int ranks = dispatched ? 1 : 2;
            std::shared_ptr<BatchSource> source;
            if (indexed) {
              source = std::make_shared<IndexedSource>(
                  IndexedOptions{
                      .samples = 64, .batch_size = 4, .processes = ranks, .process = rank},
                  numbered_batch);
            } else {
              source = loaders.source(2, rank, ranks);
            }
            if (!dispatched) {
              return std::make_shared<ShardAdapter>(source);
            }
            return std::make_shared<DispatchAdapter>(comm.rank() == 0 ? source : nullptr, comm);
          };
          const auto first = make();
          const Texts before = keys(*first, 2);
          SavableDataLoaderState state = first->save_state_rank();
          BatchSource* const as_loaders[] = {first.get()};
          if (by_folder) {
            save_states(folder.path(), as_loaders, comm.rank());
          }
          const Texts rest = keys(*first);
          const auto second = make();
          BatchSource* const again[] = {second.get()};
          if (!by_folder) {
            second->restore_state_rank(state);
          } else if (!restore_states(folder.path(), again, comm.rank()).empty()) {
            return "no file";
          }
          const Texts resumed = keys(*second);
          if (resumed != rest) {
            return fmt::format("{} instead of {}", resumed, rest);
          }
          return fmt::format("{} {}", fmt::join(before, " "), fmt::join(resumed, " "));
        });
        // Over both ranks each sample came once, before and after.
        std::map<std::string, int> seen;
        for (const auto& report : reports) {
          std::string key;
          for (const char c : report.text) {
            if (c >= '0' && c <= '9') {
              key += c;
            } else if (!key.empty()) {
              ++seen[key];
              key.clear();
            }
          }
        }
        INFO(reports[0].text);
        CHECK(seen.size() == 64);
        CHECK(std::all_of(seen.begin(), seen.end(),
                          [](const auto& entry) { return entry.second == 1; }));
      }
    }
  }
}

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

  // A loader with workers: adapters start none, and asking them does not either.
  const RealLoaders loaders;
  for (const Kind kind : kKinds) {
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
  for (const Kind kind : kKinds) {
    const auto adapter = adapt(kind, silent);
    adapter->save_state_rank();
    CHECK(silent->calls() == 0);
  }
}

TEST_CASE("ACC-18 loading and saving at once gives what was loaded", "[distributed][acc][fork]") {
  const RealLoaders loaders;
  for (const int workers : {0, 2}) {
    for (const Kind kind : kKinds) {
      const auto adapter = adapt(kind, loaders.source(workers));
      keys(*adapter, 3);
      const SavableDataLoaderState state = adapter->save_state_rank();
      const auto fresh = adapt(kind, loaders.source(workers));
      fresh->restore_state_rank(state);
      CHECK(fresh->save_state_rank() == state);
      const auto used = adapt(kind, loaders.source(workers));
      keys(*used, 6);
      used->end_of_dataloader();
      used->restore_state_rank(state);
      CHECK(used->save_state_rank() == state);
      CHECK(keys(*used) == keys(*fresh));
    }
  }
}

TEST_CASE("ACC-19 who is iterated stands on the stack, and nobody at the end",
          "[distributed][acc]") {
  for (const Kind kind : kKinds) {
    LoaderRegistry registry;
    const auto outer = adapt(kind, numbered_source(16, 4), registry);
    CHECK(registry.size() == 0);
    {
      const energon::Iteration left_early(*outer);
      take(*outer, 2);
      CHECK(registry.size() == 1);
    }
    CHECK(registry.size() == 0);
    outer->end();
    outer->end();
    take(*outer, 1);
    {
      // A validation within training.
      const auto inner = adapt(kind, numbered_source(8, 4), registry);
      Adapter* const training = registry.innermost();
      take(*inner, 1);
      CHECK(registry.size() == 2);
      CHECK(registry.innermost() != training);
      CHECK_FALSE(registry.innermost()->end_of_dataloader());
      take(*inner);
      CHECK(registry.innermost() == training);
      take(*inner, 1);
      CHECK(registry.size() == 2);
      // Dropped in the middle of its second pass.
    }
    CHECK(registry.size() == 1);
    take(*outer);
    CHECK(registry.size() == 0);
  }
}

TEST_CASE("ACC-20 an adapter dropped in the middle ends its workers", "[distributed][acc][fork]") {
  const RealLoaders loaders;
  for (const Kind kind : kKinds) {
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
      CHECK(energon::testing::eventually([&] { return ::kill(pid, 0) != 0; }));
    }
    CHECK(std::chrono::steady_clock::now() - begin <= std::chrono::seconds(2));
    CHECK(watched.expired());
    CHECK(ProcessCounts::settled(before) == before);
  }
}

TEST_CASE("ACC-21 adapters have one owner of their position: they can be neither copied nor moved",
          "[distributed][acc]") {
  // Attribute forwarding and pickling are for the Python package; here the compiler says no.
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<ShardAdapter>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<ShardAdapter>);
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<DispatchAdapter>);
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<energon::SkipFirst>);
  STATIC_REQUIRE_FALSE(std::is_copy_assignable_v<SavableDataLoader>);
  STATIC_REQUIRE_FALSE(std::is_base_of_v<SavableDataLoader, ShardAdapter>);
  STATIC_REQUIRE_FALSE(std::is_base_of_v<SavableDataLoader, DispatchAdapter>);
  // What is asked of a loader is asked of the loader, which stays at hand.
  const RealLoaders loaders;
  const auto source = loaders.source(0);
  const ShardAdapter adapter(source);
  CHECK(source->worker_pids().empty());
}

TEST_CASE("ACC-23 at an adapter's last batch the next epoch follows, at a bare loader's its end",
          "[distributed][acc][fork]") {
  const RealLoaders loaders;
  for (const int workers : {0, 2}) {
    const auto reference = loaders.source(workers);
    const Texts first_epoch = keys(*reference);
    const Texts second_epoch = keys(*reference);

    const auto bare = loaders.source(workers);
    keys(*bare, first_epoch.size());
    const auto bare_resumed = loaders.source(workers);
    bare_resumed->restore_state_rank(bare->save_state_rank());
    CHECK(keys(*bare_resumed).empty());
    CHECK(keys(*bare_resumed) == second_epoch);

    for (const Kind kind : kKinds) {
      const auto adapter = adapt(kind, loaders.source(workers));
      keys(*adapter, first_epoch.size());
      const SavableDataLoaderState state = adapter->save_state_rank();
      const auto resumed = adapt(kind, loaders.source(workers));
      resumed->restore_state_rank(state);
      CHECK(resumed->epoch() == 1);
      CHECK(keys(*resumed) == second_epoch);
      // Having been asked changes nothing for the one who was.
      CHECK(keys(*adapter).empty());
      CHECK(keys(*adapter) == second_epoch);
    }
  }
}

TEST_CASE("ranks end together: with what the longest has, or the shortest", "[distributed][fork]") {
  const auto run = [](bool even, bool drop) {
    return texts(run_group(3, [&](Comm& comm) {
      // 3, 1 and 2 batches.
      const std::int64_t batches = comm.rank() == 0 ? 3 : comm.rank();
      ShardAdapter adapter(numbered_source(2 * batches, 2),
                           {.even_batches = even, .drop_last = drop, .comm = &comm});
      std::string text;
      for (int pass = 0; pass < 2; ++pass) {
        std::string batches_of_pass;
        while (const auto batch = adapter.next()) {
          batches_of_pass +=
              energon::testing::show(*batch) + (adapter.end_of_dataloader() ? "!" : "");
        }
        text += (pass == 0 ? "" : " ") + batches_of_pass;
      }
      return text;
    }));
  };
  CHECK(run(true, false) == Texts{"[0,1][2,3][4,5]! [0,1][2,3][4,5]!",
                                  "[0,1][0,1][0,1]! [0,1][0,1][0,1]!",
                                  "[0,1][2,3][0,1]! [0,1][2,3][0,1]!"});
  CHECK(run(false, true) == Texts{"[0,1]! [0,1]!", "[0,1]! [0,1]!", "[0,1]! [0,1]!"});
}

TEST_CASE("ranks that end together continue exactly from each step", "[distributed][fork]") {
  for (const bool drop : {false, true}) {
    const auto reports = run_group(3, [&](Comm& comm) -> std::string {
      const std::int64_t batches = comm.rank() == 0 ? 4 : comm.rank();
      const auto make = [&] {
        // Shuffled, so that each epoch is another.
        return std::make_unique<ShardAdapter>(
            std::make_shared<IndexedSource>(
                IndexedOptions{.samples = 20 * batches, .batch_size = 20, .shuffle_seed = 1},
                numbered_batch),
            energon::ShardOptions{.even_batches = !drop, .drop_last = drop, .comm = &comm});
      };
      const auto whole = make();
      const Texts epoch = keys(*whole);
      const Texts next_epoch = keys(*whole);
      for (std::size_t save_at = 0; save_at <= epoch.size(); ++save_at) {
        const auto first = make();
        keys(*first, save_at);
        const auto second = make();
        second->restore_state_rank(first->save_state_rank());
        if (save_at < epoch.size() && keys(*second) != from(epoch, save_at)) {
          return fmt::format("differs after {}", save_at);
        }
        if (keys(*second) != next_epoch) {
          return fmt::format("the next epoch differs after {}", save_at);
        }
      }
      return "exact";
    });
    CHECK(texts(reports) == Texts(3, "exact"));
  }
}

TEST_CASE("ranks cannot end together without a comm, a length or a batch", "[distributed][fork]") {
  CHECK_THAT(error_of([] { ShardAdapter(numbered_source(4, 2), {.even_batches = true}); }),
             Catch::Contains("they need a comm"));
  const auto endless = std::make_shared<ScriptedSource>([](std::int64_t call) {
    return std::optional(numbered_batch(std::vector<std::int64_t>{call}));
  });
  ShardAdapter unknown(endless, {.even_batches = true, .comm = &alone()});
  CHECK_THAT(error_of([&] { unknown.next(); }),
             Catch::Contains("rank 0 does not know") && Catch::Contains("virtual_epoch_length"));
  const auto reports = run_group(2, [](Comm& comm) {
    ShardAdapter adapter(numbered_source(2 * comm.rank(), 2),
                         {.even_batches = true, .comm = &comm});
    return error_of([&] { adapter.next(); });
  });
  for (const auto& report : reports) {
    CHECK_THAT(report.text, Catch::Contains("a rank has no batch at all"));
  }
}

TEST_CASE("a state of an indexed source is refused under other options, with all differences",
          "[distributed]") {
  const IndexedOptions options = {
      .samples = 40, .batch_size = 4, .shuffle_seed = 7, .processes = 2, .process = 1};
  IndexedSource source(options, numbered_batch);
  keys(source, 3);
  const SavableDataLoaderState state = source.save_state_rank();
  const auto refused = [&](const IndexedOptions& other) {
    IndexedSource fresh(other, numbered_batch);
    const SavableDataLoaderState start = fresh.save_state_rank();
    try {
      fresh.restore_state_rank(state);
    } catch (const energon::Error& error) {
      CHECK(error.code() == energon::ErrorCode::kMismatch);
      CHECK(fresh.save_state_rank() == start);
      return std::string(error.what());
    }
    return std::string("taken");
  };
  IndexedOptions other = options;
  other.process = 0;  // ranks may share the state of one
  CHECK(refused(other) == "taken");
  other.processes = 4;
  other.batch_size = 2;
  other.shuffle_seed = 8;
  CHECK_THAT(refused(other), Catch::Contains("processes: 2, expected 4") &&
                                 Catch::Contains("batch_size: 4, expected 2") &&
                                 Catch::Contains("shuffle_seed: 7, expected 8"));
  const auto changed = [&](const std::function<void(IndexedOptions&)>& change) {
    IndexedOptions with = options;
    change(with);
    return refused(with);
  };
  CHECK_THAT(changed([](auto& with) { with.samples = 41; }), Catch::Contains("samples: 40"));
  CHECK_THAT(changed([](auto& with) { with.drop_last = true; }), Catch::Contains("drop_last"));
  CHECK_THAT(changed([](auto& with) { with.even_batches = false; }),
             Catch::Contains("even_batches"));
  CHECK_THAT(changed([](auto& with) { with.split_batches = true; }),
             Catch::Contains("split_batches"));
  CHECK_THAT(changed([](auto& with) { with.shuffle_seed.reset(); }),
             Catch::Contains("shuffle_seed"));
  // States of earlier versions do not say.
  SavableDataLoaderState old = state;
  old.streams[0].state->fields.pop_back();
  IndexedSource resumed(options, numbered_batch);
  resumed.restore_state_rank(old);
  CHECK(keys(resumed) == keys(source));
}

TEST_CASE("a state of ranks that end together is refused where they do not", "[distributed]") {
  const auto shard = [](bool even, bool drop) {
    return ShardAdapter(numbered_source(12, 4),
                        {.even_batches = even, .drop_last = drop, .comm = &alone()});
  };
  auto even = shard(true, false);
  even.next();
  const SavableDataLoaderState state = even.save_state_rank();
  auto drop = shard(false, true);
  CHECK_THROWS_WITH(drop.restore_state_rank(state),
                    Catch::Contains("even_batches") && Catch::Contains("drop_last"));
  auto same = shard(true, false);
  same.restore_state_rank(state);
  CHECK(keys(same) == keys(even));
}

TEST_CASE("what fails on one of the ranks that end together reaches the others at once",
          "[distributed][fork]") {
  // A source of which one rank cannot say how much there is.
  class Failing final : public BatchSource {
   public:
    std::optional<Sample> next() override { return std::nullopt; }
    SavableDataLoaderState save_state_rank() override {
      return energon::own_state({"Failing", {}, {}}, {});
    }
    void restore_state_rank(const SavableDataLoaderState& /*state*/) override {}
    std::optional<std::int64_t> size() const override {
      throw energon::Error(energon::ErrorCode::kIo, "the disk is gone");
    }
    std::int64_t epoch() const override { return 0; }
  };
  const auto reports =
      run_group(3,
                [](Comm& comm) -> std::string {
                  std::shared_ptr<BatchSource> source = numbered_source(12, 4);
                  if (comm.rank() == 1) {
                    source = std::make_shared<Failing>();
                  }
                  ShardAdapter adapter(source, {.even_batches = true, .comm = &comm});
                  std::string text;
                  try {
                    adapter.next();
                    text = "went on";
                  } catch (const energon::Error& error) {
                    text = error.what();
                  }
                  comm.barrier();  // and they are still in step
                  return text;
                },
                {.timeout = std::chrono::seconds(60)});
  for (const auto& report : reports) {
    CHECK(report.text == "rank 1: the disk is gone");
    CHECK(report.took < std::chrono::seconds(30));
  }
}

TEST_CASE("what fails on one rank within an epoch reaches the others at the end of that epoch",
          "[distributed][fork]") {
  // Eight batches, of which those from the third on cannot be read: on rank 1.
  const auto source_of = [](const Comm& comm) {
    return std::make_shared<IndexedSource>(
        IndexedOptions{.samples = 32, .batch_size = 4},
        [rank = comm.rank()](std::span<const std::int64_t> indexes) {
          if (rank == 1 && indexes.front() >= 8) {
            throw energon::Error(energon::ErrorCode::kIo, "the disk is gone");
          }
          return numbered_batch(indexes);
        });
  };
  const auto reports =
      run_group(3,
                [&](Comm& comm) -> std::string {
                  const auto source = source_of(comm);
                  ShardAdapter adapter(source, {.even_batches = true, .comm = &comm});
                  const SavableDataLoaderState start = adapter.save_state_rank();
                  std::string text;
                  if (comm.rank() == 1) {
                    text += error_of([&] { keys(adapter); }) + "; ";
                  }
                  text += fmt::format("{} batches; ", comm.rank() == 1 ? 2 : keys(adapter).size());
                  // The meeting, twice: nothing has changed, and they are still in step.
                  text += error_of([&] { adapter.next(); }) + "; ";
                  text += error_of([&] { adapter.next(); }) + "; ";
                  adapter.restore_state_rank(start);
                  return text + fmt::format("{}", fmt::join(keys(adapter, 2), " "));
                },
                {.timeout = std::chrono::seconds(60)});
  const std::string told = "io: rank 1: the disk is gone; io: rank 1: the disk is gone; ";
  const std::string again = "[0,1,2,3] [4,5,6,7]";
  CHECK(reports[0].text == "8 batches; " + told + again);
  CHECK(reports[1].text == "io: the disk is gone; 2 batches; " + told + again);
  CHECK(reports[2].text == "8 batches; " + told + again);
  for (const auto& report : reports) {
    CHECK(report.took < std::chrono::seconds(30));
  }

  // One that ends instead is named as gone, as fast.
  const auto left =
      run_group(3,
                [&](Comm& comm) -> std::string {
                  ShardAdapter adapter(source_of(comm), {.drop_last = true, .comm = &comm});
                  return error_of([&] {
                    keys(adapter);
                    adapter.next();
                  });
                },
                {.timeout = std::chrono::seconds(60)});
  CHECK(left[1].text == "io: the disk is gone");
  for (const int rank : {0, 2}) {
    const auto& report = left[static_cast<std::size_t>(rank)];
    CHECK_THAT(report.text, Catch::StartsWith("worker_died: "));
    CHECK(report.took < std::chrono::seconds(30));
  }
  CHECK_THAT(left[0].text, Catch::Contains("rank 1"));
}

TEST_CASE("ranks that end together have the same data and settings, or none begins",
          "[distributed][fork]") {
  const RealLoaders loaders;
  const auto reports = run_group(2, [&](Comm& comm) -> std::string {
    const auto source = loaders.loader(0, comm.rank(), 2, /*seed_offset=*/comm.rank());
    ShardAdapter adapter(source, {.drop_last = true, .comm = &comm});
    try {
      adapter.next();
      return "began";
    } catch (const energon::Error& error) {
      return error.what();
    }
  });
  for (const auto& report : reports) {
    CHECK_THAT(report.text, Catch::Contains("rank 1: config.seed_offset: 1, expected 0"));
  }
}

TEST_CASE("a registered loader takes off itself, wherever it stands on the stack",
          "[distributed]") {
  LoaderRegistry registry;
  const auto outer = adapt(Kind::kShard, numbered_source(8, 4), registry);
  take(*outer, 1);
  {
    const auto inner = adapt(Kind::kShard, numbered_source(8, 4), registry);
    take(*inner, 1);
    CHECK(registry.innermost() == inner.get());
    outer->end();
    outer->end();
    CHECK(registry.size() == 1);
    CHECK(registry.innermost() == inner.get());
  }
  CHECK(registry.innermost() == nullptr);
}
