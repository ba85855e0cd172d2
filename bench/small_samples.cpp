// What does a small sample cost, compared with reading the shards in blocks, and shuffled?
//
// Two-part samples of 0.8 KB, in batches of 64, whose bytes are read after delivery. First,
// consecutive samples of 20 shards: the floor is two threads that read the same shards from start
// to end and touch every cache line, ignoring sample boundaries. Then 10,000 shards of 20 samples,
// in the loader's own order and through a shuffle buffer of 10,000, each compared with a loop with
// one pread() per sample in the same order.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bare_read.h"
#include "bench/support/loader_runs.h"
#include "bench/support/program.h"

namespace energon::bench {
namespace {

constexpr std::int64_t kBatch = 64;
constexpr int kThreads = 2;  // same as the workers of the target
constexpr std::int64_t kBuffer = 10'000;
constexpr double kOfBlockLoop = 0.45;
constexpr double kOfUnshuffled = 0.5;

DataSetSpec many_shards_spec(std::int64_t samples, int shards) {
  return {.name = fmt::format("text-{}-shards", shards),
          .samples = samples,
          .shards = shards,
          .parts = text_spec(samples).parts};
}

/// Adds all rates; those of loaders also get the ratio `ratio_name` to the first rate.
void add_rates(Report& report, const std::vector<Measurement>& rates, const DataSetSpec& spec,
               const std::string& ratio_name) {
  const auto payload = static_cast<double>(spec.payload_bytes_per_sample());
  for (const Measurement& m : rates) {
    Result result{.name = m.name,
                  .unit = "samples/s",
                  .measurement = m,
                  .more = {{"bytes_per_second", m.median() * payload}}};
    if (m.name.find("pread") == std::string::npos) {
      result.more[ratio_name] = ratio("", m, rates[0]).median();
    }
    report.add(std::move(result));
  }
}

void measure_text(const DataSet& data, int repetitions, Report& report) {
  const auto dataset = open_data_set(data);
  std::vector<Variant> variants;
  const auto blocks = std::make_shared<BareBlockThreads>(*dataset, kThreads);
  variants.push_back({fmt::format("block loop, {} threads", kThreads),
                      [blocks] { return blocks->samples_per_second(); }});
  for (const int workers : {kThreads, 0, 1}) {
    const LoaderSetup setup{.num_workers = workers, .batch_size = kBatch};
    const auto order = verify_epoch(data, setup);
    if (workers == 0) {
      const auto bare =
          std::make_shared<BareSampleThreads>(*dataset, order, kThreads, Consumer::kTouches);
      variants.push_back({fmt::format("pread per sample, {} threads", kThreads),
                          [bare] { return bare->samples_per_second(1); }});
    }
    auto run = std::make_shared<LoaderRun>(dataset, setup, Consumer::kTouches);
    variants.push_back(
        {setup.name(), [run, &data] { return run->samples_per_second(data.spec.samples); }});
  }
  const std::vector<Measurement> rates = measure_in_turn(variants, repetitions);
  add_rates(report, rates, data.spec, "ratio_to_bare");
  report.add({.name = "0.8 KB, batch 64, 2 workers: ratio to the block loop in 2 threads",
              .unit = "",
              .value = ratio("", rates[1], rates[0]).median(),
              .target = kOfBlockLoop});
}

// One of two loaders that differ in the shuffle buffer. It lives for one repetition, so that no two
// share the limit of open files, and reads all samples once before it is timed.
Variant fresh_loader(const DataSet& data, const std::string& name, const LoaderSetup& setup) {
  return {name, [dataset = open_data_set(data), setup, samples = data.spec.samples] {
            LoaderRun run(dataset, setup, Consumer::kTouches);
            run.samples_per_second(samples);
            return run.samples_per_second(samples);
          }};
}

Variant fresh_floor(const DataSet& data, const std::string& name,
                    const std::vector<std::int64_t>& order) {
  return {name, [dataset = open_data_set(data), order] {
            return BareSampleThreads(*dataset, order, 1, Consumer::kTouches).samples_per_second(1);
          }};
}

void measure_shuffled(const DataSet& data, int repetitions, Report& report) {
  for (const int workers : {0, kThreads}) {
    const std::string with = fmt::format("{} shards, {} workers", data.spec.shards, workers);
    std::vector<Variant> variants;
    for (const std::int64_t buffer : {std::int64_t{0}, kBuffer}) {
      const LoaderSetup setup{
          .num_workers = workers, .batch_size = kBatch, .shuffle_buffer_size = buffer};
      const auto order = verify_epoch(data, setup);
      const std::string name = with + (buffer > 0 ? fmt::format(", buffer {}", buffer) : "");
      variants.push_back(fresh_loader(data, name, setup));
      if (workers == 0) {
        variants.push_back(fresh_floor(data, name + ": pread per sample", order));
      }
    }
    const std::vector<Measurement> rates = measure_in_turn(variants, repetitions);
    add_rates(report, rates, data.spec, "ratio_to_unshuffled");
    report.add({.name = with + ": buffer of 10,000 against none",
                .unit = "",
                .value = ratio("", rates[rates.size() / 2], rates[0]).median(),
                .target = kOfUnshuffled});
  }
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t samples = 200'000;
  int shards = 10'000;
  return run_program(
      argc, argv, "small_samples",
      "What does a small sample cost, compared with reading the shards in blocks, and shuffled?",
      [&](CLI::App& app) {
        app.add_option("--samples", samples, "Samples in each of the two datasets")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--shards", shards, "Shards of the second dataset")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("samples", samples);
        report.setting("shards", shards);
        measure_text(make_data_set(options.data_folder, text_spec(samples)), options.repetitions,
                     report);
        measure_shuffled(make_data_set(options.data_folder, many_shards_spec(samples, shards)),
                         options.repetitions, report);
      });
}
