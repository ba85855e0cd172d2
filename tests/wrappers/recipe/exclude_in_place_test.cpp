// Samples that are excluded in place: the order draws them, the reader leaves them out, and all
// others keep their places. So a job may go on with another exclusion.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/loader/savable_data_loader.h"
#include "energon/read/jsonl_dataset.h"
#include "io/error.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/recipe/delivered_samples.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/order_pipeline.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::testing {
namespace {

using Names = std::vector<std::string>;
using Excluded = std::set<std::string>;

// Excludes the samples with these keys in place.
class ExcludingLeaf final : public LeafDataset {
 public:
  ExcludingLeaf(std::string name, const std::vector<std::int64_t>& counts, const Excluded& keys)
      : inner_(std::make_shared<MemoryLeaf>(name, counts)) {
    for (std::int64_t i = 0; i < inner_->sample_count(); ++i) {
      if (keys.contains(name + std::to_string(i))) {
        excluded_.push_back(i);
      }
    }
  }

  const std::vector<std::int64_t>& shard_counts() const override { return inner_->shard_counts(); }
  std::int64_t sample_count() const override { return inner_->sample_count(); }
  const std::vector<std::int64_t>& excluded() const override { return inner_->excluded(); }
  const std::vector<std::int64_t>& excluded_in_place() const override { return excluded_; }
  Config config() const override { return inner_->config(); }
  std::unique_ptr<LeafReader> open_reader() const override { return inner_->open_reader(); }

 private:
  const std::shared_ptr<const LeafDataset> inner_;
  std::vector<std::int64_t> excluded_;
};

std::int64_t draw(std::mt19937& random, std::int64_t first, std::int64_t last) {
  return first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(last - first + 1));
}

// A random blend, order, layout and stage.
class RandomPipeline {
 public:
  enum class Kind : std::uint8_t { kNone, kBatches, kFlatMap, kCalls, kSortPool, kPacks };

  RandomPipeline(std::uint32_t seed, Kind stage, bool is_endless = false) {
    std::mt19937 random(seed);
    for (std::int64_t leaf = draw(random, 1, 3); leaf > 0; --leaf) {
      counts_.push_back({draw(random, 8, 20), draw(random, 8, 20), draw(random, 8, 20)});
    }
    is_weighted_ = counts_.size() > 1 && random() % 2 == 0;
    // Held samples are known only if each comes once.
    options_.repeat =
        is_endless || (stage < Kind::kSortPool && (is_weighted_ || random() % 2 == 0));
    is_weighted_ = is_weighted_ && options_.repeat;
    options_.shuffle_buffer_size = draw(random, 0, 12);
    options_.parallel_slices = draw(random, 1, 4);
    if (options_.repeat && random() % 3 == 0) {
      options_.shuffle_over_epochs = {.mode = ShuffleOverEpochs::Mode::kReplacement};
    }
    layout_ = {.rank = 0, .world_size = 2, .num_workers = 0};
    if (random() % 2 == 0) {
      layout_.logical_shards = 4;
    }
    options_.task_encoder.batch = [](std::span<Sample>) { return Mapping(); };
    options_.batch_size = stage == Kind::kNone ? std::nullopt : std::optional(draw(random, 1, 4));
    if (stage == Kind::kFlatMap) {  // one or two outputs
      held_ = 1;
      options_.task_encoder.encode_sample = [](Sample sample, CallContext&) {
        const int count = sample.keys.front().back() % 2 + 1;
        return [sample = std::move(sample), left = count]() mutable -> std::optional<Sample> {
          return left-- > 0 ? std::optional(sample) : std::nullopt;
        };
      };
    } else if (stage == Kind::kCalls) {
      options_.samples_per_call = 5;
      options_.task_encoder.encode_samples = [](std::vector<Sample> samples, CallContext&) {
        return samples;
      };
    } else if (stage == Kind::kSortPool) {
      options_.sort_pool_size = held_ = 5;
      options_.task_encoder.cost = [](const Sample&) { return 1.0; };
    } else if (stage == Kind::kPacks) {
      options_.packing_buffer_size = held_ = 6;
      options_.task_encoder.select_samples_to_pack = [](std::span<const Sample> samples) {
        std::vector<std::vector<std::size_t>> packs;
        for (std::size_t i = 0; i < samples.size(); ++i) {
          i % 2 == 0 ? packs.push_back({i}) : packs.back().push_back(i);
        }
        return packs;
      };
      options_.task_encoder.pack_selected_samples = [](std::span<Sample>, CallContext&) {
        return Mapping();
      };
    }
  }

