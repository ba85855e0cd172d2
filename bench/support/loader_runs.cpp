#include "bench/support/loader_runs.h"

#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "bench/support/measure.h"
#include "energon/worker/channel_sizes.h"
#include "io/error.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::bench {
namespace {

// Long enough for workers to fill their prefetch and fall asleep, so that they do not slow the next
// measurement.
constexpr std::chrono::milliseconds kRest{30};

LoaderOptions loader_options(const LoaderSetup& setup) {
  return {
      .worker_config = {.num_workers = setup.num_workers, .logical_shards = setup.logical_shards}};
}

std::uint64_t consume(Consumer consumer, const Sample& batch) {
  std::uint64_t sum = 0;
  for (const auto& [name, value] : batch.fields) {
    for (const Value& part : std::get<List>(value.base())) {
      sum += consume(consumer, std::get<SharedBytes>(part.base()).view);
    }
  }
  return sum;
}

}  // namespace

std::string LoaderSetup::name() const {
  return fmt::format(
      "loader, {} worker{}, batch {}{}", num_workers, num_workers == 1 ? "" : "s", batch_size,
      shuffle_buffer_size > 1 ? fmt::format(", buffer {}", shuffle_buffer_size) : "");
}

std::unique_ptr<SavableDataLoader> make_loader(PipelineData data, const LoaderSetup& setup,
                                               Length length) {
  TrainOptions train;
  train.batch_size = setup.batch_size;
  train.shuffle_buffer_size = setup.shuffle_buffer_size;
  train.parallel_slices = setup.parallel_slices;
  train.max_samples_per_sequence = setup.max_samples_per_sequence;
  train.repeat = length == Length::kEndless;
  return std::make_unique<SavableDataLoader>(train_pipeline(std::move(data), std::move(train)),
                                             loader_options(setup));
}

std::vector<std::int64_t> verify_epoch(const DataSet& data, const LoaderSetup& setup) {
  return verify_epoch(open_data_set(data), data.spec, setup);
}

std::vector<std::int64_t> verify_epoch(PipelineData data, const DataSetSpec& spec,
                                       const LoaderSetup& setup) {
  const auto loader = make_loader(std::move(data), setup, Length::kOneEpoch);
  Verifier verifier(spec);
  while (const auto batch = loader->next()) {
    verifier.check(*batch);
  }
  verifier.expect_each(1);
  return verifier.order();
}

LoaderRun::LoaderRun(PipelineData data, const LoaderSetup& setup, Consumer consumer)
    : setup_(setup),
      consumer_(consumer),
      loader_(make_loader(std::move(data), setup, Length::kEndless)) {}

std::int64_t LoaderRun::take() {
  const auto batch = loader_->next();
  if (!batch) {
    throw Error(ErrorCode::kInternal, "an endless loader came to an end");
  }
  if (consumer_ != Consumer::kDrops) {
    keep(consume(consumer_, *batch));
  }
  return static_cast<std::int64_t>(batch->keys.size());
}

double LoaderRun::samples_per_second(std::int64_t samples) {
  const auto ahead = static_cast<int>(most_batches_ahead(loader_options(setup_)));
  const int prefetched = setup_.num_workers * (ahead + 1) + 1;
  for (int i = 0; i < prefetched; ++i) {
    take();
  }
  const Clock::time_point begin = Clock::now();
  std::int64_t taken = 0;
  while (taken < samples) {
    taken += take();
  }
  const double seconds = seconds_since(begin);
  if (setup_.num_workers > 0) {
    std::this_thread::sleep_for(kRest);
  }
  return static_cast<double>(taken) / seconds;
}

}  // namespace energon::bench
