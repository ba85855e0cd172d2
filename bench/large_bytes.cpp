// Do two workers deliver bytes as fast as two bare threads read them?
//
// Samples of 100 KB (as many JPEG images are, delivered as bytes) and of 1 MiB, in data larger than
// the CPU's caches. The consumer hashes every byte; in a second round it reads a word of each cache
// line. The floor is as many threads as workers, each with one pread() per sample into a buffer
// that stays in the cache of its core, which consume it there. A second floor are threads whose
// buffers are as large as the data that a loader has in flight. bench_raw_read compares one worker
// with one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bare_read.h"
#include "bench/support/loader_runs.h"
#include "bench/support/program.h"

namespace energon::bench {
namespace {

constexpr std::size_t kInFlightBytes = std::size_t{64} << 20;

/// Samples of one size, and the target of two workers.
struct Kind {
  std::string name;
  DataSetSpec spec;
  std::vector<std::int64_t> batch_sizes;  // the first one has the target
  double target = 0;
};

std::vector<Kind> kinds(std::int64_t images, std::int64_t blobs) {
  const DataSetSpec jpeg{
      .name = "jpeg", .samples = images, .shards = 8, .parts = {{"jpg", 100'000}}};
  return {{"100 KB", jpeg, {64, 8}, 0.85}, {"1 MiB", blob_spec(blobs), {16, 1}, 0.9}};
}

/// Compares loaders of all batch sizes with the threads, taking turns.
class LargeBytes {
 public:
  LargeBytes(const Kind& kind, const DataSet& data, int passes)
      : kind_(kind), data_(data), passes_(passes), dataset_(open_data_set(data)) {}

  void measure(int repetitions, Report& report) {
    for (const Consumer consumer : {Consumer::kHashes, Consumer::kTouches}) {
      for (const int count : {1, 2}) {
        add_count(count, consumer);
      }
    }
    const std::vector<Measurement> rates = measure_in_turn(variants_, repetitions);
    const std::size_t of_one = kind_.batch_sizes.size() + 2;  // threads, then loaders
    for (std::size_t i = 0; i < rates.size(); ++i) {
      const Measurement ratios = ratio("", rates[i], rates[i / of_one * of_one]);
      report.add({.name = rates[i].name,
                  .unit = "B/s",
                  .measurement = rates[i],
                  .more = {{"ratio_to_bare", ratios.median()},
                           {"ratio_min", ratios.min()},
                           {"ratio_max", ratios.max()}}});
    }
    report.add({.name = fmt::format("{}, 2 workers, batch {}, hashed: ratio to 2 threads of pread",
                                    kind_.name, kind_.batch_sizes.front()),
                .unit = "",
                .value = ratio("", rates[of_one + 2], rates[of_one]).median(),
                .target = kind_.target});
  }

 private:
  // `count` threads, and loaders with as many workers.
  void add_count(int count, Consumer consumer) {
    const std::string threads = fmt::format("{} thread{}", count, count == 1 ? "" : "s");
    bool is_first = true;
    for (const std::int64_t batch_size : kind_.batch_sizes) {
      const LoaderSetup setup{.num_workers = count, .batch_size = batch_size};
      const auto order = verify_epoch(data_, setup);
      if (std::exchange(is_first, false)) {
        add_threads(fmt::format("pread, {}", threads), order, count, consumer, 0);
        add_threads(fmt::format("pread into {} MiB, {}", kInFlightBytes >> 20, threads), order,
                    count, consumer, kInFlightBytes);
      }
      auto run = std::make_shared<LoaderRun>(dataset_, setup, consumer);
      add(setup.name(), consumer,
          [this, run] { return run->samples_per_second(data_.spec.samples * passes_); });
    }
  }

  void add_threads(const std::string& name, std::span<const std::int64_t> order, int count,
                   Consumer consumer, std::size_t buffer_bytes) {
    const auto bare =
        std::make_shared<BareSampleThreads>(*dataset_, order, count, consumer, buffer_bytes);
    add(name, consumer, [this, bare] { return bare->samples_per_second(passes_); });
  }

  void add(const std::string& name, Consumer consumer, std::function<double()> samples_per_second) {
    const auto bytes = static_cast<double>(data_.spec.payload_bytes_per_sample());
    variants_.push_back({fmt::format("{}: {}{}", kind_.name, name, suffix(consumer)),
                         [bytes, samples_per_second = std::move(samples_per_second)] {
                           return samples_per_second() * bytes;
                         }});
  }

  const Kind kind_;
  const DataSet data_;
  const int passes_;
  const std::shared_ptr<const Webdataset> dataset_;
  std::vector<Variant> variants_;
};

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t images = 20'000;
  std::int64_t blobs = 2'000;
  int passes = 1;
  return run_program(
      argc, argv, "large_bytes", "How much of what two bare threads read do two workers deliver?",
      [&](CLI::App& app) {
        app.add_option("--images", images, "Samples of 100 KB")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--samples", blobs, "Samples of 1 MiB")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--passes", passes, "Passes over the data per repetition")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("images", images);
        report.setting("blobs", blobs);
        report.setting("passes", passes);
        for (const Kind& kind : kinds(images, blobs)) {
          const DataSet data = make_data_set(options.data_folder, kind.spec);
          LargeBytes(kind, data, passes).measure(options.repetitions, report);
        }
      });
}
