// ACC-07, ACC-08, ACC-10 and ACC-16: rank 0 reads, and all ranks get their part.

#include <algorithm>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"
#include "protocols/accelerate/dispatch_adapter.h"
#include "protocols/accelerate/loader_registry.h"
#include "protocols/accelerate/shard_adapter.h"
#include "protocols/accelerate/skip_first.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/accelerate/adapter_fixture.h"
#include "tests/protocols/numbered_batches.h"

using energon::Adapter;
using energon::BatchSource;
using energon::Comm;
using energon::DispatchAdapter;
using energon::DispatchOptions;
using energon::Error;
using energon::ErrorCode;
using energon::Sample;
using energon::SavableDataLoaderState;
using energon::SingleProcessComm;
using energon::testing::alone;
using energon::testing::error_of;
using energon::testing::numbered_batch;
using energon::testing::numbered_source;
using energon::testing::run_group;
using energon::testing::ScriptedSource;
using energon::testing::show;
using energon::testing::take;
using energon::testing::Texts;
using energon::testing::texts;

namespace {

std::shared_ptr<BatchSource> on_rank_0(const Comm& comm, std::shared_ptr<BatchSource> source) {
  return comm.rank() == 0 ? std::move(source) : nullptr;
}

// The batches of each rank from [0, count) in batches of `size`, and its report at the end.
Texts dispatch(int ranks, std::int64_t count, std::int64_t size, const DispatchOptions& options) {
  return texts(run_group(ranks, [&](Comm& comm) {
    DispatchAdapter adapter(on_rank_0(comm, numbered_source(count, size)), comm, options);
    std::string text;
    for (int pass = 0; pass < 2; ++pass) {
      std::string batches;
      std::string flags;
      while (const auto batch = adapter.next()) {
        batches += show(*batch);
        flags += adapter.end_of_dataloader() ? "!" : ".";
      }
      const std::string seen =
          fmt::format("{} {} rem {}", batches, flags, adapter.remainder().value_or(-1));
      if (pass == 1 && seen != text) {
        return "the second pass is " + seen;
      }
      text = seen;
    }
    return text;
  }));
}

Sample batch_of_width(std::int64_t width) {
  Sample batch = numbered_batch(std::vector<std::int64_t>{0, 1});
  auto& tensor = std::get<energon::Tensor>(batch.fields[0].second.base());
  const auto memory =
      std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(2 * width));
  tensor.shape = {2, width};
  tensor.data = {std::as_bytes(std::span(*memory)), memory};
  return batch;
}

}  // namespace

TEST_CASE("ACC-07 the parts of each rank, and the rest in the last group",
          "[distributed][acc][fork]") {
  CHECK(dispatch(2, 9, 4, {}) == Texts{"[0,1,2,3][8] .! rem 1", "[4,5,6,7][0] .! rem 1"});
  CHECK(dispatch(4, 9, 4, {}) ==
        Texts{"[0,1,2] ! rem 9", "[3,4,5] ! rem 9", "[6,7,8] ! rem 9", "[0,1,2] ! rem 9"});
  CHECK(dispatch(4, 6, 4, {}) ==
        Texts{"[0,1] ! rem 6", "[2,3] ! rem 6", "[4,5] ! rem 6", "[0,1] ! rem 6"});
  CHECK(dispatch(4, 3, 4, {}) == Texts{"[0] ! rem 3", "[1] ! rem 3", "[2] ! rem 3", "[0] ! rem 3"});
  CHECK(dispatch(2, 7, 2, {}) == Texts{"[0,1][4,5] .! rem 3", "[2,3][6,0] .! rem 3"});
  CHECK(dispatch(2, 10, 4, {.split_batches = true}) ==
        Texts{"[0,1][4,5][8] ..! rem 2", "[2,3][6,7][9] ..! rem 2"});
  CHECK(dispatch(2, 10, 4, {.drop_last = true}) == Texts{"[0,1,2,3] ! rem 8", "[4,5,6,7] ! rem 8"});
  // With fewer samples than ranks, samples are repeated cyclically; accelerate hands out empty
  // batches.
  CHECK(dispatch(4, 1, 4, {}) == Texts(4, "[0] ! rem 1"));
  CHECK(dispatch(3, 2, 1, {}) == Texts{"[0] ! rem 2", "[1] ! rem 2", "[0] ! rem 2"});
  CHECK(dispatch(3, 0, 1, {}) == Texts(3, "  rem -1"));
}