  const WorkerConfig& layout() const { return layout_; }
  const TrainOptions& options() const { return options_; }
  // Samples that a stage may hold.
  std::size_t held() const { return held_; }

  PipelineData data(const Excluded& excluded) const {
    std::vector<std::shared_ptr<const LeafDataset>> leaves;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      leaves.push_back(
          std::make_shared<ExcludingLeaf>(fmt::format("{}-", i), counts_[i], excluded));
    }
    PipelineData data(std::move(leaves));
    if (is_weighted_) {
      data.mixing = Mixing::kWeighted;
      data.leaves[0].weight = 2.5;
    }
    return data;
  }
  PipelineFactory make(const Excluded& excluded) const {
    return train_pipeline(data(excluded), options_);
  }

  // A part of all keys, but none of `kept`.
  Excluded some_keys(std::mt19937& random, const Excluded& kept = {}) const {
    Excluded excluded;
    const auto one_in = static_cast<std::uint32_t>(draw(random, 3, 9));
    for (std::size_t leaf = 0; leaf < counts_.size(); ++leaf) {
      const MemoryLeaf samples("", counts_[leaf]);
      for (std::int64_t i = 0; i < samples.sample_count(); ++i) {
        if (random() % one_in == 0 && !kept.contains(fmt::format("{}-{}", leaf, i))) {
          excluded.insert(fmt::format("{}-{}", leaf, i));
        }
      }
    }
    return excluded;
  }

 private:
  std::vector<std::vector<std::int64_t>> counts_;
  bool is_weighted_ = false;
  TrainOptions options_;
  WorkerConfig layout_;
  std::size_t held_ = 0;
};

using Kind = RandomPipeline::Kind;

Names without(const Names& keys, const Excluded& excluded) {
  Names kept;
  std::ranges::copy_if(keys, std::back_inserter(kept),
                       [&](const std::string& key) { return !excluded.contains(key); });
  return kept;
}

// Whether one is the beginning of the other.
void check_same_stream(Names found, Names expected) {
  const std::size_t size = std::min(found.size(), expected.size());
  found.resize(size);
  expected.resize(size);
  CHECK(found == expected);
}

// The keys of the next `steps` batches of each logical shard.
using Streams = std::map<int, Names>;

Streams take(SavableDataLoader& loader, int steps) {
  Streams streams;
  for (int empty = 0; steps > 0 && empty < 2;) {
    const auto batch = loader.next();
    if (!batch) {
      ++empty;
      continue;
    }
    const auto parts = split_key(batch->restore_key, energon::Stage::kLogicalShard, 2, 1);
    Names& keys = streams[static_cast<int>(parts.integers[0])];
    for (const auto& key : batch->keys.strings()) {
      keys.emplace_back(key);
    }
    --steps;
    if (empty > 0) {
      break;  // without repeat, one epoch is compared
    }
  }
  return streams;
}

Error error_of_next(Dataset& dataset) {
  try {
    while (dataset.next()) {
    }
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "the stream ended");
}

}  // namespace

TEST_CASE("a stream with an exclusion is the stream without it, minus the samples",
          "[wrappers][exclude]") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const RandomPipeline random_pipeline(seed, Kind::kNone);
    std::mt19937 random(seed);
    const Excluded excluded = random_pipeline.some_keys(random);
    HeapBufferPool memory;
    const auto read = [&](const Excluded& keys, int local_index) {
      const auto pipeline = random_pipeline.make(keys)(
          {.config = random_pipeline.layout(), .local_index = local_index, .memory = memory});
      Names found;
      while (found.size() < 200) {
        std::vector<Sample> samples;
        pipeline->next_many(1 + static_cast<std::int64_t>(found.size() % 3), samples);
        if (samples.empty()) {
          break;
        }
        for (const Sample& sample : samples) {
          found.emplace_back(sample.keys.front());
        }
      }
      return found;
    };
    for (int shard = 0; shard < random_pipeline.layout().logical_shards_per_rank(); ++shard) {
      const Names all = read({}, shard);
      const Names rest = read(excluded, shard);
      check_same_stream(rest, without(all, excluded));
      if (!random_pipeline.options().repeat) {
        CHECK(rest.size() == without(all, excluded).size());
      }
    }
  }
}

