// Ranks that end their epochs together, and the failure of one of them.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/checkpoint/loader_state.h"
#include "io/error.h"
#include "protocols/accelerate/shard_adapter.h"
#include "protocols/indexed_source.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/accelerate/adapter_fixture.h"
#include "tests/protocols/numbered_batches.h"

using energon::BatchSource;
using energon::Comm;
using energon::IndexedOptions;
using energon::IndexedSource;
using energon::Sample;
using energon::SavableDataLoaderState;
using energon::ShardAdapter;
using energon::testing::alone;
using energon::testing::error_of;
using energon::testing::from;
using energon::testing::keys;
using energon::testing::numbered_batch;
using energon::testing::numbered_source;
using energon::testing::RealLoaders;
using energon::testing::run_group;
using energon::testing::ScriptedSource;
using energon::testing::show;
using energon::testing::texts;
using energon::testing::Texts;

TEST_CASE("ranks end together, after the longest or the shortest", "[distributed][fork]") {
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
          batches_of_pass += show(*batch) + (adapter.end_of_dataloader() ? "!" : "");
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
    CAPTURE(drop);
    const auto reports = run_group(3, [&](Comm& comm) -> std::string {
      const std::int64_t batches = comm.rank() == 0 ? 4 : comm.rank();
      const auto make = [&] {
        // Shuffled, so that epochs differ.
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
             Catch::Contains("which needs a comm"));
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
    CAPTURE(report.text);
    CHECK_THAT(report.text, Catch::Contains("a rank has no batch to repeat"));
  }
}

TEST_CASE("a state of ranks that end together is refused by ranks that do not", "[distributed]") {
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

TEST_CASE("a failure of one of the ranks that end together reaches the others immediately",
          "[distributed][fork]") {
  // A source whose size() fails.
  class Failing final : public BatchSource {
   public:
    std::optional<Sample> next() override { return std::nullopt; }
    SavableDataLoaderState save_state_rank() override {
      return energon::source_state({"Failing", {}, {}}, {});
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
                  comm.barrier();  // the ranks are still in step
                  return text;
                },
                {.timeout = std::chrono::seconds(60)});
  for (const auto& report : reports) {
    CAPTURE(report.text);
    CHECK(report.text == "rank 1: the disk is gone");
    CHECK(report.took < std::chrono::seconds(30));
  }
}

TEST_CASE("a failure of one rank within an epoch reaches the others at the end of that epoch",
          "[distributed][fork]") {
  // Eight batches. Rank 1 cannot read those from the third on.
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
                  // Two calls of all ranks: both throw the same error, and the ranks stay in step.
                  text += error_of([&] { adapter.next(); }) + "; ";
                  text += error_of([&] { adapter.next(); }) + "; ";
                  adapter.restore_state_rank(start);
                  return text + fmt::format("{}", fmt::join(keys(adapter, 2), " "));
                },
                {.timeout = std::chrono::seconds(60)});
  const std::string told = "io: rank 1: the disk is gone; io: rank 1: the disk is gone; ";
  const std::string again = "0,1,2,3 4,5,6,7";
  CHECK(reports[0].text == "8 batches; " + told + again);
  CHECK(reports[1].text == "io: the disk is gone; 2 batches; " + told + again);
  CHECK(reports[2].text == "8 batches; " + told + again);
  for (const auto& report : reports) {
    CAPTURE(report.text);
    CHECK(report.took < std::chrono::seconds(30));
  }

  // A rank that ends instead is reported as gone, equally fast.
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
    CAPTURE(rank);
    const auto& report = left[static_cast<std::size_t>(rank)];
    CHECK_THAT(report.text, Catch::StartsWith("worker_died: "));
    CHECK(report.took < std::chrono::seconds(30));
  }
  CHECK_THAT(left[0].text, Catch::Contains("rank 1"));
}

TEST_CASE("ranks that end together must have the same data and settings, or none starts",
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
    CAPTURE(report.text);
    CHECK_THAT(report.text, Catch::Contains("rank 1: config.seed_offset: 1, expected 0"));
  }
}