TEST_CASE("dispatched batches are fields, keys and sources of the rank's samples",
          "[distributed][fork]") {
  for (const bool split : {false, true}) {
    CAPTURE(split);
    const auto reports = run_group(3, [&](Comm& comm) {
      auto source =
          std::make_shared<ScriptedSource>([](std::int64_t call) -> std::optional<Sample> {
            if (call > 3) {
              return std::nullopt;
            }
            const std::int64_t first = call * 6;
            Sample batch = numbered_batch(std::vector<std::int64_t>{
                first, first + 1, first + 2, first + 3, first + 4, first + 5});
            batch.place = energon::BatchPlace{.turn = call};
            const auto shard = std::make_shared<energon::SourceShard>();
            shard->shard_name = "a.tar";
            for (std::uint32_t i = 0; i < 6; ++i) {
              batch.sources.push_back({shard, first + i, {}, i});
            }
            return batch;
          });
      DispatchAdapter adapter(on_rank_0(comm, source), comm, {.split_batches = split});
      std::string text;
      while (const auto batch = adapter.next()) {
        text += show(*batch) + std::get<std::string>(batch->at("kind").base());
        text += batch->place ? fmt::format(" of turn {}; ", batch->place->turn) : "; ";
        for (std::size_t i = 0; i < batch->keys.size(); ++i) {
          const auto& origin = source_of(*batch, i);
          if (origin.shard->shard_name != "a.tar" ||
              std::to_string(origin.index_in_shard) != batch->keys[i]) {
            return std::string("wrong source");
          }
        }
      }
      return text;
    });
    if (split) {
      CHECK(reports[1].text == "[2,3]numbers; [8,9]numbers; [14,15]numbers; [20,21]numbers; ");
    } else {
      CHECK(reports[1].text == "[6,7,8,9,10,11]numbers of turn 1; [20,21]numbers; ");
    }
  }
}

TEST_CASE("ACC-08 mismatched batches cannot be dispatched, and every rank learns why",
          "[distributed][acc][fork]") {
  const auto reports = run_group(2, [](Comm& comm) {
    auto source = std::make_shared<ScriptedSource>(
        [](std::int64_t call) { return std::optional(batch_of_width(call == 0 ? 3 : 5)); });
    DispatchAdapter adapter(on_rank_0(comm, source), comm);
    return error_of([&] { adapter.next(); });
  });
  for (const auto& report : reports) {
    CAPTURE(report.text);
    CHECK_THAT(report.text, Catch::Contains("invalid_argument") && Catch::Contains("'number'") &&
                                Catch::Contains("(2, 3)") && Catch::Contains("(2, 5)") &&
                                Catch::Contains("split_batches") &&
                                Catch::Contains("ShardAdapter"));
  }
  // The counterpart of "no device to dispatch to": rank 0 must read, and the other ranks must not.
  SingleProcessComm comm;
  CHECK_THAT(error_of([&] { DispatchAdapter(nullptr, comm); }),
             Catch::Contains("invalid_argument") && Catch::Contains("rank 0 reads for all ranks"));
  CHECK_THAT(
      texts(run_group(2,
                      [](Comm& group) {
                        return error_of([&] { DispatchAdapter(numbered_source(4, 2), group); });
                      }))[1],
      Catch::Contains("only rank 0 reads"));
}