TEST_CASE("a job goes on with another exclusion exactly where it was",
          "[wrappers][exclude][fork]") {
  const auto stage =
      GENERATE(Kind::kBatches, Kind::kFlatMap, Kind::kCalls, Kind::kSortPool, Kind::kPacks);
  const int num_workers = GENERATE(0, 2);
  CAPTURE(static_cast<int>(stage), num_workers);
  const std::uint32_t jobs = num_workers == 0 ? 12 : 3;
  for (std::uint32_t seed = 0; seed < jobs; ++seed) {
    CAPTURE(seed);
    const RandomPipeline random_pipeline(seed, stage);
    std::mt19937 random(seed);
    LoaderOptions options{.worker_config = random_pipeline.layout()};
    options.worker_config.num_workers = num_workers;
    options.checkpoint_every_batches = random() % 2 == 0 ? 0 : 1;  // 0: long replays
    const Excluded before = random() % 2 == 0 ? Excluded() : random_pipeline.some_keys(random);

    SavableDataLoader loader(random_pipeline.make(before), options);
    take(loader, static_cast<int>(draw(random, 0, 8)));
    const SavableDataLoaderState state = loader.save_state_rank();
    const Streams rest = take(loader, 30);
    Excluded held;
    for (const auto& [shard, keys] : rest) {
      const std::size_t size = std::min(keys.size(), 2 * random_pipeline.held());
      held.insert(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(size));
    }
    Excluded grown = random_pipeline.some_keys(random, held);
    grown.insert(before.begin(), before.end());

    SavableDataLoader other(random_pipeline.make(grown), options);
    other.restore_state_rank(state);
    const Streams found = take(other, 15);
    for (const auto& [shard, keys] : found) {
      CAPTURE(shard);
      const auto expected = rest.find(shard);
      check_same_stream(keys, expected == rest.end() ? Names() : without(expected->second, grown));
    }
    // Such a job can be interrupted, too.
    SavableDataLoader last(random_pipeline.make(grown), options);
    last.restore_state_rank(other.save_state_rank());
    CHECK(take(last, 3) == take(other, 3));
  }
}

TEST_CASE("if all samples are excluded, an epoch is empty and an endless stream is an error",
          "[wrappers][exclude]") {
  Excluded all;
  for (int i = 0; i < 12; ++i) {
    all.insert(fmt::format("a-{}", i));
  }
  const std::vector<std::int64_t> counts = {6, 6};
  const auto excluded = std::make_shared<const ExcludingLeaf>("a-", counts, all);
  const auto other = std::make_shared<const ExcludingLeaf>("b-", counts, Excluded());
  HeapBufferPool memory;
  const auto make = [&](PipelineData data, bool is_endless) {
    return train_pipeline(std::move(data),
                          {.shuffle_buffer_size = 0, .repeat = is_endless})({.memory = memory});
  };
  const auto once = make(PipelineData(excluded), false);
  CHECK_FALSE(once->next());
  once->next_epoch();
  CHECK_FALSE(once->next());
  CHECK(once->size() == 12);
  const Error error = error_of_next(*make(PipelineData(excluded), true));
  CHECK(error.code() == ErrorCode::kInvalidArgument);
  CHECK(error.message() ==
        "all 12 samples of this share of the data are excluded by exclude_files");

  PipelineData blend(std::vector<std::shared_ptr<const LeafDataset>>{excluded, other});
  blend.mixing = Mixing::kWeighted;
  blend.leaves[0].weight = 20;
  const auto mixed = make(std::move(blend), true);
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    CHECK(mixed->next()->keys.front().starts_with("b-"));
  }
}

TEST_CASE("an excluded sample can be read by its restore key, and its state is that of a skip",
          "[wrappers][exclude]") {
  const RandomPipeline random_pipeline(3, Kind::kBatches);
  HeapBufferPool memory;
  const PipelineContext context{.config = random_pipeline.layout(), .memory = memory};
  const Sample first = random_pipeline.make({})(context)->next().value();
  const Excluded excluded = {std::string(first.keys.front())};
  const auto pipeline = random_pipeline.make(excluded)(context);
  CHECK(pipeline->restore_sample(first.restore_key).keys.strings() == first.keys.strings());
  CHECK(pipeline->next()->keys.strings() != first.keys.strings());
  CHECK(pipeline->config() == random_pipeline.make({})(context)->config());
}

