// How fast does `energon prepare` index tars, compared with GNU tar listing them?
//
// The floor is `tar -t` in as many processes as prepare has threads: it reads the same headers and
// discards the names. prepare() also checks names and keys, writes the indices and the database,
// and syncs them to disk.

#include "io/prepare/prepare.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/support/data_set.h"
#include "bench/support/measure.h"
#include "bench/support/program.h"
#include "io/concurrency.h"
#include "io/error.h"
#include "io/index/sample_index.h"

namespace energon::bench {
namespace {

constexpr std::uint64_t kHeaderBytes = 512;

class SilentProgress final : public ProgressSink {
 public:
  void on_progress(const PrepareProgress&) override {}
};

std::uint64_t stored_bytes(std::uint64_t content) { return (content + 511) / 512 * 512; }

class PrepareBench {
 public:
  PrepareBench(DataSet data, int threads) : data_(std::move(data)), threads_(threads) {
    for (int shard = 0; shard < data_.spec.shards; ++shard) {
      tars_.push_back(fmt::format("{}/{:06}.tar", data_.path, shard));
    }
    run({.existing = Existing::kOverwrite});
    verify();
  }

  std::vector<Variant> variants() {
    return {
        {fmt::format("GNU tar -t, {} processes", threads_), [this] { return rate(list()); }},
        {fmt::format("prepare, {} threads", threads_),
         [this] { return rate(run({.existing = Existing::kOverwrite})); }},
        {"prepare, 1 thread",
         [this] { return rate(run({.existing = Existing::kOverwrite, .threads = 1})); }},
        {fmt::format("prepare --update, 1 of {} shards is new", tars_.size()),
         [this] {
           run({.exclude_regexes = {fmt::format("{:06}", tars_.size() - 1)},
                .existing = Existing::kOverwrite});
           const double seconds = run({.existing = Existing::kUpdate});
           verify();
           return rate(seconds);
         }},
    };
  }

 private:
  double rate(double seconds) const {
    return static_cast<double>(data_.spec.samples) * static_cast<double>(data_.spec.parts.size()) /
           seconds;
  }

  // Returns seconds.
  double run(PrepareOptions options) {
    SilentProgress progress;
    if (!options.threads) {
      options.threads = threads_;
    }
    const Clock::time_point begin = Clock::now();
    prepare(data_.path, options, progress);
    return seconds_since(begin);
  }

  double list() {
    const Clock::time_point begin = Clock::now();
    std::vector<int> failed(static_cast<std::size_t>(threads_));
    {
      std::vector<std::jthread> lists;
      for (std::size_t i = 0; i < failed.size(); ++i) {
        lists.emplace_back([this, i, &failed] {
          for (std::size_t shard = i; shard < tars_.size(); shard += failed.size()) {
            const std::string command = fmt::format("tar -tf '{}' > /dev/null", tars_[shard]);
            failed[i] += std::system(command.c_str()) == 0 ? 0 : 1;
          }
        });
      }
    }
    for (const int count : failed) {
      if (count != 0) {
        throw Error(ErrorCode::kInternal, "tar -t failed", {.path = data_.path});
      }
    }
    return seconds_since(begin);
  }

  // Checks that the database has every sample at its place, and that SQLite finds no problem.
  void verify() const {
    const SampleIndex index(data_.path + "/.nv-meta/index.sqlite");
    std::uint64_t sample_bytes = 0;
    for (const PartSpec& part : data_.spec.parts) {
      sample_bytes += kHeaderBytes + stored_bytes(part.size_bytes);
    }
    std::int64_t count = 0;
    std::int64_t shard = -1;
    std::int64_t first = 0;  // first sample of the shard
    index.for_each_sample([&](std::string_view key, const SampleLocation& found) {
      if (found.tar_file_id != shard) {
        shard = found.tar_file_id;
        first = data_.spec.samples * shard / data_.spec.shards;
      }
      const SampleLocation expected{
          .tar_file_id = shard,
          .sample_index = count - first,
          .bytes = {.offset = static_cast<std::uint64_t>(count - first) * sample_bytes,
                    .size = sample_bytes}};
      if (key != fmt::format("{:08}", count) || found != expected) {
        throw Error(ErrorCode::kInternal, fmt::format("sample {} has a wrong row", count));
      }
      ++count;
      return true;
    });
    if (count != data_.spec.samples || !index.check().empty()) {
      throw Error(ErrorCode::kInternal, "the database does not match the tars");
    }
  }

  const DataSet data_;
  const int threads_;
  std::vector<std::string> tars_;
};

void report_all(const std::vector<Measurement>& measurements, Report& report) {
  const Measurement& floor = measurements[0];
  for (const Measurement& measurement : measurements) {
    const Measurement ratios = ratio("", measurement, floor);
    report.add({.name = measurement.name,
                .unit = "headers/s",
                .measurement = measurement,
                .more = {{"ratio_to_bare", ratios.median()},
                         {"ratio_min", ratios.min()},
                         {"ratio_max", ratios.max()}}});
  }
  report.add({.name = "prepare: ratio to GNU tar -t in as many processes",
              .unit = "",
              .value = ratio("", measurements[1], floor).median(),
              .target = 0.8});
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t samples = 500'000;
  int threads = energon::usable_cpus();
  return run_program(
      argc, argv, "prepare", "How fast does energon prepare index tars, compared with GNU tar -t?",
      [&](CLI::App& app) {
        app.add_option("--samples", samples, "Samples of two small parts in the dataset")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--threads", threads, "Threads of prepare, and processes of tar")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("samples", samples);
        report.setting("headers", 2 * samples);
        report.setting("threads", threads);
        const DataSetSpec spec{.name = "small",
                               .samples = samples,
                               .shards = 16,
                               .parts = {{"txt", 400}, {"json", 200}}};
        PrepareBench bench(make_data_set(options.data_folder, spec), threads);
        report_all(measure_in_turn(bench.variants(), options.repetitions), report);
      });
}
