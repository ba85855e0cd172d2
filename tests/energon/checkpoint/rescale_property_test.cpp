// Property: with logical shards set by the user, the stream of a job and its contents depend
// neither on its layout (ranks and workers, even or not) nor on saves, rescales and restores, with
// any stages, with or without an end of the epoch, and with both divisions.

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/checkpoint/rescale.h"
#include "tests/energon/loader/job.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/memory_leaf.h"
#include "tests/support/sanitizer.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/stages/iter_map.h"
#include "wrappers/stages/map.h"

namespace {

using energon::CallContext;
using energon::certificate_of;
using energon::Mapping;
using energon::PipelineData;
using energon::PipelineFactory;
using energon::PipelineLeaf;
using energon::Sample;
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
      counts.push_back(logical_shards * 2);  // each logical shard has samples
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
    options.task_encoder.batch = draws_of;
    // The draws of functions distinguish the right item from one that only has the right keys.
    if (between(0, 3) == 0) {
      options.task_encoder.encode_sample = energon::FlatMapFunction(copies);
    } else {
      options.task_encoder.encode_sample = energon::MapFunction(with_draw);
    }
    if (between(0, 3) == 0) {
      options.packing_buffer_size = between(2, 6);
      options.task_encoder.select_samples_to_pack = pairs;
      options.task_encoder.pack_selected_samples = pack;
      // Packing runs earlier, so encode_sample must be preencode_sample.
      options.task_encoder.preencode_sample = std::exchange(options.task_encoder.encode_sample, {});
    }
    if (between(0, 3) == 0) {
      options.task_encoder.batch_group_criterion = by_first_key;
    }
    return options;
  }

  // Sometimes, a filter or an iter map around all of it.
  PipelineFactory wrapped(PipelineFactory inner) {
    const std::int64_t choice = between(0, 5);
    if (choice > 1) {
      return inner;
    }
    return [inner = std::move(inner),
            choice](const energon::PipelineContext& context) -> std::unique_ptr<energon::Dataset> {
      if (choice == 0) {
        return std::make_unique<energon::Filter>(
            inner(context), [](const Sample&, CallContext& call) { return call.rng()() % 4 != 0; },
            energon::StageOptions{.name = "filter"});
      }
      return std::make_unique<energon::IterMap>(
          inner(context),
          energon::IterMapOptions{.function = three_of_two, .stage = {.name = "iter_map"}});
    };
  }

 private:
  static Sample with_draw(Sample sample, CallContext& context) {
    sample.fields.emplace_back("draw", std::int64_t{context.rng()()});
    return sample;
  }
  // Yields the sample never, once or twice.
  static energon::SampleGenerator copies(Sample sample, CallContext& context) {
    const auto count = static_cast<std::int64_t>(context.rng()() % 3);
    return [sample = std::move(sample), count, given = std::int64_t{0}]() mutable {
      Sample copy = sample;
      copy.fields.emplace_back("draw", given);
      return given++ < count ? std::optional(std::move(copy)) : std::nullopt;
    };
  }
  // Makes three items of every two.
  static energon::SampleGenerator three_of_two(energon::Pull pull, CallContext& /*context*/) {
    return [pull = std::move(pull), items = std::vector<Sample>(),
            given = std::size_t{0}]() mutable -> std::optional<Sample> {
      while (given == 0 && items.size() < 2) {
        std::optional<Sample> item = pull();
        if (!item) {
          break;
        }
        items.push_back(std::move(*item));
      }
      if (items.empty() || given == 3) {
        return std::nullopt;
      }
      return items[given++ % items.size()];
    };
  }
  static Mapping draws_of(std::span<Sample> samples) {
    energon::List draws;
    for (const Sample& sample : samples) {
      draws.push_back(sample.at("draw"));
    }
    return {{"draws", std::move(draws)}};
  }
  static Mapping pack(std::span<Sample> samples, CallContext& context) {
    return {{"draw", std::int64_t{context.rng()()} + static_cast<std::int64_t>(samples.size())}};
  }
  static energon::BatchGroup by_first_key(const Sample& sample) {
    const bool is_even = sample.keys.front().back() % 2 == 0;
    return {.group = is_even ? "even" : "odd", .batch_size = is_even ? 2 : 3};
  }
  // Pairs of neighbors.
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

  std::mt19937 random_;
};

std::vector<int> divisors_of(int count) {
  std::vector<int> divisors;
  for (int divisor = 1; divisor <= count; ++divisor) {
    if (count % divisor == 0) {
      divisors.push_back(divisor);
    }
  }
  return divisors;
}

