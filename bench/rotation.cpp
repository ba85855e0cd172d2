// What does a sample cost when many shards are read in turn?
//
// One dataset of 4,096 tars of 100 samples each, read with 1 to 4,096 tars in rotation: 16 slices
// for each logical shard, or as many slices in one logical shard. Then other ways to read many tars
// in turn: a shuffle buffer, short sequences, 10,000 small tars, a blend of 200 datasets. For
// comparison with each: a loop with one pread() per sample over the same byte ranges, with all tars
// open.
//
// A loader reads all samples once before it is timed, so that the steady state is measured. Each
// loader lives for one repetition, so that no two share the limit of open files.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bare_read.h"
#include "bench/support/loader_runs.h"
#include "bench/support/program.h"

namespace energon::bench {
namespace {

constexpr int kTars = 4096;
constexpr std::int64_t kBatch = 64;
constexpr int kSlices = 16;  // per logical shard
constexpr double kLeastRatio = 0.85;

DataSetSpec two_part_spec() {
  return {.name = "rotation-800",
          .samples = kTars * 100,
          .shards = kTars,
          .parts = {{"txt", 600}, {"json", 200}}};
}

DataSetSpec small_tars_spec() {
  return {.name = "rotation-tars", .samples = 200'000, .shards = 10'000, .parts = {{"txt", 300}}};
}

/// A pipeline's data and the samples in it.
struct OpenedData {
  DataSetSpec spec;
  PipelineData data;
  std::shared_ptr<const Webdataset> dataset;  // null for several datasets
};

OpenedData open_one(const std::string& folder, const DataSetSpec& spec) {
  const auto dataset = open_data_set(make_data_set(folder, spec));
  return {spec, dataset, dataset};
}

OpenedData open_blend(const std::string& folder, const DataSetSpec& spec) {
  constexpr int kDataSets = 200;
  return {spec, PipelineData(open_data_sets(folder, spec, kDataSets)), nullptr};
}

// `shards` in rotation: 16 of each logical shard.
LoaderSetup in_rotation(int workers, int shards) {
  const int logical_shards = std::max({shards / kSlices, workers, 1});
  return {.num_workers = workers,
          .batch_size = kBatch,
          .parallel_slices = std::max(shards / logical_shards, 1),
          .logical_shards = logical_shards};
}

/// Collects variants over the data of one group and measures them in turn.
class Group {
 public:
  Group(Report& report, int repetitions, std::int64_t timed, const std::string& only)
      : report_(report), repetitions_(repetitions), timed_(timed), only_(only) {}

  void add(const std::string& name, const OpenedData& opened, const LoaderSetup& setup) {
    if (name.find(only_) == std::string::npos) {
      return;
    }
    const auto order = verify_epoch(opened.data, opened.spec, setup);
    variants_.push_back({name, [this, opened, setup] {
                           LoaderRun run(opened.data, setup, Consumer::kDrops);
                           run.samples_per_second(opened.spec.samples);
                           return run.samples_per_second(timed_);
                         }});
    if (setup.num_workers == 0 && opened.dataset) {
      add_floor(name, opened.dataset, order);
    }
  }

  std::vector<Measurement> measure() {
    const std::vector<Measurement> measurements = measure_in_turn(variants_, repetitions_);
    for (const Measurement& m : measurements) {
      report_.add({.name = m.name, .unit = "samples/s", .measurement = m});
    }
    return measurements;
  }

 private:
  // Opens the tars for one repetition, like the loaders.
  void add_floor(const std::string& name, const std::shared_ptr<const Webdataset>& dataset,
                 const std::vector<std::int64_t>& order) {
    const std::int64_t count = std::min(std::ssize(order), timed_);
    variants_.push_back({name + ": pread per sample",
                         [dataset, places = std::vector(order.begin(), order.begin() + count)] {
                           const BareReader reader(*dataset, places);
                           std::vector<std::byte> buffer(reader.largest_range() * kBatch);
                           const Clock::time_point begin = Clock::now();
                           reader.read_all(buffer);
                           return static_cast<double>(reader.sample_count()) / seconds_since(begin);
                         }});
  }

  Report& report_;
  const int repetitions_;
  const std::int64_t timed_;
  const std::string only_;
  std::vector<Variant> variants_;
};

void add_ratio(Report& report, const std::vector<Measurement>& measurements,
               const std::string& name, const std::string& many, const std::string& few) {
  const auto find = [&](const std::string& wanted) {
    return std::find_if(measurements.begin(), measurements.end(),
                        [&](const Measurement& m) { return m.name == wanted; });
  };
  if (find(many) != measurements.end() && find(few) != measurements.end()) {
    report.add({.name = name,
                .unit = "",
                .value = find(many)->median() / find(few)->median(),
                .target = kLeastRatio});
  }
}

std::string rotation_name(const DataSetSpec& spec, int workers, int shards) {
  return fmt::format("{} B, {} workers, {} in rotation", spec.payload_bytes_per_sample(), workers,
                     shards);
}

void measure_rotation(const OpenedData& opened, Group group, Report& report) {
  const DataSetSpec& spec = opened.spec;
  for (const int workers : {0, 2}) {
    for (const int shards : {1, 16, 64, 256, kTars}) {
      group.add(rotation_name(spec, workers, shards), opened, in_rotation(workers, shards));
    }
  }
  for (const int slices : {256, kTars}) {
    group.add(fmt::format("{} B, 0 workers, {} slices of one logical shard",
                          spec.payload_bytes_per_sample(), slices),
              opened, {.batch_size = kBatch, .parallel_slices = slices});
  }
  const std::vector<Measurement> measurements = group.measure();
  for (const int workers : {0, 2}) {
    add_ratio(report, measurements,
              fmt::format("{} B, {} workers: 4,096 shards in rotation against 16",
                          spec.payload_bytes_per_sample(), workers),
              rotation_name(spec, workers, kTars), rotation_name(spec, workers, kSlices));
  }
}

void measure_others(const std::string& folder, Group group, const OpenedData& rotation) {
  const OpenedData small_tars = open_one(folder, small_tars_spec());
  const OpenedData blend = open_blend(folder, blended_spec());
  const LoaderSetup sequences{
      .batch_size = kBatch, .shuffle_buffer_size = 10'000, .max_samples_per_sequence = 100};
  for (const int workers : {0, 2}) {
    const auto with = [&](LoaderSetup setup) {
      setup.num_workers = workers;
      return setup;
    };
    const auto named = [&](const std::string& name) {
      return fmt::format("{}, {} workers", name, workers);
    };
    group.add(named("buffer of 10,000, sequences of 100"), rotation, with(sequences));
    group.add(named("10,000 tars, buffer of 10,000"), small_tars,
              with({.batch_size = kBatch, .shuffle_buffer_size = 10'000}));
    group.add(named("blend of 200 datasets"), blend, with({.batch_size = kBatch}));
  }
  group.measure();
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t timed = 200'000;
  std::string only;
  return run_program(
      argc, argv, "rotation", "What does a sample cost when many shards are read in turn?",
      [&](CLI::App& app) {
        app.add_option("--samples", timed, "Samples per repetition")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--only", only, "Only variants with this text in their name");
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("samples", timed);
        const Group group(report, options.repetitions, timed, only);
        const OpenedData small = open_one(options.data_folder, many_tars_spec());
        measure_rotation(small, group, report);
        measure_rotation(open_one(options.data_folder, two_part_spec()), group, report);
        measure_others(options.data_folder, group, small);
      });
}
