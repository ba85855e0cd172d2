// The deliveries of a job that left out samples at any stage: each answer computed from its states
// is compared with the output of its loaders. An answer is exact or refused.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/loader/delivered_items.h"
#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "io/hash.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/batching/batch.h"
#include "wrappers/recipe/delivered_samples.h"
#include "wrappers/recipe/order_pipeline.h"
#include "wrappers/stages/map.h"

using energon::CallContext;
using energon::Config;
using energon::DeliveredItems;
using energon::Delivery;
using energon::ErrorCode;
using energon::JobPipelines;
using energon::LeafDataset;
using energon::LeafReader;
using energon::Mapping;
using energon::PipelineData;
using energon::PipelineFactory;
using energon::Sample;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::testing::TempDir;

namespace {

// The samples on which a stage fails, or that it leaves out by SkipSample. Chosen by key, so always
// the same.
struct Faults {
  std::string stage = {};
  std::uint64_t one_in = 0;  // 0 means none

  bool hits(std::string_view key) const {
    return one_in > 0 &&
           energon::xxh3_64(energon::as_bytes(stage + std::string(key))) % one_in == 0;
  }
  void look_at(std::string_view key) const {
    if (!hits(key)) {
      return;
    }
    if (energon::xxh3_64(energon::as_bytes(std::string(key))) % 2 == 0) {
      throw energon::SkipSample();
    }
    throw std::runtime_error("cannot use " + std::string(key));
  }
};

// A dataset with some unreadable samples.
class FaultyLeaf final : public LeafDataset {
 public:
  FaultyLeaf(std::shared_ptr<const LeafDataset> inner, Faults faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  const std::vector<std::int64_t>& shard_counts() const override { return inner_->shard_counts(); }
  std::int64_t sample_count() const override { return inner_->sample_count(); }
  const std::vector<std::int64_t>& excluded() const override { return inner_->excluded(); }
  Config config() const override { return inner_->config(); }
  std::unique_ptr<LeafReader> open_reader() const override {
    return std::make_unique<Reader>(inner_->open_reader(), faults_);
  }

 private:
  class Reader final : public LeafReader {
   public:
    Reader(std::unique_ptr<LeafReader> inner, Faults faults)
        : inner_(std::move(inner)), faults_(std::move(faults)) {}

    void read(std::span<const std::int64_t> indexes, energon::BufferAllocator& allocator,
              std::vector<Sample>& samples) override {
      for (const std::int64_t index : indexes) {
        if (faults_.hits(energon::testing::numbered_key(index))) {
          throw energon::Error(ErrorCode::kCorruptData, "damaged");
        }
      }
      inner_->read(indexes, allocator, samples);
    }
    energon::FailedSample describe(std::int64_t index) override { return inner_->describe(index); }
    std::optional<std::int64_t> broken_file(std::int64_t) override { return std::nullopt; }
    bool needs_file(std::int64_t, std::int64_t) const override { return false; }

   private:
    const std::unique_ptr<LeafReader> inner_;
    const Faults faults_;
  };

  const std::shared_ptr<const LeafDataset> inner_;
  const Faults faults_;
};

using Random = std::mt19937;

std::int64_t draw(Random& random, std::int64_t first, std::int64_t last) {
  return first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(last - first + 1));
}

// Each kind of stage has faults in some jobs.
Faults faults(Random& random, std::string stage) {
  return {std::move(stage),
          random() % 2 == 0 ? 0 : static_cast<std::uint64_t>(draw(random, 4, 15))};
}

energon::MapFunction look(Faults faults) {
  return [faults = std::move(faults)](Sample sample, CallContext&) {
    faults.look_at(sample.keys.front());
    return sample;
  };
}

// Zero to two outputs per sample.
energon::FlatMapFunction several(Faults faults) {
  return [faults = std::move(faults)](Sample sample, CallContext&) {
    faults.look_at(sample.keys.front());
    const auto count = energon::xxh3_64(energon::as_bytes(std::string(sample.keys.front()))) % 3;
    return [sample = std::move(sample), left = count]() mutable -> std::optional<Sample> {
      return left-- > 0 ? std::optional(sample) : std::nullopt;
    };
  };
}

energon::BatchFunction batch_of(Faults faults) {
  return [faults = std::move(faults)](std::span<Sample> samples) {
    faults.look_at(samples.front().keys.front());
    return Mapping{{"samples", std::ssize(samples)}};
  };
}

// Packs of two; the last sample of an odd buffer is left out.
void pack(energon::TaskEncoder& encoder, Random& random) {
  encoder.preencode_sample = look(faults(random, "preencode"));
  encoder.select_samples_to_pack = [](std::span<const Sample> samples) {
    std::vector<std::vector<std::size_t>> packs;
    for (std::size_t i = 1; i < samples.size(); i += 2) {
      packs.push_back({i, i - 1});
    }
    return packs;
  };
  encoder.postencode_sample = look(faults(random, "postencode"));
  encoder.pack_selected_samples = [faults = faults(random, "pack")](std::span<Sample> samples,
                                                                    CallContext&) {
    faults.look_at(samples.front().keys.front());
    return Mapping{{"packed", std::ssize(samples)}};
  };
}

// Filters the samples of `inner` and batches the rest.
PipelineFactory filtered(PipelineFactory inner, Faults faults) {
  return [inner = std::move(inner), faults = std::move(faults)](
             const energon::PipelineContext& context) -> std::unique_ptr<energon::Dataset> {
    auto filter = std::make_unique<energon::Filter>(
        inner(context),
        [faults](const Sample& sample, CallContext&) { return !faults.hits(sample.keys.front()); },
        energon::StageOptions{.name = "filter", .monitor = context.monitor});
    return std::make_unique<energon::Batch>(
        std::move(filter),
        energon::BatchOptions{.batch_size = 3,
                              .function = batch_of({}),
                              .stage = {.name = "batch", .monitor = context.monitor}});
  };
}

// A random job, run for some steps and restored in between.
class RandomJob {
 public:
  RandomJob(std::uint32_t seed, int num_workers) : random_(seed), num_workers_(num_workers) {
    make_data();
    make_pipeline();
    run();
  }

