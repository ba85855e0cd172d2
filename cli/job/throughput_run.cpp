#include "cli/job/throughput_run.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/job/interrupt.h"
#include "cli/job/loader_from_flags.h"
#include "cli/job/no_samples.h"
#include "cli/job/touch.h"
#include "cli/show/output.h"
#include "cli/show/process_usage.h"

namespace energon::cli {
namespace {

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

ThroughputRun::ThroughputRun(const LoaderFlags& loader, const MeasuringFlags& measuring)
    : loader_flags_(loader),
      flags_(measuring),
      bounds_{measuring.seconds, measuring.limit, loader.epochs},
      progress_(
          "Loading", "batches",
          measuring.is_progress_shown ? ProgressLine::Mode::kShow : ProgressLine::Mode::kHide),
      pipeline_(make_pipeline(loader)),
      made_at_(Clock::now()),
      loader_(pipeline_, loader_options(loader)),
      expected_batches_(expected_batches()) {}

Throughput ThroughputRun::run() {
  warm_up();
  result_.warmup_batches = taken_;
  result_.touched_sum = 0;
  result_.is_touched = flags_.is_touched;
  const std::map<int, double> cpu_before = cpu_of_all();
  while (std::ssize(result_.repetitions) < flags_.repetitions && interrupt_signal() == 0) {
    Repetition repetition = measure(bounds_);
    const bool is_complete = interrupt_signal() == 0;
    if (is_complete || (result_.repetitions.empty() && repetition.batches > 0)) {
      result_.repetitions.push_back(repetition);
    }
  }
  result_.loader = loader_.stats();
  const std::vector<int> workers = loader_.worker_pids();
  add_process("parent", ::getpid(), cpu_before);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    add_process(fmt::format("worker {}", i), workers[i], cpu_before);
  }
  return std::move(result_);
}

void ThroughputRun::warm_up() {
  if (!flags_.warmup_batches) {
    measure(bounds_);
    return;
  }
  if (*flags_.warmup_batches > 0) {
    measure({std::nullopt, flags_.warmup_batches, std::nullopt});
  }
  if (loader_flags_.epochs && taken_in_epoch_ > 0) {
    measure({std::nullopt, std::nullopt, 1});  // a repetition is whole epochs
  }
}

Repetition ThroughputRun::measure(const Bounds& bounds) {
  Repetition repetition;
  epochs_ended_ = 0;
  latency_seconds_.clear();
  begin_ = Clock::now();
  while (!is_over(bounds, repetition)) {
    take(repetition);
  }
  repetition.seconds = seconds_between(begin_, Clock::now());
  if (!latency_seconds_.empty()) {
    std::sort(latency_seconds_.begin(), latency_seconds_.end());
    repetition.latency_p50_seconds = quantile_of_sorted(latency_seconds_, 0.5);
    repetition.latency_p99_seconds = quantile_of_sorted(latency_seconds_, 0.99);
  }
  return repetition;
}

bool ThroughputRun::is_over(const Bounds& bounds, const Repetition& so_far) const {
  return interrupt_signal() != 0 || (bounds.batches && so_far.batches >= *bounds.batches) ||
         (bounds.epochs && epochs_ended_ >= *bounds.epochs) ||
         (bounds.seconds && so_far.batches > 0 &&
          seconds_between(begin_, Clock::now()) >= *bounds.seconds);
}

void ThroughputRun::take(Repetition& to) {
  const Clock::time_point begin = Clock::now();
  const std::optional<Sample> batch = loader_.next();
  const Clock::time_point end = Clock::now();
  if (!batch) {
    end_epoch();
    return;
  }
  if (taken_ == 0) {
    result_.first_batch_seconds = seconds_between(made_at_, end);
  }
  if (flags_.is_touched) {
    result_.touched_sum += sum_of_words(*batch);
  }
  ++taken_;
  ++taken_in_epoch_;
  samples_taken_ += std::ssize(batch->keys);
  ++to.batches;
  to.samples += std::ssize(batch->keys);
  to.payload_bytes += payload_bytes(*batch);
  latency_seconds_.push_back(seconds_between(begin, end));
  show_progress();
}

void ThroughputRun::end_epoch() {
  ++epochs_ended_;
  if (taken_in_epoch_ == 0) {
    throw no_samples(loader_flags_, loader_.stats());
  }
  taken_in_epoch_ = 0;
}

void ThroughputRun::show_progress() {
  if (progress_.is_due() || taken_ == expected_batches_) {
    const double rate = static_cast<double>(samples_taken_) / progress_.elapsed_seconds();
    progress_.update(taken_, expected_batches_,
                     fmt::format("{} samples/s", with_separators(static_cast<std::int64_t>(rate))));
  }
}

std::optional<std::int64_t> ThroughputRun::expected_batches() const {
  std::optional<std::int64_t> of_one = flags_.limit;
  const auto epoch_size = loader_flags_.epochs ? loader_.size() : std::nullopt;
  if (epoch_size) {
    const std::int64_t of_epochs = *epoch_size * *loader_flags_.epochs;
    of_one = std::min(of_epochs, of_one.value_or(of_epochs));
  }
  if (!of_one || flags_.seconds) {
    return std::nullopt;
  }
  return *of_one * flags_.repetitions + flags_.warmup_batches.value_or(*of_one);
}

std::map<int, double> ThroughputRun::cpu_of_all() const {
  std::map<int, double> seconds;
  std::vector<int> pids = loader_.worker_pids();
  pids.push_back(::getpid());
  for (const int pid : pids) {
    const auto usage = usage_of(pid);
    seconds[pid] = usage ? usage->cpu_seconds : 0;
  }
  return seconds;
}

void ThroughputRun::add_process(const std::string& name, int pid,
                                const std::map<int, double>& cpu_before) {
  const auto usage = usage_of(pid);
  if (!usage) {
    return;
  }
  const auto before = cpu_before.find(pid);
  result_.processes.push_back(
      {.name = name,
       .pid = pid,
       .cpu_seconds = usage->cpu_seconds - (before == cpu_before.end() ? 0 : before->second),
       .pss_bytes = usage->pss_bytes});
}

}  // namespace energon::cli