TEST_CASE("ACC-10 gathering over an epoch yields each sample once, in order",
          "[distributed][acc][fork]") {
  // All keys of the ranks, without the repeats that fill up the end, if the loader knows them.
  const auto gather = [](Comm& comm, const std::shared_ptr<Adapter>& source) {
    energon::LoaderRegistry registry;
    energon::RegisteredLoader adapter(source, registry);
    std::vector<std::string> all;
    while (const auto batch = adapter.next()) {
      std::vector<std::string> gathered;
      for (const std::string& part :
           comm.all_gather(fmt::format("{}", fmt::join(batch->keys, "")))) {
        for (const char key : part) {
          gathered.emplace_back(1, key);
        }
      }
      energon::trim_gathered(gathered, *registry.innermost());
      all.insert(all.end(), gathered.begin(), gathered.end());
    }
    return fmt::format("{}", fmt::join(all, ""));
  };
  CHECK(texts(run_group(2, [&](Comm& comm) {
          return gather(comm, std::make_shared<DispatchAdapter>(
                                  on_rank_0(comm, numbered_source(9, 5)), comm));
        })) == Texts(2, "012345678"));
  // For a source without a length the last batch is known, but not the number of repeats in it.
  CHECK(texts(run_group(2, [&](Comm& comm) {
          const auto source = std::make_shared<ScriptedSource>(
              [rank = comm.rank()](std::int64_t call) -> std::optional<Sample> {
                if (call > 0) {
                  return std::nullopt;
                }
                return numbered_batch(rank == 0 ? std::vector<std::int64_t>{0, 1, 2, 3, 4}
                                                : std::vector<std::int64_t>{5, 6, 7, 8, 0});
              });
          return gather(comm, std::make_shared<energon::ShardAdapter>(source));
        })) == Texts(2, "0123456780"));
}

TEST_CASE("a state of a dispatcher is refused under other settings, with all differences",
          "[distributed][fork]") {
  const SavableDataLoaderState state = [] {
    DispatchAdapter adapter(numbered_source(40, 4), alone(), {.drop_last = true});
    take(adapter, 3);
    return adapter.save_state_rank();
  }();
  DispatchAdapter split(numbered_source(40, 4), alone(), {.split_batches = true});
  CHECK_THAT(error_of([&] { split.restore_state_rank(state); }),
             Catch::StartsWith("mismatch") && Catch::Contains("split_batches") &&
                 Catch::Contains("drop_last"));
  CHECK(take(split, 1) == "[0,1,2,3]");
  // The groups of one rank differ from those of two.
  for (const auto& report : run_group(2, [&](Comm& comm) {
         DispatchAdapter adapter(on_rank_0(comm, numbered_source(40, 4)), comm,
                                 {.drop_last = true});
         return comm.rank() == 0 ? error_of([&] { adapter.restore_state_rank(state); })
                                 : std::string("ranks: 1, expected 2");
       })) {
    CHECK_THAT(report.text, Catch::Contains("ranks: 1, expected 2"));
  }
  SavableDataLoaderState without = state;
  without.adapters[0].fields.pop_back();
  DispatchAdapter same(numbered_source(40, 4), alone(), {.drop_last = true});
  CHECK_THAT(error_of([&] { same.restore_state_rank(without); }),
             Catch::Contains("field 'settings' is missing"));
}

