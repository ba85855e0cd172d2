// What do saving and restoring cost when a position is large?
//
// Two jobs of one rank: a blend of 200 datasets with a shuffle buffer, and one dataset read by
// 4,096 logical shards, without and with the buffer. Between two saves, every logical shard makes a
// batch, so that every position is new. A restore is into a new loader; its time runs until
// restore_state_rank() returns, and from there until the first batch.

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/loader_runs.h"
#include "bench/support/program.h"
#include "io/error.h"

namespace energon::bench {
namespace {

constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kBuffer = 10'000;
constexpr int kDataSets = 200;
constexpr int kLogicalShards = 4096;

/// A job and its targets; 0 means no target.
struct Job {
  std::string name;
  PipelineData data;
  LoaderSetup setup;
  int logical_shards = 1;
  double save_target = 0;
  double restore_target = 0;
  double file_target = 0;
};

/// Measured values, one list per quantity.
struct Times {
  std::vector<double> save, write, file_bytes, restore, first_batch, read;
};

void advance(SavableDataLoader& loader, std::int64_t batches) {
  for (std::int64_t i = 0; i < batches; ++i) {
    loader.next();
  }
}

// The restored loader must continue like the saved one, with every logical shard.
void verify_resume(const Job& job, const std::string& file) {
  const auto loader = make_loader(job.data, job.setup, Length::kEndless);
  advance(*loader, 3 * job.logical_shards + 5);
  write_loader_state(file, loader->save_state_rank());
  const auto restored = make_loader(job.data, job.setup, Length::kEndless);
  restored->restore_state_rank(read_loader_state(file));
  for (int i = 0; i < job.logical_shards + 200; ++i) {
    const auto expected = loader->next();
    const auto batch = restored->next();
    if (!expected || !batch || expected->restore_key != batch->restore_key ||
        expected->keys != batch->keys) {
      throw Error(ErrorCode::kInternal, fmt::format("batch {} after the restore differs", i));
    }
  }
}

template <class Function>
double seconds_of(const Function& function) {
  const Clock::time_point begin = Clock::now();
  function();
  return seconds_since(begin);
}

void measure_saves(const Job& job, const std::string& file, int saves, Times& times) {
  const auto loader = make_loader(job.data, job.setup, Length::kEndless);
  advance(*loader, 2 * job.logical_shards);
  for (int i = 0; i < saves; ++i) {
    advance(*loader, std::max(job.logical_shards, 100));
    SavableDataLoaderState state;
    times.save.push_back(seconds_of([&] { state = loader->save_state_rank(); }));
    times.write.push_back(seconds_of([&] { write_loader_state(file, state); }));
    times.file_bytes.push_back(static_cast<double>(std::filesystem::file_size(file)));
  }
}

void measure_restores(const Job& job, const std::string& file, int restores, Times& times) {
  for (int i = 0; i < restores; ++i) {
    const auto loader = make_loader(job.data, job.setup, Length::kEndless);
    SavableDataLoaderState state;
    times.read.push_back(seconds_of([&] { state = read_loader_state(file); }));
    times.restore.push_back(seconds_of([&] { loader->restore_state_rank(state); }));
    times.first_batch.push_back(seconds_of([&] { loader->next(); }));
  }
}

void report(const Job& job, const Times& times, Report& report) {
  const std::string suffix = fmt::format(", {}, {} workers", job.name, job.setup.num_workers);
  const auto add = [&](const std::string& what, const std::string& unit,
                       const std::vector<double>& values, double target) {
    const Measurement measurement{what + suffix, values};
    report.add({.name = measurement.name, .unit = unit, .measurement = measurement});
    if (target > 0) {
      report.add({.name = measurement.name,
                  .unit = unit,
                  .value = measurement.median(),
                  .target = target,
                  .direction = Target::Direction::kAtMost});
    }
  };
  add("save", "s", times.save, job.save_target);
  add("encode and write", "s", times.write, 0);
  add("file", "B", times.file_bytes, job.file_target);
  add("read and decode", "s", times.read, 0);
  add("restore", "s", times.restore, job.restore_target);
  add("then first batch", "s", times.first_batch, 0);
}

std::vector<Job> jobs_on(const std::string& folder) {
  const PipelineData shards(open_data_set(make_data_set(folder, many_tars_spec())));
  const PipelineData blend(open_data_sets(folder, blended_spec(), kDataSets));
  std::vector<Job> jobs;
  for (const int workers : {0, 2}) {
    jobs.push_back(
        {.name = "200 datasets, buffer",
         .data = blend,
         .setup = {.num_workers = workers, .batch_size = kBatch, .shuffle_buffer_size = kBuffer},
         .logical_shards = std::max(workers, 1),
         .save_target = 1e-3,
         .restore_target = 20e-3,
         .file_target = 0.5e6});
    const LoaderSetup many{
        .num_workers = workers, .batch_size = kBatch, .logical_shards = kLogicalShards};
    jobs.push_back({.name = "4,096 logical shards",
                    .data = shards,
                    .setup = many,
                    .logical_shards = kLogicalShards,
                    .save_target = 10e-3,
                    .restore_target = 50e-3,
                    .file_target = 5e6});
    LoaderSetup buffered = many;
    buffered.shuffle_buffer_size = kBuffer;
    jobs.push_back({.name = "4,096 logical shards, buffer",
                    .data = shards,
                    .setup = buffered,
                    .logical_shards = kLogicalShards});
  }
  return jobs;
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::string only;
  return run_program(
      argc, argv, "large_states", "What do saving and restoring cost when a position is large?",
      [&](CLI::App& app) {
        app.add_option("--only", only, "Only jobs with this text in \"<job>, <n> workers\"");
      },
      [&](const CommonOptions& options, Report& result) {
        result.setting("batch_size", kBatch);
        result.setting("shuffle_buffer_size", kBuffer);
        const std::string file = options.data_folder + "/large.state";
        for (const Job& job : jobs_on(options.data_folder)) {
          const std::string name = fmt::format("{}, {} workers", job.name, job.setup.num_workers);
          if (name.find(only) == std::string::npos) {
            continue;
          }
          verify_resume(job, file);
          Times times;
          measure_saves(job, file, options.repetitions, times);
          measure_restores(job, file, options.repetitions, times);
          report(job, times, result);
          // Otherwise the workers of the next job would be forked with the page tables of memory
          // that this job freed.
          ::malloc_trim(0);
        }
        std::filesystem::remove(file);
      });
}
