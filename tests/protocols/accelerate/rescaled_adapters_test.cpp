// Ranks that end together are merged, rescaled and continued.

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/rescale.h"
#include "io/error.h"
#include "protocols/accelerate/shard_adapter.h"
#include "protocols/accelerate/skip_first.h"
#include "protocols/indexed_source.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/accelerate/adapter_fixture.h"
#include "tests/support/error_of.h"

using energon::BatchSource;
using energon::Comm;
using energon::ErrorCode;
using energon::SavableDataLoaderState;
using energon::SavableJobState;
using energon::SingleProcessComm;
using energon::testing::CommonEnd;
using energon::testing::error_of;
using energon::testing::from;
using energon::testing::keys;
using energon::testing::run_group;
using energon::testing::split;
using energon::testing::Texts;
using energon::testing::texts;
using energon::testing::UnevenLoaders;

namespace {

// The state of a rank, as a string that a forked rank can return.
std::string save(BatchSource& source) { return encode_loader_state(source.save_state_rank()); }

SavableJobState merged(const std::vector<energon::testing::RankReport>& reports) {
  std::vector<SavableDataLoaderState> ranks;
  for (const auto& report : reports) {
    ranks.push_back(energon::decode_loader_state(report.text));
  }
  return merge_states(std::move(ranks));
}

}  // namespace

TEST_CASE("ranks that end together are merged and rescaled at any step, and lose no sample",
          "[protocols][fork]") {
  const UnevenLoaders loaders;
  for (const CommonEnd end : {CommonEnd::kRepeat, CommonEnd::kDrop}) {
    // The whole epoch of three ranks, and its number of steps.
    const auto whole = run_group(3, [&](Comm& comm) {
      return fmt::format("{}", fmt::join(keys(*loaders.ending(comm, end)), " "));
    });
    const auto steps = std::count(whole[0].text.begin(), whole[0].text.end(), ' ') + 1;
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1}, steps / 2, steps - 1, steps}) {
      const auto saved = run_group(3, [&](Comm& comm) {
        const auto source = loaders.ending(comm, end);
        keys(*source, static_cast<std::size_t>(at));
        return save(*source);
      });
      std::multiset<std::string> seen;
      for (const auto& report : whole) {
        const Texts batches = split(report.text, ' ');
        for (std::int64_t step = 0; step < at; ++step) {
          const Texts samples = split(batches[static_cast<std::size_t>(step)], ',');
          seen.insert(samples.begin(), samples.end());
        }
      }
      for (const int ranks : {1, 2, 4}) {
        CAPTURE(static_cast<int>(end), at, ranks);
        const SavableJobState job = rescale(merged(saved), {.world_size = ranks});
        const auto rest = run_group(ranks, [&](Comm& comm) -> std::string {
          const auto source = loaders.ending(comm, end);
          source->restore_state_rank(state_of_rank(job, comm.rank()));
          const Texts epoch = keys(*source);
          const Texts next = keys(*source);
          return fmt::format("{}|{}|{}", epoch.size(), next.size(), fmt::join(epoch, " "));
        });
        std::multiset<std::string> all = seen;
        for (const auto& report : rest) {
          const std::size_t bar = report.text.rfind('|');
          // All ranks have taken the same number of steps, in this epoch and in the next.
          REQUIRE(bar != std::string::npos);
          CHECK(report.text.substr(0, bar) == rest[0].text.substr(0, rest[0].text.rfind('|')));
          for (const std::string& batch : split(report.text.substr(bar + 1), ' ')) {
            const Texts samples = split(batch, ',');
            all.insert(samples.begin(), samples.end());
          }
        }
        const std::set<std::string> once(all.begin(), all.end());
        if (at == steps) {
          continue;  // the rest is the next epoch
        }
        if (end == CommonEnd::kRepeat) {
          CHECK(std::ssize(once) == UnevenLoaders::kSamples);
        } else {
          CHECK(once.size() == all.size());  // none twice
        }
      }
    }
  }
}