TEST_CASE("ACC-16 a dispatcher saved after every batch continues exactly",
          "[distributed][acc][fork]") {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    for (const bool split : {false, true}) {
      CAPTURE(split);
      const auto reports = run_group(ranks, [&](Comm& comm) -> std::string {
        const auto make = [&] {
          return std::make_unique<DispatchAdapter>(on_rank_0(comm, numbered_source(23, 6)), comm,
                                                   DispatchOptions{.split_batches = split});
        };
        const auto whole = make();
        std::vector<std::string> epoch;
        while (const auto batch = whole->next()) {
          epoch.push_back(show(*batch));
        }
        for (std::size_t save_at = 0; save_at <= epoch.size(); ++save_at) {
          const auto first = make();
          take(*first, save_at);
          const SavableDataLoaderState state = first->save_state_rank();
          const bool at_end = save_at == epoch.size();
          if (first->end_of_dataloader() != at_end) {
            return fmt::format("the flag at {} is {}", save_at, !at_end);
          }
          const auto second = make();
          second->restore_state_rank(state);
          if (second->save_state_rank() != state) {
            return fmt::format("a state changes by being restored at {}", save_at);
          }
          if (second->epoch() != (at_end ? 1 : 0)) {
            return fmt::format("the epoch at {} is {}", save_at, second->epoch());
          }
          // After the last batch the state is the end of the epoch: the whole next epoch follows.
          const std::vector<std::string> expected(
              epoch.begin() + static_cast<std::ptrdiff_t>(at_end ? 0 : save_at), epoch.end());
          if (const std::string rest = take(*second);
              rest != fmt::format("{}", fmt::join(expected, " "))) {
            return fmt::format("after {} came {}", save_at, rest);
          }
          if (take(*second) != fmt::format("{}", fmt::join(epoch, " "))) {
            return fmt::format("the epoch after a restore at {} differs", save_at);
          }
        }
        return "exact";
      });
      CHECK(texts(reports) == Texts(static_cast<std::size_t>(ranks), "exact"));
    }
  }
}

TEST_CASE("skipping in a dispatcher continues as if nothing had been skipped",
          "[distributed][fork]") {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    for (const bool split : {false, true}) {
      CAPTURE(split);
      for (const bool drop : {false, true}) {
        CAPTURE(drop);
        const auto reports = run_group(ranks, [&](Comm& comm) -> std::string {
          const auto make = [&] {
            return DispatchAdapter(on_rank_0(comm, numbered_source(40, 6)), comm,
                                   {.split_batches = split, .drop_last = drop});
          };
          DispatchAdapter whole(make());
          Texts epoch;
          while (const auto batch = whole.next()) {
            epoch.push_back(show(*batch));
          }
          const std::string all = fmt::format("{}", fmt::join(epoch, " "));
          for (std::size_t count = 0; count <= epoch.size() + 1; ++count) {
            DispatchAdapter adapter(make());
            const auto passed =
                static_cast<std::size_t>(adapter.skip(static_cast<std::int64_t>(count)));
            if (passed != std::min(count, epoch.size())) {
              return fmt::format("{} of {} skipped", passed, count);
            }
            if (count <= epoch.size()) {
              const Texts rest(epoch.begin() + static_cast<std::ptrdiff_t>(count), epoch.end());
              if (const std::string got = take(adapter);
                  got != fmt::format("{}", fmt::join(rest, " "))) {
                return fmt::format("after {} came {}", count, got);
              }
            }
            if (take(adapter) != all) {
              return fmt::format("the epoch after skipping {} differs", count);
            }
          }
          return "exact";
        });
        CHECK(texts(reports) == Texts(static_cast<std::size_t>(ranks), "exact"));
      }
    }
  }
}

TEST_CASE("groups before the last are never padded", "[distributed][fork]") {
  // Batches of 4, 3, 4, 4, 1, a possible end of a loader with several workers.
  const auto source = [] {
    return std::make_shared<ScriptedSource>([](std::int64_t call) -> std::optional<Sample> {
      const std::vector<std::vector<std::int64_t>> batches = {
          {0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9, 10}, {11, 12, 13, 14}, {15}};
      const auto place = static_cast<std::size_t>(call);
      return place < batches.size() ? std::optional(numbered_batch(batches[place])) : std::nullopt;
    });
  };
  const auto whole = run_group(2, [&](Comm& comm) {
    DispatchAdapter adapter(on_rank_0(comm, source()), comm);
    return take(adapter);
  });
  CHECK(texts(whole) == Texts{"[0,1,2,3] [7,8,9,10] [15]", "[4,5,6] [11,12,13,14] [0]"});
  const auto split = run_group(2, [&](Comm& comm) {
    DispatchAdapter adapter(on_rank_0(comm, source()), comm, {.split_batches = true});
    return take(adapter);
  });
  CHECK(texts(split) == Texts{"[0,1] [4] [7,8] [11,12] [15]", "[2,3] [5,6] [9,10] [13,14] [0]"});
}

