// ACC-09, ACC-13 … ACC-15, ACC-18 and ACC-23: the positions of adapters, over indexed sources and
// over real loaders.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/loader/savable_data_loader.h"
#include "protocols/accelerate/dispatch_adapter.h"
#include "protocols/accelerate/loader_registry.h"
#include "protocols/accelerate/shard_adapter.h"
#include "protocols/accelerate/state_files.h"
#include "protocols/indexed_source.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/accelerate/adapter_fixture.h"
#include "tests/protocols/numbered_batches.h"
#include "tests/support/temp_dir.h"

using energon::Adapter;
using energon::BatchSource;
using energon::Comm;
using energon::DispatchAdapter;
using energon::IndexedOptions;
using energon::IndexedSource;
using energon::LoaderRegistry;
using energon::SavableDataLoaderState;
using energon::ShardAdapter;
using energon::testing::adapt;
using energon::testing::AdapterKind;
using energon::testing::from;
using energon::testing::kAdapterKinds;
using energon::testing::keys;
using energon::testing::numbered_batch;
using energon::testing::numbered_source;
using energon::testing::RealLoaders;
using energon::testing::run_group;
using energon::testing::TempDir;
using energon::testing::Texts;

namespace {

// The state of the source below the adapters.
SavableDataLoaderState innermost(SavableDataLoaderState state) {
  state.adapters.clear();
  return state;
}

}  // namespace

TEST_CASE("ACC-09 the end of an epoch is reported with its last batch, in each pass",
          "[distributed][acc]") {
  for (const AdapterKind kind : kAdapterKinds) {
    CAPTURE(kind);
    for (const bool saving : {false, true}) {
      CAPTURE(saving);
      const auto adapter = adapt(kind, numbered_source(16, 4));
      for (int pass = 0; pass < 2; ++pass) {
        CAPTURE(pass);
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

TEST_CASE("ACC-13 a state in the middle continues with the rest, for all adapters and workers",
          "[distributed][acc][fork]") {
  const RealLoaders loaders;
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const Texts values = keys(*loaders.loader(workers));
    REQUIRE(values.size() >= 16);
    for (const AdapterKind kind : kAdapterKinds) {
      CAPTURE(kind);
      const auto first = adapt(kind, loaders.loader(workers));
      keys(*first, 2);
      const SavableDataLoaderState state = first->save_state_rank();
      CHECK(keys(*first) == from(values, 2));
      const auto second = adapt(kind, loaders.loader(workers));
      second->restore_state_rank(state);
      CHECK(keys(*second) == from(values, 2));
    }
  }
}

TEST_CASE("ACC-14 after the same batches, the source of each adapter has the same state",
          "[distributed][acc][fork]") {
  const RealLoaders loaders;
  for (const int workers : {0, 2}) {
    for (const std::size_t consumed : {0, 1, 7, 15}) {
      CAPTURE(workers, consumed);
      const auto base = loaders.sparse_loader(workers);
      keys(*base, consumed);
      const SavableDataLoaderState expected = base->save_state_rank();
      const Texts rest = keys(*base);
      const auto resumed_base = loaders.sparse_loader(workers);
      resumed_base->restore_state_rank(expected);
      CHECK(keys(*resumed_base) == rest);
      LoaderRegistry registry;
      for (const AdapterKind kind : kAdapterKinds) {
        const auto adapter = adapt(kind, loaders.sparse_loader(workers), registry);
        keys(*adapter, consumed);
        const SavableDataLoaderState state = adapter->save_state_rank();
        // Workers save at different times, so two different states may represent one position.
        if (workers == 0) {
          CHECK(innermost(state) == expected);
        }
        const auto from_innermost = loaders.sparse_loader(workers);
        from_innermost->restore_state_rank(innermost(state));
        CHECK(keys(*from_innermost) == rest);
        CHECK(keys(*adapter) == rest);
        const auto resumed = adapt(kind, loaders.sparse_loader(workers), registry);
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

TEST_CASE("ACC-15 two ranks saved at step 2 continue with the rest, indexed and streamed",
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
              source = loaders.loader(2, rank, ranks);
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
        // Before and after the save, both ranks together delivered each sample once.
        std::map<std::string, int> seen;
        for (const auto& report : reports) {
          std::string key;
          for (const char c : report.text + " ") {
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

TEST_CASE("ACC-18 loading and saving at once returns the loaded state",
          "[distributed][acc][fork]") {
  const RealLoaders loaders;
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    for (const AdapterKind kind : kAdapterKinds) {
      CAPTURE(kind);
      const auto adapter = adapt(kind, loaders.loader(workers));
      keys(*adapter, 3);
      const SavableDataLoaderState state = adapter->save_state_rank();
      const auto fresh = adapt(kind, loaders.loader(workers));
      fresh->restore_state_rank(state);
      CHECK(fresh->save_state_rank() == state);
      const auto used = adapt(kind, loaders.loader(workers));
      keys(*used, 6);
      used->end_of_dataloader();
      used->restore_state_rank(state);
      CHECK(used->save_state_rank() == state);
      CHECK(keys(*used) == keys(*fresh));
    }
  }
}

TEST_CASE(
    "ACC-23 after an adapter's last batch comes the next epoch, after a bare loader's the end",
    "[distributed][acc][fork]") {
  const RealLoaders loaders;
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const auto reference = loaders.loader(workers);
    const Texts first_epoch = keys(*reference);
    const Texts second_epoch = keys(*reference);

    const auto bare = loaders.loader(workers);
    keys(*bare, first_epoch.size());
    const auto bare_resumed = loaders.loader(workers);
    bare_resumed->restore_state_rank(bare->save_state_rank());
    CHECK(keys(*bare_resumed).empty());
    CHECK(keys(*bare_resumed) == second_epoch);

    for (const AdapterKind kind : kAdapterKinds) {
      CAPTURE(kind);
      const auto adapter = adapt(kind, loaders.loader(workers));
      keys(*adapter, first_epoch.size());
      const SavableDataLoaderState state = adapter->save_state_rank();
      const auto resumed = adapt(kind, loaders.loader(workers));
      resumed->restore_state_rank(state);
      CHECK(resumed->epoch() == 1);
      CHECK(keys(*resumed) == second_epoch);
      // Saving has not changed the saved adapter.
      CHECK(keys(*adapter).empty());
      CHECK(keys(*adapter) == second_epoch);
    }
  }
}
