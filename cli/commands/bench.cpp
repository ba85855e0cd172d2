// energon bench: how fast the loader delivers the user's own data.
//
// Batches are taken and dropped at once, as by a trainer that takes no time. The measurement begins
// after the warm-up.

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/command.h"
#include "cli/job/at_least.h"
#include "cli/job/interrupt.h"
#include "cli/job/loader_flags.h"
#include "cli/job/loader_from_flags.h"
#include "cli/job/no_samples.h"
#include "cli/job/seconds.h"
#include "cli/show/output.h"
#include "cli/show/process_usage.h"
#include "cli/show/progress_line.h"
#include "cli/show/throughput.h"
#include "energon/loader/savable_data_loader.h"
#include "io/error.h"

namespace energon::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kDefaultSeconds = 10;

struct BenchFlags {
  LoaderFlags loader;
  std::optional<double> seconds;
  std::optional<std::int64_t> batches;
  std::int64_t warmup_batches = 0;
  bool is_json = false;
  bool is_progress_shown = true;
};

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

class Bench {
 public:
  explicit Bench(const BenchFlags& flags)
      : flags_(flags),
        progress_("Loading", "batches",
                  flags.is_progress_shown ? ProgressLine::Mode::kShow : ProgressLine::Mode::kHide),
        pipeline_(make_pipeline(flags.loader)),
        made_at_(Clock::now()),
        loader_(pipeline_, loader_options(flags.loader)) {
    if (flags_.batches || flags_.loader.epochs) {
      seconds_limit_ = flags_.seconds;
    } else {
      seconds_limit_ = flags_.seconds.value_or(kDefaultSeconds);
    }
    expected_batches_ = flags_.batches;
    const auto epoch_size = flags_.loader.epochs ? loader_.size() : std::nullopt;
    if (!expected_batches_ && epoch_size) {
      expected_batches_ = *epoch_size * *flags_.loader.epochs - flags_.warmup_batches;
    }
  }

  Throughput run() {
    while (taken_ < flags_.warmup_batches && !is_over_) {
      take();
    }
    result_.latency_seconds.clear();
    result_.batches = result_.samples = 0;
    result_.payload_bytes = 0;
    const std::map<int, double> cpu_before = cpu_of_all();
    begin_ = Clock::now();
    while (!is_over_ && !reached_limit()) {
      take();
    }
    result_.seconds = seconds_between(begin_, Clock::now());
    result_.loader = loader_.stats();
    add_processes(cpu_before);
    return std::move(result_);
  }

 private:
  bool reached_limit() const {
    return interrupt_signal() != 0 || (flags_.batches && result_.batches >= *flags_.batches) ||
           (seconds_limit_ && seconds_between(begin_, Clock::now()) >= *seconds_limit_);
  }

  void take() {
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
    ++taken_;
    ++taken_in_epoch_;
    ++result_.batches;
    result_.samples += static_cast<std::int64_t>(batch->keys.size());
    result_.payload_bytes += payload_bytes(*batch);
    result_.latency_seconds.push_back(seconds_between(begin, end));
    if (progress_.is_due() || result_.batches == expected_batches_) {
      progress_.update(result_.batches, expected_batches_,
                       fmt::format("{} samples/s", with_separators(static_cast<std::int64_t>(
                                                       static_cast<double>(result_.samples) /
                                                       progress_.elapsed_seconds()))));
    }
  }

  void end_epoch() {
    ++epochs_ended_;
    is_over_ = flags_.loader.epochs && epochs_ended_ >= *flags_.loader.epochs;
    if (taken_in_epoch_ == 0) {
      throw no_samples(flags_.loader);
    }
    taken_in_epoch_ = 0;
  }

  std::map<int, double> cpu_of_all() const {
    std::map<int, double> seconds;
    std::vector<int> pids = loader_.worker_pids();
    pids.push_back(::getpid());
    for (const int pid : pids) {
      const auto usage = usage_of(pid);
      seconds[pid] = usage ? usage->cpu_seconds : 0;
    }
    return seconds;
  }

  void add_processes(const std::map<int, double>& cpu_before) {
    const std::vector<int> workers = loader_.worker_pids();
    add_process("parent", ::getpid(), cpu_before);
    for (std::size_t i = 0; i < workers.size(); ++i) {
      add_process(fmt::format("worker {}", i), workers[i], cpu_before);
    }
  }

  void add_process(const std::string& name, int pid, const std::map<int, double>& cpu_before) {
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

  const BenchFlags& flags_;
  ProgressLine progress_;
  const PipelineFactory pipeline_;
  const Clock::time_point made_at_;
  SavableDataLoader loader_;
  std::optional<double> seconds_limit_;
  std::optional<std::int64_t> expected_batches_;

  Clock::time_point begin_;  // of the measured time
  std::int64_t taken_ = 0;   // batches ever
  std::int64_t taken_in_epoch_ = 0;
  std::int64_t epochs_ended_ = 0;
  bool is_over_ = false;
  Throughput result_;
};

int run_bench(const BenchFlags& flags) {
  Throughput result = [&flags] { return Bench(flags).run(); }();
  const int signal = interrupt_signal();
  if (result.batches == 0) {
    if (signal != 0) {
      return kExitSignal + signal;
    }
    throw Error(ErrorCode::kInvalidArgument,
                "no batch was left to measure after the warm-up; lower --warmup-batches");
  }
  if (signal != 0) {
    print_warning("interrupted; these are the numbers until then");
  }
#ifndef NDEBUG
  print_warning("this program was built without optimisation; its numbers say little");
#endif
  if (flags.is_json) {
    output().print("{}\n", to_json(std::move(result)).dump(2));
  } else {
    output().write(to_text(std::move(result)));
  }
  return signal != 0 ? kExitSignal + signal : kExitOk;
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  CLI::App* const command =
      app.add_subcommand("bench", "Measure the loader's throughput on your own data");
  const auto flags = std::make_shared<BenchFlags>();
  add_loader_flags(*command, flags->loader, PathCount::kSeveral);
  command
      ->add_option("--seconds", flags->seconds,
                   "Measure so long; default: 10, unless --batches or --epochs end it")
      ->check(seconds());
  command->add_option("--batches", flags->batches, "Measure so many batches")->check(at_least(1));
  command->add_option("--warmup-batches", flags->warmup_batches, "Batches before measuring begins")
      ->capture_default_str()
      ->check(at_least(0));
  command->add_flag("--json", flags->is_json, "Result as JSON");
  command->add_flag("--progress,!--no-progress", flags->is_progress_shown,
                    "Show a progress bar [on]");
  command->callback([flags, &run] { run = [flags] { return run_bench(*flags); }; });
}

}  // namespace energon::cli