TEST_CASE("a failure of the source reaches every rank, and a dead rank ends the others",
          "[distributed][fork]") {
  const auto failing = run_group(3, [](Comm& comm) -> std::string {
    auto source = std::make_shared<ScriptedSource>([](std::int64_t call) -> std::optional<Sample> {
      if (call >= 7) {
        throw Error(ErrorCode::kCorruptData, "a header is damaged", {.path = "shard-3.tar"});
      }
      return numbered_batch(std::vector<std::int64_t>{2 * call, 2 * call + 1});
    });
    DispatchAdapter adapter(on_rank_0(comm, source), comm);
    const std::string before = take(adapter, 2);
    return before + " " + error_of([&] { adapter.next(); });
  });
  for (const auto& report : failing) {
    CAPTURE(report.text);
    CHECK_THAT(report.text, Catch::Contains("corrupt_data: a header is damaged") &&
                                Catch::Contains("shard-3.tar"));
  }
  CHECK_THAT(failing[1].text, Catch::StartsWith("[2,3] [8,9]"));

  const auto dying = run_group(3, [](Comm& comm) -> std::string {
    DispatchAdapter adapter(on_rank_0(comm, numbered_source(1000, 2)), comm);
    for (int step = 0;; ++step) {
      if (comm.rank() == 2 && step == 5) {
        return "left";
      }
      adapter.next();
    }
  });
  CHECK_THAT(dying[0].text,
             Catch::Contains("error worker_died") && Catch::Contains("rank 2 is gone"));
  CHECK_THAT(dying[1].text, Catch::Contains("error worker_died"));
}

TEST_CASE("a group that could not be dealt is in the state that is saved afterwards",
          "[distributed][fork]") {
  for (const std::int64_t leaves_at : {1, 2, 5}) {
    CAPTURE(leaves_at);
    const auto reports = run_group(3, [&](Comm& comm) -> std::string {
      DispatchAdapter adapter(on_rank_0(comm, numbered_source(6000, 2)), comm);
      std::int64_t steps = 0;
      SavableDataLoaderState before = adapter.save_state_rank();
      // Batches sent before the others notice that rank 2 is gone count as handed out.
      while (error_of([&] { adapter.next(); }) == "no error") {
        before = adapter.save_state_rank();
        if (++steps == leaves_at && comm.rank() == 2) {
          return "left";
        }
      }
      if (comm.rank() != 0) {
        return "failed";
      }
      if (adapter.save_state_rank() != before) {
        return "moved";
      }
      // Continued by a job of one rank.
      DispatchAdapter next_job(numbered_source(6000, 2), alone());
      next_job.restore_state_rank(before);
      const std::string next = take(next_job, 1);
      return next == fmt::format("[{},{}]", 6 * steps, 6 * steps + 1) ? "exact" : next;
    });
    CHECK(reports[0].text == "exact");
    CHECK(reports[2].text == "left");
  }
}

TEST_CASE("a state of rank 0 is refused on other ranks, and vice versa", "[distributed][fork]") {
  const auto reports = run_group(2, [](Comm& comm) {
    DispatchAdapter adapter(on_rank_0(comm, numbered_source(8, 2)), comm);
    const SavableDataLoaderState mine = adapter.save_state_rank();
    const auto all = comm.all_gather(energon::encode_loader_state(mine));
    const auto other = energon::decode_loader_state(all[comm.rank() == 0 ? 1 : 0]);
    return error_of([&] { adapter.restore_state_rank(other); });
  });
  for (const auto& report : reports) {
    CAPTURE(report.text);
    CHECK_THAT(report.text,
               Catch::Contains("mismatch") && Catch::Contains("it belongs to a Dispatch"));
  }
}
