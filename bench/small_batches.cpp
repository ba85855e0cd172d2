// Does a worker pay at every batch size?
//
// Samples of 300 B, so that the cost of sending a batch from a worker to the trainer matters: with
// batches of 1, every sample pays it. The loaders of one batch size take turns and are compared
// with one another: 0 workers is the same work without sending.

#include <cstdint>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "bench/support/loader_runs.h"
#include "bench/support/program.h"

namespace energon::bench {
namespace {

constexpr double kOneOfNone = 0.9;
constexpr double kTwoOfOne = 1.5;

DataSetSpec small_spec(std::int64_t samples) {
  return {.name = "small", .samples = samples, .shards = 20, .parts = {{"txt", 300}}};
}

/// Samples per repetition: batches of one are more than ten times slower.
std::int64_t samples_per_repetition(std::int64_t batch_size, std::int64_t samples) {
  return batch_size < 16 ? samples / 2 : samples * 2;
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t samples = 200'000;
  std::vector<std::int64_t> batch_sizes = {1, 8, 64, 512};
  return run_program(
      argc, argv, "small_batches", "Does a worker pay at every batch size?",
      [&](CLI::App& app) {
        app.add_option("--samples", samples, "Samples in the dataset")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--batch-sizes", batch_sizes, "Only these batch sizes")
            ->capture_default_str();
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("samples", samples);
        const DataSet data = make_data_set(options.data_folder, small_spec(samples));
        const auto dataset = open_data_set(data);
        for (const std::int64_t batch_size : batch_sizes) {
          std::vector<Variant> variants;
          for (const int workers : {0, 1, 2}) {
            const LoaderSetup setup{.num_workers = workers, .batch_size = batch_size};
            if (workers > 0) {
              verify_epoch(data, setup);
            }
            auto run = std::make_shared<LoaderRun>(dataset, setup, Consumer::kTouches);
            const std::int64_t count = samples_per_repetition(batch_size, samples);
            variants.push_back(
                {setup.name(), [run, count] { return run->samples_per_second(count); }});
          }
          const std::vector<Measurement> rates = measure_in_turn(variants, options.repetitions);
          for (const Measurement& m : rates) {
            report.add({.name = m.name, .unit = "samples/s", .measurement = m});
          }
          report.add({.name = fmt::format("1 worker / none, batch {}", batch_size),
                      .unit = "",
                      .value = rates[1].median() / rates[0].median(),
                      .target = kOneOfNone});
          report.add({.name = fmt::format("2 workers / 1, batch {}", batch_size),
                      .unit = "",
                      .value = rates[2].median() / rates[1].median(),
                      .target = kTwoOfOne});
        }
      });
}
