// How long until the first batch?
//
// On a prepared dataset, from the construction of the loader until the trainer has the batch, both
// with a dataset that is already open and including opening it. Forking takes longer the more
// memory the trainer has touched, so also with 256 MiB of touched memory.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bare_read.h"
#include "bench/support/loader_runs.h"
#include "bench/support/program.h"
#include "io/error.h"

namespace energon::bench {
namespace {

constexpr std::int64_t kBatchSize = 64;
constexpr std::size_t kTouchedMiB = 256;

struct Start {
  double constructed = 0;
  double first_batch = 0;
};

Start start(const std::shared_ptr<const Webdataset>& dataset, int workers,
            Clock::time_point begin) {
  Start times;
  const auto loader = make_loader(dataset, {workers, kBatchSize, 0}, Length::kEndless);
  times.constructed = seconds_since(begin);
  if (!loader->next()) {
    throw Error(ErrorCode::kInternal, "no first batch");
  }
  times.first_batch = seconds_since(begin);
  return times;
}

void add_variants(const DataSet& data, const std::shared_ptr<const Webdataset>& dataset,
                  const std::string& suffix, std::vector<Variant>& variants) {
  for (const int workers : {0, 1, 2, 4}) {
    const std::string name = fmt::format("{} workers{}", workers, suffix);
    variants.push_back({"first batch, " + name, [dataset, workers] {
                          return start(dataset, workers, Clock::now()).first_batch;
                        }});
    variants.push_back({"first batch with opening, " + name, [data, workers] {
                          const Clock::time_point begin = Clock::now();
                          return start(open_data_set(data), workers, begin).first_batch;
                        }});
  }
  variants.push_back({"constructor (forks once), 1 worker" + suffix,
                      [dataset] { return start(dataset, 1, Clock::now()).constructed; }});
}

void report_variants(const std::vector<Variant>& variants, int repetitions, Report& report) {
  for (const Measurement& measurement : measure_in_turn(variants, repetitions)) {
    report.add({.name = measurement.name, .unit = "s", .measurement = measurement});
  }
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t samples = 200'000;
  return run_program(
      argc, argv, "startup", "How long until the first batch?",
      [&](CLI::App& app) {
        app.add_option("--samples", samples, "Samples in the dataset")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("samples", samples);
        report.setting("batch_size", kBatchSize);
        const DataSet data = make_data_set(options.data_folder, text_spec(samples));
        verify_epoch(data, {.num_workers = 2, .batch_size = kBatchSize});
        const auto dataset = open_data_set(data);
        std::vector<Variant> small;
        add_variants(data, dataset, "", small);
        report_variants(small, options.repetitions, report);

        const std::vector<std::byte> touched(kTouchedMiB << 20, std::byte{1});
        keep(reinterpret_cast<std::uintptr_t>(touched.data()));
        std::vector<Variant> large;
        add_variants(data, dataset, fmt::format(", {} MiB touched", kTouchedMiB), large);
        report_variants(large, options.repetitions, report);
      });
}
