// How many small samples per second does the loader deliver?
//
// Two-part samples of 0.8 KB, so that the cost per sample matters, not that of its bytes. For
// comparison: a loop with one pread() per sample over the same byte ranges that builds no batches,
// in the loader's order with and without a shuffle buffer.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bare_read.h"
#include "bench/support/loader_runs.h"
#include "bench/support/program.h"

namespace energon::bench {
namespace {

constexpr std::int64_t kBuffer = 10'000;
constexpr double kTarget = 400'000;

Variant bare_loop(const std::string& name, std::shared_ptr<const BareReader> reader) {
  auto buffer = std::make_shared<std::vector<std::byte>>(reader->largest_range());
  return {name, [reader, buffer] {
            const Clock::time_point begin = Clock::now();
            reader->read_all(*buffer);
            return static_cast<double>(reader->sample_count()) / seconds_since(begin);
          }};
}

std::vector<LoaderSetup> setups() {
  std::vector<LoaderSetup> setups;
  for (const std::int64_t buffer : {std::int64_t{0}, kBuffer}) {
    for (const std::int64_t batch_size : {64, 1}) {
      for (const int workers : {0, 1, 2, 4}) {
        setups.push_back({workers, batch_size, buffer});
      }
    }
  }
  return setups;
}

/// Samples per repetition: batches of one are more than ten times slower.
std::int64_t samples_per_repetition(const LoaderSetup& setup, std::int64_t samples) {
  return setup.batch_size == 1 ? samples / (setup.shuffle_buffer_size > 1 ? 20 : 5) : samples;
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t samples = 200'000;
  std::string only;
  return run_program(
      argc, argv, "loader", "How many small samples per second does the loader deliver?",
      [&](CLI::App& app) {
        app.add_option("--samples", samples, "Samples in the dataset")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--only", only, "Only variants with this text in their name");
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("samples", samples);
        const DataSet data = make_data_set(options.data_folder, text_spec(samples));
        const auto dataset = open_data_set(data);
        std::vector<Variant> variants;
        for (const std::int64_t buffer : {std::int64_t{0}, kBuffer}) {
          const auto order = verify_epoch(
              data, {.num_workers = 0, .batch_size = 64, .shuffle_buffer_size = buffer});
          variants.push_back(bare_loop(
              fmt::format("pread per sample{}",
                          buffer > 0 ? fmt::format(", buffer {}", buffer) : std::string()),
              std::make_shared<BareReader>(*dataset, order)));
        }
        for (const LoaderSetup& setup : setups()) {
          if (setup.name().find(only) == std::string::npos) {
            continue;
          }
          if (setup.batch_size > 1) {
            verify_epoch(data, setup);
          }
          auto run = std::make_shared<LoaderRun>(dataset, setup, Consumer::kDrops);
          const std::int64_t count = samples_per_repetition(setup, samples);
          variants.push_back(
              {setup.name(), [run, count] { return run->samples_per_second(count); }});
        }
        const double payload = static_cast<double>(data.spec.payload_bytes_per_sample());
        for (const Measurement& m : measure_in_turn(variants, options.repetitions)) {
          report.add({.name = m.name,
                      .unit = "samples/s",
                      .measurement = m,
                      .more = {{"bytes_per_second", m.median() * payload}}});
          if (m.name == "loader, 2 workers, batch 64") {
            report.add({.name = "0.8 KB samples, 2 workers, batch 64",
                        .unit = "samples/s",
                        .value = m.median(),
                        .target = kTarget});
          }
        }
      });
}
