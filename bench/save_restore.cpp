// What does saving a position cost while the loader runs, and how long until the first batch after
// a restore?
//
// Saves are taken between batches, as by a trainer. A restore is measured where it is most
// expensive: at 99 % of an epoch, with a shuffle buffer. The loader that restores is a new object
// each time; the time runs from its construction until the trainer has the batch, both with a
// dataset that is already open and including opening it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/support/loader_runs.h"
#include "bench/support/program.h"
#include "io/error.h"

namespace energon::bench {
namespace {

constexpr std::int64_t kBuffer = 10'000;
constexpr std::int64_t kBatchSize = 64;
constexpr double kSaveTarget = 1e-3;
constexpr double kRestoreTarget = 0.1;

std::string buffer_name(std::int64_t buffer) {
  return buffer > 0 ? fmt::format(", buffer {}", buffer) : std::string();
}

/// Takes batches until `samples` samples were delivered.
void advance(SavableDataLoader& loader, std::int64_t samples) {
  for (std::int64_t taken = 0; taken < samples; taken += kBatchSize) {
    loader.next();
  }
}

/// The restored loader must continue like the saved one.
void verify_resume(const DataSet& data, const LoaderSetup& setup, std::int64_t position) {
  const auto loader = make_loader(open_data_set(data), setup, Length::kEndless);
  advance(*loader, position);
  const SavableDataLoaderState state =
      decode_loader_state(encode_loader_state(loader->save_state_rank()));
  const auto restored = make_loader(open_data_set(data), setup, Length::kEndless);
  restored->restore_state_rank(state);
  Verifier verifier(data.spec);
  for (int i = 0; i < 100; ++i) {
    const auto expected = loader->next();
    const auto batch = restored->next();
    if (!expected || !batch || expected->restore_key != batch->restore_key ||
        digest(*expected) != digest(*batch)) {
      throw Error(ErrorCode::kInternal, fmt::format("batch {} after the restore differs", i));
    }
    verifier.check(*batch);
  }
}

struct Saves {
  std::vector<double> seconds;
  std::size_t state_bytes = 0;
};

/// `count` saves, three batches apart, the first after the epoch's first tenth.
Saves save_while_running(const std::shared_ptr<const Webdataset>& dataset, const LoaderSetup& setup,
                         int count) {
  const auto loader = make_loader(dataset, setup, Length::kEndless);
  advance(*loader, dataset->sample_count() / 10);
  Saves saves;
  for (int i = 0; i < count; ++i) {
    advance(*loader, 3 * kBatchSize);
    const Clock::time_point begin = Clock::now();
    const SavableDataLoaderState state = loader->save_state_rank();
    saves.seconds.push_back(seconds_since(begin));
    saves.state_bytes = encode_loader_state(state).size();
  }
  return saves;
}

void report_saves(const std::shared_ptr<const Webdataset>& dataset, const LoaderSetup& setup,
                  const CommonOptions& options, int count, Report& report) {
  save_while_running(dataset, setup, count / 10 + 1);
  Measurement medians{
      fmt::format("save, {} workers{}", setup.num_workers, buffer_name(setup.shuffle_buffer_size)),
      {}};
  std::vector<double> all;
  Saves saves;
  for (int i = 0; i < options.repetitions; ++i) {
    saves = save_while_running(dataset, setup, count);
    medians.values.push_back(quantile(saves.seconds, 0.5));
    all.insert(all.end(), saves.seconds.begin(), saves.seconds.end());
  }
  report.add({.name = medians.name,
              .unit = "s",
              .measurement = medians,
              .more = {{"p99_seconds", quantile(all, 0.99)},
                       {"max_seconds", quantile(all, 1)},
                       {"saves", all.size()},
                       {"state_bytes", saves.state_bytes}}});
  report.add({.name = medians.name,
              .unit = "s",
              .value = medians.median(),
              .target = kSaveTarget,
              .direction = Target::Direction::kAtMost});
}

double restore_to_first_batch(const std::shared_ptr<const Webdataset>& dataset,
                              const LoaderSetup& setup, const SavableDataLoaderState& state,
                              Clock::time_point begin) {
  const auto loader = make_loader(dataset, setup, Length::kEndless);
  loader->restore_state_rank(state);
  loader->next();
  return seconds_since(begin);
}

void report_restores(const DataSet& data, const LoaderSetup& setup, const CommonOptions& options,
                     Report& report) {
  const auto dataset = open_data_set(data);
  const std::int64_t position = data.spec.samples / 100 * 99;
  verify_resume(data, setup, position);
  SavableDataLoaderState state;
  {
    const auto loader = make_loader(dataset, setup, Length::kEndless);
    advance(*loader, position);
    state = loader->save_state_rank();
  }
  const std::string name = fmt::format("restore to first batch, {} workers{}", setup.num_workers,
                                       buffer_name(setup.shuffle_buffer_size));
  const std::vector<Variant> variants = {
      {name, [&] { return restore_to_first_batch(dataset, setup, state, Clock::now()); }},
      {name + ", with opening the dataset",
       [&] {
         const Clock::time_point begin = Clock::now();
         return restore_to_first_batch(open_data_set(data), setup, state, begin);
       }},
  };
  const auto measurements = measure_in_turn(variants, options.repetitions);
  for (const Measurement& measurement : measurements) {
    report.add({.name = measurement.name, .unit = "s", .measurement = measurement});
  }
  if (setup.shuffle_buffer_size > 0) {
    report.add({.name = measurements[0].name,
                .unit = "s",
                .value = measurements[0].median(),
                .target = kRestoreTarget,
                .direction = Target::Direction::kAtMost});
  }
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t samples = 200'000;
  int saves = 200;
  return run_program(
      argc, argv, "save_restore",
      "What does a save cost while the loader runs, and how long until the first batch after a "
      "restore?",
      [&](CLI::App& app) {
        app.add_option("--samples", samples, "Samples in the dataset")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--saves", saves, "Saves per repetition")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("samples", samples);
        report.setting("batch_size", kBatchSize);
        const DataSet data = make_data_set(options.data_folder, text_spec(samples));
        const auto dataset = open_data_set(data);
        for (const std::int64_t buffer : {std::int64_t{0}, kBuffer}) {
          for (const int workers : {0, 1, 2}) {
            const LoaderSetup setup{workers, kBatchSize, buffer};
            report_saves(dataset, setup, options, saves, report);
            report_restores(data, setup, options, report);
          }
        }
      });
}
