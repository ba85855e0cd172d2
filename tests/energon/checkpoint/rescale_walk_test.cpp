// Random walks of takes, saves, restores and rescales deliver each key once in every epoch.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "energon/checkpoint/rescale.h"
#include "tests/energon/loader/job.h"
#include "tests/energon/loader/loader_fixture.h"

namespace {

using energon::PipelineFactory;
using energon::SavableJobState;
using energon::TrainOptions;
using energon::testing::in_memory;
using energon::testing::Job;
using energon::testing::JobSpec;
using energon::testing::kEpochEnd;
using energon::testing::one_epoch;

// The same position as `state`, but with the pipeline states of an earlier checkpoint and the
// numbers of batches to skip after them.
SavableJobState with_checkpoints_of(const SavableJobState& earlier, SavableJobState state) {
  for (auto& rank : state.ranks) {
    for (auto& stream : rank.checkpoints) {
      for (const auto& old_rank : earlier.ranks) {
        for (const auto& old : old_rank.checkpoints) {
          if (old.logical_shard == stream.logical_shard) {
            const std::int64_t delivered = stream.index + stream.offset;
            stream.state = old.state;
            stream.index = old.index;
            stream.epoch = old.epoch;
            stream.offset = delivered - old.index;
          }
        }
      }
    }
  }
  return state;
}

TEST_CASE("X-03 each key once per epoch, through takes, saves, rescales and skips",
          "[rescale][cross]") {
  int all_epochs = 0;
  std::int64_t all_skipped = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const std::int64_t samples = 24 + static_cast<std::int64_t>(random() % 40);
    TrainOptions options = one_epoch();
    options.batch_size = 1;
    options.shuffle_buffer_size = random() % 2 == 0 ? 0 : 6;
    const PipelineFactory pipeline = in_memory({samples / 2, samples - samples / 2}, options);
    std::map<std::string, int> times;
    int epochs = 0;
    int ranks = 1;
    std::set<int> ended;  // ranks that reported the end of this epoch
    auto job = std::make_unique<Job>(pipeline, JobSpec{.world_size = 1, .logical_shards = 12});
    SavableJobState checkpoint = job->save();
    const auto restore = [&](const SavableJobState& state) {
      job = std::make_unique<Job>(pipeline, JobSpec{.world_size = ranks, .logical_shards = 12});
      job->restore(state);
    };
    for (int action = 0; action < 40; ++action) {
      CAPTURE(seed, action, ranks);
      switch (random() % 24) {
        case 0:
        case 1: {  // the same layout or another one
          const SavableJobState state = job->save();
          ranks = std::array{1, 2, 3, 4, 6, 12}[random() % 6];
          restore(rescale(state, {.world_size = ranks}));
          ended.clear();
          break;
        }
        case 2:
          restore(job->save());
          break;
        case 3: {  // from an older checkpoint, skipping the batches since then
          const SavableJobState state = with_checkpoints_of(checkpoint, job->save());
          for (const auto& rank : state.ranks) {
            for (const auto& stream : rank.checkpoints) {
              all_skipped += stream.offset;
            }
          }
          restore(state);
          break;
        }
        case 4:
          checkpoint = job->save();
          break;
        default:
          break;
      }
      for (int rank = 0; rank < ranks; ++rank) {
        if (ended.contains(rank)) {
          continue;
        }
        const std::string key = job->next(rank);
        if (key == kEpochEnd) {
          ended.insert(rank);
        } else {
          ++times[key];
        }
      }
      REQUIRE(std::all_of(times.begin(), times.end(), [&](const auto& entry) {
        return entry.second == epochs || entry.second == epochs + 1;
      }));
      if (std::ssize(ended) == ranks) {
        ++epochs;
        ended.clear();
        REQUIRE(std::ssize(times) == samples);
        REQUIRE(std::all_of(times.begin(), times.end(),
                            [&](const auto& entry) { return entry.second == epochs; }));
      }
    }
    all_epochs += epochs;
  }
  CHECK(all_epochs > 300);
  CHECK(all_skipped > 3000);
}

}  // namespace
