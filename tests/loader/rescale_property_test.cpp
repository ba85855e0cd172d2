// Property: with logical shards set by the user the stream of a job does not depend on its layout,
// nor on being saved, rescaled and restored.

#include <random>
#include <span>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/loader/rescale.h"
#include "tests/loader/job.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/pipeline.h"

namespace {

using energon::certificate_of;
using energon::PipelineData;
using energon::PipelineFactory;
using energon::PipelineLeaf;
using energon::TrainOptions;
using energon::testing::Job;
using energon::testing::JobSpec;
using energon::testing::MemoryLeaf;

class Cases {
 public:
  explicit Cases(std::uint32_t seed) : random_(seed) {}

  std::int64_t between(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(random_);
  }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(between(0, std::ssize(values) - 1))];
  }

  // One leaf, or a blend of up to three, by weight or by repetitions.
  PipelineData data(std::int64_t logical_shards) {
    PipelineData data;
    const std::int64_t leaves = between(1, 3);
    for (std::int64_t i = 0; i < leaves; ++i) {
      std::vector<std::int64_t> counts;
      for (std::int64_t shard = between(1, 5); shard > 0; --shard) {
        counts.push_back(between(0, 30));
      }
      counts.push_back(logical_shards * 2);  // each logical shard has some
      PipelineLeaf leaf;
      leaf.dataset = std::make_shared<MemoryLeaf>(std::string(1, static_cast<char>('a' + i)),
                                                  std::move(counts));
      leaf.name = "leaf";
      leaf.length = leaf.dataset->sample_count();
      leaf.weight = static_cast<double>(between(1, 4));
      data.leaves.push_back(std::move(leaf));
    }
    if (leaves > 1) {
      data.mixing = between(0, 1) == 0 ? energon::Mixing::kWeighted : energon::Mixing::kEpochized;
    }
    return data;
  }

  TrainOptions options() {
    TrainOptions options;
    options.batch_size = between(1, 4);
    options.shuffle_buffer_size = one_of<std::int64_t>({0, 0, 5, 20});
    options.parallel_slices = between(1, 4);
    if (between(0, 1) == 0) {
      options.max_samples_per_sequence = between(1, 9);
    }
    if (between(0, 3) == 0) {
      options.packing_buffer_size = between(2, 6);
      options.task_encoder.select_samples_to_pack = pairs;
      options.task_encoder.pack_selected_samples = no_fields;
    }
    return options;
  }

 private:
  // Pairs of neighbours.
  static std::vector<std::vector<std::size_t>> pairs(std::span<const energon::Sample> samples) {
    std::vector<std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (i % 2 == 0) {
        groups.emplace_back();
      }
      groups.back().push_back(i);
    }
    return groups;
  }
  static energon::Mapping no_fields(std::span<energon::Sample> /*samples*/,
                                    energon::CallContext& /*context*/) {
    return {};
  }

  std::mt19937 random_;
};

// The job of `count` logical shards runs on random layouts, one after the other.
void check_case(std::uint32_t seed) {
  Cases cases(seed);
  const auto shards = static_cast<int>(cases.one_of<std::int64_t>({1, 2, 4, 6, 8, 12, 24}));
  const PipelineFactory pipeline = energon::train_pipeline(cases.data(shards), cases.options());
  Job undisturbed(pipeline, {.world_size = 1, .logical_shards = shards});
  std::vector<std::string> expected;
  std::vector<std::string> found;
  std::optional<energon::SavableJobState> state;
  const std::int64_t phases = cases.between(1, 4);
  for (std::int64_t phase = 0; phase < phases; ++phase) {
    std::vector<int> divisors;
    for (int divisor = 1; divisor <= shards; ++divisor) {
      if (shards % divisor == 0) {
        divisors.push_back(divisor);
      }
    }
    const int world_size = cases.one_of(divisors);
    const std::int64_t steps = cases.between(0, 12);
    CAPTURE(seed, shards, phase, world_size, steps);
    Job job(pipeline, {.world_size = world_size, .logical_shards = shards});
    if (state) {
      state = rescale(*state, {.world_size = world_size});
      job.restore(*state);
      REQUIRE(job.save() == *state);
    }
    const auto batches = job.steps(steps);
    found.insert(found.end(), batches.begin(), batches.end());
    const auto undisturbed_batches = undisturbed.steps(steps * world_size);
    expected.insert(expected.end(), undisturbed_batches.begin(), undisturbed_batches.end());
    REQUIRE(found == expected);
    state = job.save();
    REQUIRE(certificate_of(*state) == certificate_of(undisturbed.save()));
  }
}

void check_cases(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t seed = first; seed < last; ++seed) {
    check_case(seed);
  }
}

// 2,000 cases, in parts that run beside each other.
TEST_CASE("A job's stream is the same on any layout, through any rescales: 1", "[rescale]") {
  check_cases(0, 500);
}
TEST_CASE("A job's stream is the same on any layout, through any rescales: 2", "[rescale]") {
  check_cases(500, 1'000);
}
TEST_CASE("A job's stream is the same on any layout, through any rescales: 3", "[rescale]") {
  check_cases(1'000, 1'500);
}
TEST_CASE("A job's stream is the same on any layout, through any rescales: 4", "[rescale]") {
  check_cases(1'500, 2'000);
}

TEST_CASE("A job's stream is the same on any layout: 100,000 cases", "[.][soak]") {
  check_cases(0, 100'000);
}

}  // namespace