  // The members that both kinds of options have.
  template <class Options>
  void set(Options& options) {
    energon::TaskEncoder& encoder = options.task_encoder;
    options.errors.standard = {.action = energon::FailureAction::kSkip, .tolerance = 0};
    if (random_() % 2 == 0) {
      encoder.cookers = {
          {.cook = [faults = faults(random_, "cook")](Sample sample, energon::CookContext&) {
            faults.look_at(sample.keys.front());
            return sample;
          }}};
    }
    const auto kind = draw(random_, 0, 6);
    has_filter_ = kind == 0;
    if (kind == 1) {
      encoder.encode_sample = several(faults(random_, "flat map"));
    } else if (kind == 2) {
      options.packing_buffer_size = draw(random_, 3, 9);
      pack(encoder, random_);
    } else if (random_() % 2 == 0) {
      encoder.encode_sample = look(faults(random_, "encode"));
    }
    if (kind == 6) {
      options.sort_pool_size = draw(random_, 2, 9);
      encoder.cost = [cost = faults(random_, "cost")](const Sample& sample) {
        cost.look_at(sample.keys.front());
        return static_cast<double>(sample.keys.front().back() % 3);
      };
    }
    if (has_filter_ || random_() % 6 == 0) {
      encoder.batch = energon::generic_batch;
      return;  // without batches
    }
    options.batch_size = draw(random_, 1, 4);
    encoder.batch = batch_of(faults(random_, "batch"));
    if (kind == 3) {
      encoder.batch_group_criterion = [group = faults(random_, "group")](const Sample& sample) {
        group.look_at(sample.keys.front());
        return energon::BatchGroup{.group = std::string(sample.keys.front().substr(5)) < "5" ? "a"
                                                                                             : "b"};
      };
    }
    if (random_() % 3 == 0) {
      options.remainder = energon::BatchOptions::Remainder::kDrop;
    }
    if (random_() % 3 == 0) {
      encoder.encode_batch = look(faults(random_, "encode batch"));
    }
  }

  JobPipelines both() const {
    return {order_, [this](const Config&) { return pipeline_; }};
  }
  JobPipelines order_only() const { return {order_}; }
  const PipelineData& data() const { return data_; }
  const SavableDataLoaderState& state() const { return state_; }
  const std::vector<Sample>& delivered() const { return delivered_; }
  const std::vector<Sample>& later() const { return later_; }
  bool has_left_out() const { return left_out_; }
  // At the end of a finite pass, a partial batch is dropped, or a limit ends the epoch.
  bool hides_left_out() const { return hides_left_out_; }

