#include "bench/support/media_run.h"

#include <chrono>
#include <thread>
#include <utility>

#include "bench/support/machine.h"
#include "io/error.h"

namespace energon::bench {
namespace {

// A worker that makes a batch uses at least a tick in this time.
constexpr std::chrono::milliseconds kIdle{60};
constexpr int kMostWaits = 100;  // on a busy machine

}  // namespace

std::unique_ptr<SavableDataLoader> media_loader(PipelineFactory pipeline) {
  return std::make_unique<SavableDataLoader>(
      std::move(pipeline), LoaderOptions{.worker_config = {.num_workers = kMediaWorkers},
                                         .prefetch_factor = kMediaPrefetch});
}

void wait_until_idle(const SavableDataLoader& loader) {
  double before = -1;
  for (int i = 0; i < kMostWaits; ++i) {
    double now = 0;
    for (const int pid : loader.worker_pids()) {
      now += cpu_seconds_of(pid).value_or(0);
    }
    if (now == before) {
      return;
    }
    before = now;
    std::this_thread::sleep_for(kIdle);
  }
}

MediaRun::MediaRun(PipelineFactory endless) : loader_(media_loader(std::move(endless))) {}

std::int64_t MediaRun::take() {
  const auto batch = loader_->next();
  if (!batch) {
    throw Error(ErrorCode::kInternal, "an endless loader came to an end");
  }
  return static_cast<std::int64_t>(batch->keys.size());
}

double MediaRun::samples_per_second(std::int64_t samples) {
  // Takes the finished batches and one more from each worker, so that the clock starts when all
  // workers have just begun a batch.
  for (int i = 0; i < kMediaWorkers * (kMediaPrefetch + 2); ++i) {
    take();
  }
  const Clock::time_point begin = Clock::now();
  std::int64_t taken = 0;
  while (taken < samples) {
    for (int worker = 0; worker < kMediaWorkers; ++worker) {
      taken += take();
    }
  }
  const double seconds = seconds_since(begin);
  wait_until_idle(*loader_);
  return static_cast<double>(taken) / seconds;
}

void report_rates(const std::vector<Measurement>& rates, const std::string& unit,
                  const MediaTarget& target, Report& report) {
  for (const Measurement& rate : rates) {
    const Measurement ratios = ratio("", rate, rates[0]);
    report.add({.name = rate.name,
                .unit = unit,
                .measurement = rate,
                .more = {{"ratio_to_bare", ratios.median()},
                         {"ratio_min", ratios.min()},
                         {"ratio_max", ratios.max()}}});
  }
  report.add({.name = target.name,
              .unit = "",
              .value = ratio("", rates.at(1), rates[0]).median(),
              .target = target.at_least});
}

}  // namespace energon::bench