TEST_CASE("the samples of a step are known if the exclusion is, else refused",
          "[wrappers][exclude]") {
  const RandomPipeline random_pipeline(5, Kind::kBatches, true);
  std::mt19937 random(1);
  const Excluded excluded = random_pipeline.some_keys(random);
  const LoaderOptions options{.worker_config = random_pipeline.layout()};
  const auto keys_of = [&](const SavableDataLoaderState& state, const Excluded& keys,
                           std::int64_t step) {
    const PipelineData data = random_pipeline.data(keys);
    const JobPipelines pipelines = {[&](const Config& config) {
                                      return order_pipeline(data, random_pipeline.options(),
                                                            config);
                                    },
                                    [&](const Config&) { return random_pipeline.make(keys); }};
    return keys_of_step(std::span(&state, 1), pipelines, data, step).at(0).keys;
  };
  SavableDataLoader loader(random_pipeline.make(excluded), options);
  std::vector<Names> delivered;
  for (int step = 0; step < 12; ++step) {
    const auto batch = loader.next();
    REQUIRE(batch);
    delivered.push_back(batch->keys.strings());
  }
  const SavableDataLoaderState state = loader.save_state_rank();
  for (const std::int64_t step : {0, 5, 11}) {
    CAPTURE(step);
    CHECK(keys_of(state, excluded, step) == delivered[static_cast<std::size_t>(step)]);
  }
  CHECK_THROWS_WITH(keys_of(state, {}, 5), Catch::Contains("exclude_files"));

  SavableDataLoader joined(random_pipeline.make({}), options);
  REQUIRE(joined.next());
  joined.stop();
  SavableDataLoader later(random_pipeline.make(excluded), options);
  later.restore_state_rank(joined.save_state_rank());
  for (int step = 1; step < 12; ++step) {
    REQUIRE(later.next());
  }
  CHECK_THROWS_AS(keys_of(later.save_state_rank(), {}, 5), Error);
}

TEST_CASE("exclude_files keeps the places of all other samples of any kind of data",
          "[wrappers][exclude]") {
  const TempDir folder;
  write_prepared(folder, {.name = "prepared", .counts = {10, 10, 10}});
  const TempDir plain;
  write_numbered_shards(plain, {10, 10, 10});
  write_jsonl(folder, "lines.jsonl", 30);
  struct Case {
    std::string path;
    std::string lines;
    std::set<std::int64_t> excluded;
  };
  const auto line = [](const std::string& dataset, const std::string& shard,
                       const std::string& rest) {
    return fmt::format(R"({{"dataset":"{}","shard":"{}"{}}})"
                       "\n",
                       dataset, shard, rest);
  };
  std::set<std::int64_t> shard_and_more = {3, 27};
  for (std::int64_t i = 10; i < 20; ++i) {
    shard_and_more.insert(i);
  }
  std::vector<Case> cases = {{folder.file("lines.jsonl"),
                              line(folder.file("lines.jsonl"), "lines.jsonl", R"(,"index":3)") +
                                  line(folder.file("lines.jsonl"), "lines.jsonl", R"(,"key":"20")"),
                              {3, 20}}};
  for (const std::string& path : {folder.file("prepared"), plain.path()}) {
    const PipelineData data = open_data(path);
    const auto& shards =
        std::dynamic_pointer_cast<const Webdataset>(data.leaves.at(0).dataset)->shards().shards;
    cases.push_back(
        {path,
         line(path, shards.at(0).name, R"(,"index":3)") + line(path, shards.at(1).name, "") +
             line(path, shards.at(2).name, fmt::format(R"(,"key":"{}")", numbered_key(27))),
         shard_and_more});
  }
  for (const Case& one : cases) {
    CAPTURE(one.path);
    const auto take_all = [&](const DataOptions& options, std::optional<State>* start) {
      HeapBufferPool memory;
      const PipelineData data = open_data(one.path, options);
      CHECK(data.leaves.at(0).dataset->excluded().empty());
      CHECK(data.warnings.empty());
      const auto pipeline =
          train_pipeline(data, {.shuffle_buffer_size = 7, .parallel_slices = 3, .repeat = false})(
              {.memory = memory});
      if (*start) {
        pipeline->restore_state(**start);
      } else {
        *start = pipeline->save_state();
      }
      std::vector<std::int64_t> found;
      while (const auto sample = pipeline->next()) {
        found.push_back(one.path.ends_with(".jsonl") ? std::stoll(std::string(sample->keys.front()))
                                                     : numbers(*sample).at(0));
      }
      return found;
    };
    std::optional<State> start;
    std::vector<std::int64_t> all = take_all({}, &start);
    REQUIRE(all.size() == 30);
    std::erase_if(all, [&](std::int64_t number) { return one.excluded.contains(number); });
    DataOptions options;
    options.open.exclude_files = {folder.write("bad.jsonl", one.lines)};
    CHECK(take_all(options, &start) == all);
  }
}

}  // namespace energon::testing