 private:
  void make_data() {
    std::vector<std::shared_ptr<const LeafDataset>> leaves;
    const auto count = draw(random_, 1, 2);
    for (std::int64_t leaf = 0; leaf < count; ++leaf) {
      TempDir& folder = *folders_.emplace_back(std::make_unique<TempDir>());
      // Drawn one after the other, so that each compiler draws the same jobs.
      Faults read_faults = faults(random_, fmt::format("read {}", leaf));
      auto samples = numbered_dataset(folder, {draw(random_, 8, 20), draw(random_, 8, 20)});
      leaves.push_back(std::make_shared<FaultyLeaf>(std::move(samples), std::move(read_faults)));
    }
    data_ = PipelineData(std::move(leaves));
    if (count == 2 && random_() % 2 == 0) {
      data_.mixing = energon::Mixing::kWeighted;
      data_.leaves[0].weight = 2;
    }
  }

  void make_pipeline() {
    layout_ = {.rank = 1, .world_size = 2, .num_workers = num_workers_};
    if (random_() % 3 == 0) {
      layout_.logical_shards = 4;
    }
    if (random_() % 4 == 0) {
      energon::ValOptions options;
      set(options);
      if (random_() % 2 == 0) {
        options.limit = draw(random_, 2, 5);
      }
      hides_left_out_ =
          options.limit || options.remainder == energon::BatchOptions::Remainder::kDrop;
      pipeline_ = energon::val_pipeline(data_, options);
      order_ = [this, options](const Config& config) {
        return order_pipeline(data_, options, config);
      };
    } else {
      energon::TrainOptions options;
      set(options);
      options.shuffle_buffer_size = draw(random_, 0, 6);
      options.repeat = data_.mixing == energon::Mixing::kWeighted || random_() % 2 == 0;
      options.virtual_epoch_length = random_() % 3 == 0 ? draw(random_, 3, 7) : 0;
      hides_left_out_ =
          !options.repeat && options.remainder == energon::BatchOptions::Remainder::kDrop;
      pipeline_ = energon::train_pipeline(data_, options);
      order_ = [this, options](const Config& config) {
        return order_pipeline(data_, options, config);
      };
    }
    if (has_filter_) {
      pipeline_ = filtered(std::move(pipeline_), faults(random_, "filter"));
    }
  }

  void run() {
    auto loader = std::make_unique<SavableDataLoader>(
        pipeline_, energon::LoaderOptions{.worker_config = layout_});
    const auto steps = static_cast<std::size_t>(draw(random_, 1, 30));
    const auto restored_at = static_cast<std::size_t>(draw(random_, 0, 30));
    take(*loader, delivered_, std::min(steps, restored_at));
    if (restored_at < steps) {
      const SavableDataLoaderState middle = loader->save_state_rank();
      count_left_out(*loader);
      loader = std::make_unique<SavableDataLoader>(
          pipeline_, energon::LoaderOptions{.worker_config = layout_});
      loader->restore_state_rank(middle);
      take(*loader, delivered_, steps);
    }
    state_ = loader->save_state_rank();
    take(*loader, later_, 2);
    count_left_out(*loader);
  }

  // A job ends early, perhaps with an error, if none of its data can be used.
  static void take(SavableDataLoader& loader, std::vector<Sample>& items, std::size_t end) {
    int empty_epochs = 0;
    try {
      while (items.size() < end && empty_epochs < 3) {
        if (auto item = loader.next()) {
          items.push_back(std::move(*item));
          empty_epochs = 0;
        } else {
          ++empty_epochs;
        }
      }
    } catch (const energon::Error& error) {
      CHECK(error.code() == ErrorCode::kCorruptData);
    }
  }

  void count_left_out(const SavableDataLoader& loader) {
    for (const energon::WorkerStatistics& worker : loader.stats().workers) {
      for (const energon::StageStatistics& stage : worker.stages) {
        left_out_ = left_out_ || stage.skipped > 0 || stage.failed > 0;
      }
    }
  }

