// Does the loader deliver bytes as fast as a bare pread() loop reads them from the page cache?
//
// Samples of 1 MiB, so that the cost per sample hardly matters. "Delivers" means that the trainer
// holds batches whose bytes are readable in its memory; "touched" means that it also reads every
// cache line. All variants read the same byte ranges, and all count payload bytes only.
//
// The bare loop reads into one buffer that stays in the CPU's cache. A loader can't: its batches
// are alive while the next ones are read. The loop over as many bytes of buffers as a loader with
// one worker and batch 16 keeps in flight shows the cost of that alone.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/support/bare_read.h"
#include "bench/support/loader_runs.h"
#include "bench/support/program.h"

namespace energon::bench {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kInFlightBytes = 64 * kMiB;  // 4 batches of 16 samples

class RawRead {
 public:
  RawRead(const DataSet& data, int passes)
      : data_(data),
        passes_(passes),
        dataset_(open_data_set(data)),
        reader_(*dataset_, verify_epoch(data, {.num_workers = 0, .batch_size = 16})),
        one_buffer_(reader_.largest_range()),
        buffers_(kInFlightBytes),
        source_(kInFlightBytes, std::byte{1}) {
    for (const int workers : {1, 2}) {
      verify_epoch(data, {.num_workers = workers, .batch_size = 16});
    }
  }

  std::vector<Variant> variants() {
    std::vector<Variant> variants = {
        {"memcpy, into one buffer", [this] { return timed([this] { copy(one_buffer_); }); }},
        {"pread, into one buffer", [this] { return timed([this] { read(one_buffer_); }); }},
        {"pread, into 64 MiB of buffers", [this] { return timed([this] { read(buffers_); }); }},
        {"pread, into one buffer, touched",
         [this] { return timed([this] { read(one_buffer_, Consumer::kTouches); }); }},
    };
    for (const Consumer consumer : {Consumer::kDrops, Consumer::kTouches}) {
      for (const std::int64_t batch_size : {16, 1}) {
        for (const int workers : {0, 1, 2}) {
          const LoaderSetup setup{.num_workers = workers, .batch_size = batch_size};
          auto run = std::make_shared<LoaderRun>(dataset_, setup, consumer);
          variants.push_back({setup.name() + std::string(suffix(consumer)), [this, run] {
                                return run->samples_per_second(samples()) * bytes_per_sample();
                              }});
        }
      }
    }
    return variants;
  }

 private:
  std::int64_t samples() const { return data_.spec.samples * passes_; }
  double bytes_per_sample() const {
    return static_cast<double>(data_.spec.payload_bytes_per_sample());
  }

  template <class Pass>
  double timed(const Pass& pass) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < passes_; ++i) {
      pass();
    }
    return static_cast<double>(samples()) * bytes_per_sample() / seconds_since(begin);
  }

  void copy(std::vector<std::byte>& to) {
    // From memory as large as the data that loaders keep in flight, which exceeds the cache.
    std::size_t from = 0;
    for (std::int64_t i = 0; i < data_.spec.samples; ++i) {
      std::memcpy(to.data(), source_.data() + from, kMiB);
      keep(static_cast<std::uint64_t>(to[static_cast<std::size_t>(i)]));
      from = (from + kMiB) % source_.size();
    }
  }
  void read(std::vector<std::byte>& to, Consumer consumer = Consumer::kDrops) {
    keep(reader_.read_all(to, consumer));
  }

  const DataSet data_;
  const int passes_;
  const std::shared_ptr<const Webdataset> dataset_;
  const BareReader reader_;
  std::vector<std::byte> one_buffer_;
  std::vector<std::byte> buffers_;
  std::vector<std::byte> source_;
};

void report_all(const std::vector<Measurement>& measurements, Report& report) {
  const auto named = [&measurements](const std::string& name) -> const Measurement& {
    return *std::find_if(measurements.begin(), measurements.end(),
                         [&name](const Measurement& m) { return m.name == name; });
  };
  const Measurement& bare = named("pread, into one buffer");
  const Measurement& touched = named("pread, into one buffer, touched");
  for (const Measurement& measurement : measurements) {
    const bool touches = measurement.name.ends_with("touched");
    const Measurement ratios = ratio("", measurement, touches ? touched : bare);
    report.add({.name = measurement.name,
                .unit = "B/s",
                .measurement = measurement,
                .more = {{"ratio_to_bare", ratios.median()},
                         {"ratio_min", ratios.min()},
                         {"ratio_max", ratios.max()}}});
  }
  report.add({.name = "1 MiB samples, 1 worker, batch 16: ratio to the bare pread loop",
              .unit = "",
              .value = ratio("", named("loader, 1 worker, batch 16"), bare).median(),
              .target = 0.7});
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t samples = 512;
  int passes = 4;
  return run_program(
      argc, argv, "raw_read", "How much of a bare pread() loop's bytes/s does the loader deliver?",
      [&](CLI::App& app) {
        app.add_option("--samples", samples, "Samples of 1 MiB in the dataset")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--passes", passes, "Passes over the data per repetition")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("samples", samples);
        report.setting("sample_bytes", kMiB);
        report.setting("passes", passes);
        RawRead bench(make_data_set(options.data_folder, blob_spec(samples)), passes);
        report_all(measure_in_turn(bench.variants(), options.repetitions), report);
      });
}