// A job with several logical shards runs on random layouts of different sizes, one after the other,
// with up to `most_workers` per rank. In the order of the job, its batches equal those of an
// uninterrupted job.
void check_case(std::uint32_t seed, int most_workers) {
  Cases cases(seed);
  const auto shards = static_cast<int>(cases.one_of<std::int64_t>({1, 2, 4, 6, 8, 12, 24}));
  const auto division =
      cases.one_of<energon::Division>({energon::Division::kEven, energon::Division::kEnergon});
  const energon::PipelineData data = cases.data(shards);
  const PipelineFactory pipeline = cases.wrapped(energon::train_pipeline(data, cases.options()));
  JobSpec spec{.logical_shards = shards, .division = division, .shows_contents = true};
  Job undisturbed(pipeline, spec);
  std::vector<std::string> expected;
  std::vector<std::string> found;
  std::optional<energon::SavableJobState> state;
  const std::int64_t phases = cases.between(1, 4);
  for (std::int64_t phase = 0; phase < phases; ++phase) {
    spec.world_size = cases.one_of(divisors_of(shards));
    spec.num_workers =
        static_cast<int>(cases.between(0, std::min(most_workers, shards / spec.world_size)));
    const std::int64_t steps = cases.between(0, 12);
    CAPTURE(seed, shards, phase, spec.world_size, spec.num_workers, steps);
    Job job(pipeline, spec);
    if (state) {
      state = rescale(*state, {.world_size = spec.world_size, .num_workers = spec.num_workers});
      job.restore(*state);
      REQUIRE(job.save() == *state);
    }
    const auto batches = job.steps(steps);
    found.insert(found.end(), batches.begin(), batches.end());
    const auto undisturbed_batches = undisturbed.steps(steps * spec.world_size);
    expected.insert(expected.end(), undisturbed_batches.begin(), undisturbed_batches.end());
    REQUIRE(found == expected);
    state = job.save();
    REQUIRE(certificate_of(*state) == certificate_of(undisturbed.save()));
  }
}

// The batches of each logical shard, in its order.
using ByShard = std::map<std::string, std::vector<std::string>>;

void add(ByShard& by_shard, const std::string& label) {
  by_shard[label.substr(0, label.find(','))].push_back(label);  // "LogicalShard(3"
}

// The same with epochs that end, and with any number of ranks: in each epoch, each logical shard
// delivers the batches of an uninterrupted job, and the epoch ends when all shards have ended.
void check_finite_case(std::uint32_t seed, int most_workers) {
  Cases cases(seed);
  const auto shards = static_cast<int>(cases.between(1, 12));
  energon::PipelineData data = cases.data(shards);
  if (data.mixing == energon::Mixing::kWeighted) {
    data.mixing = energon::Mixing::kEpochized;  // the other option has no end
  }
  TrainOptions options = cases.options();
  options.repeat = false;
  const PipelineFactory pipeline = cases.wrapped(energon::train_pipeline(data, options));
  JobSpec spec{.logical_shards = shards,
               .allow_uneven = true,
               .division = cases.one_of<energon::Division>(
                   {energon::Division::kEven, energon::Division::kEnergon}),
               .shows_contents = true};
  Job undisturbed(pipeline, spec);
  std::optional<Job> job;
  std::set<int> ended;  // ranks that reported the end of this epoch
  const auto change_layout = [&] {
    std::optional<energon::SavableJobState> state;
    if (job) {
      state = job->save();
    }
    spec.world_size = static_cast<int>(cases.between(1, shards));
    spec.num_workers =
        static_cast<int>(cases.between(0, std::min(most_workers, shards / spec.world_size)));
    job.emplace(pipeline, spec);
    if (state) {
      job->restore(rescale(*state, {.world_size = spec.world_size,
                                    .num_workers = spec.num_workers,
                                    .uneven = energon::Uneven::kSpread}));
    }
    ended.clear();
  };
  change_layout();
  for (int epoch = 0; epoch < 3; ++epoch) {
    ByShard expected;
    for (const std::string& label : undisturbed.rest_of_epoch()) {
      add(expected, label);
    }
    ByShard found;
    while (std::ssize(ended) < job->world_size()) {
      CAPTURE(seed, shards, epoch, spec.world_size, spec.num_workers);
      if (cases.between(0, 9) == 0) {
        change_layout();
      }
      for (int rank = 0; rank < job->world_size(); ++rank) {
        if (ended.contains(rank)) {
          continue;
        }
        const std::string label = job->next(rank);
        if (label == energon::testing::kEpochEnd) {
          ended.insert(rank);
        } else {
          add(found, label);
        }
      }
    }
    CAPTURE(seed, shards, epoch);
    REQUIRE(found == expected);
    ended.clear();
  }
}

void check_cases(std::uint32_t first, std::uint32_t last, int most_workers = 0) {
  if (ENERGON_ADDRESS_SANITIZER != 0 || ENERGON_THREAD_SANITIZER != 0) {
    last = first + (last - first) / 5;  // five times as slow, with the same code paths
  }
  for (std::uint32_t seed = first; seed < last; ++seed) {
    check_case(seed, most_workers);
    check_finite_case(seed, most_workers);
  }
}

// 2,000 cases, in parts that run in parallel.
TEST_CASE("A job's stream is the same on any layout, through any rescales: 1", "[rescale]") {
  check_cases(0, 250);
}
TEST_CASE("A job's stream is the same on any layout, through any rescales: 2", "[rescale]") {
  check_cases(250, 500);
}
TEST_CASE("A job's stream is the same on any layout, through any rescales: 3", "[rescale]") {
  check_cases(500, 750);
}
TEST_CASE("A job's stream is the same on any layout, through any rescales: 4", "[rescale]") {
  check_cases(750, 1'000);
}

TEST_CASE("A job's stream is the same on any layout, also with workers", "[rescale][fork]") {
  check_cases(0, 40, 3);
}

TEST_CASE("A job's stream is the same on any layout: 100,000 cases", "[.][soak]") {
  check_cases(0, 100'000);
}

}  // namespace