  Random random_;
  const int num_workers_;
  std::vector<std::unique_ptr<TempDir>> folders_;
  PipelineData data_;
  energon::WorkerConfig layout_;
  PipelineFactory pipeline_;
  energon::PipelineOfConfig order_;
  bool has_filter_ = false;
  bool hides_left_out_ = false;
  std::vector<Sample> delivered_;
  std::vector<Sample> later_;
  SavableDataLoaderState state_;
  bool left_out_ = false;
};

// The steps and restore keys of a sample, as the job delivered it.
std::multimap<std::int64_t, std::string> steps_in_log(const RandomJob& job,
                                                      const energon::SampleRef& sample) {
  std::multimap<std::int64_t, std::string> steps;
  for (std::size_t step = 0; step < job.delivered().size(); ++step) {
    for (const energon::SampleRef& one : samples_in(job.delivered()[step].restore_key)) {
      if (one.leaf == sample.leaf && one.index == sample.index) {
        steps.emplace(static_cast<std::int64_t>(step), job.delivered()[step].restore_key.text());
      }
    }
  }
  return steps;
}

void check_steps_of_samples(const RandomJob& job, const JobPipelines& pipelines) {
  for (std::uint32_t leaf = 0; leaf < job.data().leaves.size(); ++leaf) {
    const energon::KeyedSample sample{.key = "wanted", .reference = {.index = 5, .leaf = leaf}};
    std::multimap<std::int64_t, std::string> found;
    for (const Delivery& delivery :
         find_deliveries(std::span(&job.state(), 1), pipelines, std::span(&sample, 1))) {
      CHECK(delivery.rank == 1);
      found.emplace(delivery.step, delivery.restore_key.text());
    }
    CHECK(found == steps_in_log(job, sample.reference));
  }
}

void check_keys_of_steps(const RandomJob& job, const JobPipelines& pipelines) {
  const auto delivered = static_cast<std::int64_t>(job.delivered().size());
  const std::set<std::int64_t> asked = {0, delivered / 2, delivered - 1};
  for (const std::int64_t step : asked) {
    CAPTURE(step);
    const Sample& item = job.delivered()[static_cast<std::size_t>(step)];
    const auto told = keys_of_step(std::span(&job.state(), 1), pipelines, job.data(), step);
    REQUIRE(told.size() == 1);
    CHECK(told[0].step == step);
    CHECK(told[0].is_delivered);
    CHECK(told[0].restore_key == item.restore_key);
    std::vector<std::string> keys = item.keys.strings();
    std::vector<std::string> found = told[0].keys;
    std::ranges::sort(keys);  // a pack contains its samples in the order of its function
    std::ranges::sort(found);
    CHECK(found == keys);
  }
}

// Throws if the computation is refused.
void check_all(const RandomJob& job, const JobPipelines& pipelines) {
  check_keys_of_steps(job, pipelines);
  check_steps_of_samples(job, pipelines);
}

void check_later(const RandomJob& job) {
  for (std::size_t i = 0; i < job.later().size(); ++i) {
    const auto step = static_cast<std::int64_t>(job.delivered().size() + i);
    CAPTURE(step);
    const auto told = keys_of_step(
        std::span(&job.state(), 1),
        {[pipelines = job.both()](const Config& config) { return pipelines.back()(config); }},
        job.data(), step);
    CHECK_FALSE(told.at(0).is_delivered);
    CHECK(told.at(0).restore_key == job.later()[i].restore_key);
  }
}

struct Outcomes {
  int left_out = 0;
  int by_order = 0;
  int refused = 0;
};

void check_job(std::uint32_t seed, int num_workers, Outcomes& outcomes) {
  const RandomJob job(seed, num_workers);
  CAPTURE(seed, num_workers, job.delivered().size(), job.has_left_out(),
          job.state().config->dump());
  if (job.delivered().empty()) {
    return;
  }
  outcomes.left_out += job.has_left_out() ? 1 : 0;
  check_all(job, job.both());
  check_later(job);
  try {
    check_all(job, job.order_only());
    ++outcomes.by_order;
  } catch (const energon::Error& error) {
    INFO(error.what());
    const bool is_refused = error.code() == ErrorCode::kMismatch;
    CHECK((is_refused || error.code() == ErrorCode::kUnsupported));
    CHECK((!is_refused || job.has_left_out() || job.hides_left_out()));
    outcomes.refused += is_refused ? 1 : 0;
  }
}

}  // namespace

TEST_CASE("deliveries are computed exactly or refused, whatever a job left out",
          "[wrappers][delivered]") {
  Outcomes outcomes;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    check_job(seed, 0, outcomes);
  }
  CAPTURE(outcomes.left_out, outcomes.by_order, outcomes.refused);
  CHECK(outcomes.left_out > 150);
  CHECK(outcomes.by_order > 15);
  CHECK(outcomes.refused > 30);
}

TEST_CASE("deliveries of a job with workers are computed exactly or refused",
          "[wrappers][delivered][fork]") {
  Outcomes outcomes;
  for (std::uint32_t seed = 1000; seed < 1100; ++seed) {
    check_job(seed, 2, outcomes);
  }
  CAPTURE(outcomes.left_out, outcomes.by_order, outcomes.refused);
  CHECK(outcomes.left_out > 50);
  CHECK(outcomes.by_order > 4);
  CHECK(outcomes.refused > 10);
}