TEST_CASE("a rank that repeats batches at the end continues with the next repetition",
          "[protocols][fork]") {
  const UnevenLoaders loaders;
  const auto reports = run_group(3, [&](Comm& comm) -> std::string {
    const Texts epoch = keys(*loaders.ending(comm, CommonEnd::kRepeat));
    for (std::size_t at = epoch.size() - 5; at < epoch.size(); ++at) {
      const auto first = loaders.ending(comm, CommonEnd::kRepeat);
      keys(*first, at);
      const auto second = loaders.ending(comm, CommonEnd::kRepeat);
      second->restore_state_rank(first->save_state_rank());
      const auto third = loaders.ending(comm, CommonEnd::kRepeat);
      const Texts one = keys(*second, 1);
      third->restore_state_rank(second->save_state_rank());
      Texts rest = one;
      if (at + 1 < epoch.size()) {
        for (const std::string& batch : keys(*third)) {
          rest.push_back(batch);
        }
      } else {
        keys(*third);
      }
      if (rest != from(epoch, at)) {
        return fmt::format("at {}: {} instead of {}", at, rest, epoch);
      }
    }
    return "exact";
  });
  CHECK(texts(reports) == Texts(3, "exact"));
}

TEST_CASE("repetitions also continue after a rescale at the end of an epoch", "[protocols][fork]") {
  const UnevenLoaders loaders;
  // Only the first of the three ranks has batches left: one each in logical shards 3, 6 and 9. One
  // of the six ranks gets two of them, so the others repeat two.
  const auto saved = run_group(3, [&](Comm& comm) {
    const auto source = loaders.ending(comm, CommonEnd::kRepeat);
    keys(*source, 21);
    return save(*source);
  });
  const SavableJobState job = rescale(merged(saved), {.world_size = 6});
  const auto reports = run_group(6, [&](Comm& comm) -> std::string {
    const auto begin = [&] {
      auto source = loaders.ending(comm, CommonEnd::kRepeat);
      source->restore_state_rank(state_of_rank(job, comm.rank()));
      return source;
    };
    const Texts epoch = keys(*begin());
    if (epoch.size() < 2) {
      return "too short";
    }
    for (std::size_t at = 1; at < epoch.size(); ++at) {
      const auto first = begin();
      keys(*first, at);
      const auto second = loaders.ending(comm, CommonEnd::kRepeat);
      second->restore_state_rank(first->save_state_rank());
      const Texts rest = keys(*second);
      if (rest != from(epoch, at)) {
        return fmt::format("at {}: {} instead of {}", at, rest, epoch);
      }
    }
    return "exact";
  });
  CHECK(texts(reports) == Texts(6, "exact"));
}

TEST_CASE("adapter states that cannot be rescaled or merged are refused with the reason",
          "[protocols]") {
  const UnevenLoaders loaders;
  SingleProcessComm comm;
  const auto skipping = energon::skip_first_batches(loaders.ending(comm, CommonEnd::kRepeat), 2);
  const SavableJobState job = energon::merge_states({skipping->save_state_rank()});
  CHECK_THAT(error_of([&] { rescale(job, {.world_size = 2}); }, ErrorCode::kUnsupported),
             Catch::Contains("still has 2 batches to skip"));
  energon::IndexedSource indexed({.samples = 8, .batch_size = 2},
                                 [](std::span<const std::int64_t>) { return energon::Sample(); });
  const SavableJobState by_number = energon::merge_states({indexed.save_state_rank()});
  CHECK_THAT(error_of([&] { rescale(by_number, {.world_size = 1}); }, ErrorCode::kUnsupported),
             Catch::Contains("(Indexed)"));

  const auto rank = [&](int number) { return loaders.loader(number, 2)->save_state_rank(); };
  SavableDataLoaderState wrapped = rank(1);
  wrapped.adapters = loaders.ending(comm, CommonEnd::kRepeat)->save_state_rank().adapters;
  CHECK_THAT(error_of(
                 [&] {
                   energon::merge_states({rank(0), wrapped});
                 },
                 ErrorCode::kMismatch),
             Catch::Contains("rank 1: adapters: Shard") && Catch::Contains("expected none"));
}
