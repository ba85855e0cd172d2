#include "cli/commands/throughput.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

#include "bench/support/machine.h"
#include "bench/support/measure.h"
#include "cli/interrupt.h"
#include "cli/loader_statistics.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "io/dataset/dataset_info.h"

namespace energon::cli {

// --- Spread ---

Spread spread_of(std::vector<double> values) {
  return {.median = bench::quantile(values, 0.5),
          .min = bench::quantile(values, 0),
          .max = bench::quantile(values, 1),
          .first_quartile = bench::quantile(values, 0.25),
          .third_quartile = bench::quantile(values, 0.75)};
}

bool overlap(const Spread& first, const Spread& second) {
  return first.min <= second.max && second.min <= first.max;
}

// --- Results ---

namespace {

constexpr double kMega = 1e6;

std::string rate(double samples_per_second) {
  return with_separators(static_cast<std::int64_t>(samples_per_second));
}

// The totals of all repetitions, in one line.
std::string totals(const Throughput& result) {
  Repetition sum;
  for (const Repetition& repetition : result.repetitions) {
    sum.batches += repetition.batches;
    sum.samples += repetition.samples;
    sum.payload_bytes += repetition.payload_bytes;
    sum.seconds += repetition.seconds;
  }
  std::string text =
      fmt::format("{}, {}, {} in {:.2f} s", plural(sum.batches, "batch", "batches"),
                  plural(sum.samples, "sample"), human_bytes(sum.payload_bytes), sum.seconds);
  if (result.repetitions.size() > 1) {
    text += fmt::format(", in {} repetitions", result.repetitions.size());
  }
  if (result.warmup_batches > 0) {
    text += fmt::format(" after {} of warm-up", plural(result.warmup_batches, "batch", "batches"));
  }
  return text + "\n";
}

std::string rates(const std::vector<Repetition>& repetitions) {
  const Spread samples = spread_of(repetitions, &Repetition::samples_per_second);
  const Spread megabytes = spread_of(repetitions, &Repetition::megabytes_per_second);
  if (repetitions.size() == 1) {
    return fmt::format("throughput:    {} samples/s, {:.1f} MB/s\n", rate(samples.median),
                       megabytes.median);
  }
  return fmt::format(
      "throughput:    {} samples/s, {:.1f} MB/s (medians)\n"
      "spread:        {} to {} samples/s, the middle half {} to {}\n",
      rate(samples.median), megabytes.median, rate(samples.min), rate(samples.max),
      rate(samples.first_quartile), rate(samples.third_quartile));
}

nlohmann::ordered_json to_json(const Spread& spread) {
  return {{"median", spread.median},
          {"min", spread.min},
          {"max", spread.max},
          {"first_quartile", spread.first_quartile},
          {"third_quartile", spread.third_quartile}};
}

nlohmann::ordered_json to_json(const Repetition& repetition) {
  return {{"batches", repetition.batches},
          {"samples", repetition.samples},
          {"payload_bytes", repetition.payload_bytes},
          {"seconds", repetition.seconds},
          {"latency_p50_seconds", repetition.latency_p50_seconds},
          {"latency_p99_seconds", repetition.latency_p99_seconds}};
}

nlohmann::ordered_json to_json(const ProcessFigures& process) {
  nlohmann::ordered_json json = {{"name", process.name},
                                 {"pid", process.pid},
                                 {"cpu_seconds", process.cpu_seconds},
                                 {"pss_bytes", nullptr}};
  if (process.pss_bytes) {
    json["pss_bytes"] = *process.pss_bytes;
  }
  return json;
}

template <class Item>
nlohmann::ordered_json list_of(const std::vector<Item>& items) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Item& item : items) {
    list.push_back(to_json(item));
  }
  return list;
}

}  // namespace

double Repetition::samples_per_second() const { return static_cast<double>(samples) / seconds; }

double Repetition::megabytes_per_second() const {
  return static_cast<double>(payload_bytes) / kMega / seconds;
}

std::string to_text(const Throughput& result) {
  std::string text = totals(result) + rates(result.repetitions);
  text += fmt::format(
      "touched:       {}\n"
      "first batch:   {:.1f} ms\n"
      "batch latency: p50 {:.3f} ms, p99 {:.3f} ms\n",
      result.is_touched ? "every byte" : "nothing (--no-touch)", result.first_batch_seconds * 1e3,
      spread_of(result.repetitions, &Repetition::latency_p50_seconds).median * 1e3,
      spread_of(result.repetitions, &Repetition::latency_p99_seconds).median * 1e3);
  for (const ProcessFigures& process : result.processes) {
    text += fmt::format("{:<14} {:.2f} s CPU, {} (PSS)\n", process.name + ":", process.cpu_seconds,
                        process.pss_bytes ? human_bytes(*process.pss_bytes) : "memory unknown");
  }
  return text + to_text(result.loader);
}

nlohmann::ordered_json to_json(const Throughput& result, const nlohmann::ordered_json& settings,
                               const nlohmann::ordered_json& machine) {
  const std::vector<Repetition>& repetitions = result.repetitions;
  nlohmann::ordered_json json;
  json["bench_version"] = kThroughputVersion;
  json["program"] = writer_version();
  json["settings"] = settings;
  json["machine"] = machine;
  json["samples_per_second"] = to_json(spread_of(repetitions, &Repetition::samples_per_second));
  json["megabytes_per_second"] = to_json(spread_of(repetitions, &Repetition::megabytes_per_second));
  json["repetitions"] = list_of(repetitions);
  json["warmup_batches"] = result.warmup_batches;
  json["touched_sum"] = nullptr;
  if (result.is_touched) {
    json["touched_sum"] = result.touched_sum;
  }
  json["first_batch_seconds"] = result.first_batch_seconds;
  json["processes"] = list_of(result.processes);
  json["loader"] = energon::to_json(result.loader);
  return json;
}

// --- Reading the bytes of a batch, as a trainer that uses them does ---

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

std::uint64_t word_at(const std::byte* place, std::size_t size) {
  std::uint64_t word = 0;
  std::memcpy(&word, place, size);
  return word;
}

std::uint64_t sum_of(ByteView bytes) {
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (; at + kWord <= bytes.size(); at += kWord) {
    sum += word_at(bytes.data() + at, kWord);
  }
  return at < bytes.size() ? sum + word_at(bytes.data() + at, bytes.size() - at) : sum;
}

std::uint64_t sum_of(const Value& value) {
  const auto visitor = [](const auto& content) -> std::uint64_t {
    using Kind = std::decay_t<decltype(content)>;
    std::uint64_t sum = 0;
    if constexpr (std::is_same_v<Kind, SharedBytes>) {
      sum = sum_of(content.view);
    } else if constexpr (std::is_same_v<Kind, Tensor>) {
      sum = sum_of(content.data.view);
    } else if constexpr (std::is_same_v<Kind, std::string>) {
      sum = sum_of(as_bytes(content));
    } else if constexpr (std::is_same_v<Kind, List>) {
      for (const Value& element : content) {
        sum += sum_of(element);
      }
    } else if constexpr (std::is_same_v<Kind, Mapping>) {
      for (const auto& [name, element] : content) {
        sum += sum_of(element);
      }
    } else if constexpr (std::is_same_v<Kind, Tuple>) {
      for (const Value& element : content.items) {
        sum += sum_of(element);
      }
    } else if constexpr (std::is_same_v<Kind, BigInteger>) {
      sum = sum_of(as_bytes(content.digits()));
    } else if constexpr (!std::is_same_v<Kind, LazyBytes>) {
      sum = word_at(reinterpret_cast<const std::byte*>(&content), sizeof(content));
    }
    return sum;
  };
  return std::visit(visitor, value.base());
}

/// The sum of all payload bytes of a batch, taken as 64-bit little-endian words; the last word of a
/// part is padded with zeros. Reads every byte that payload_bytes() counts; lazy bytes are not
/// fetched. Does not depend on the order of samples or parts.
std::uint64_t sum_of_words(const Sample& batch) {
  std::uint64_t sum = 0;
  for (const auto& [name, value] : batch.fields) {
    sum += sum_of(value);
  }
  return sum;
}

}  // namespace

// --- ThroughputRun ---

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
      progress_("Loading", "batches", ProgressLine::mode(measuring.is_progress_shown)),
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
    measure({std::nullopt, std::nullopt, 1});  // repetitions are whole epochs
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
    repetition.latency_p50_seconds = bench::quantile(latency_seconds_, 0.5);
    repetition.latency_p99_seconds = bench::quantile(latency_seconds_, 0.99);
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
    seconds[pid] = bench::cpu_seconds_of(pid).value_or(0);
  }
  return seconds;
}

void ThroughputRun::add_process(const std::string& name, int pid,
                                const std::map<int, double>& cpu_before) {
  const auto cpu_seconds = bench::cpu_seconds_of(pid);
  if (!cpu_seconds) {
    return;
  }
  const auto before = cpu_before.find(pid);
  result_.processes.push_back(
      {.name = name,
       .pid = pid,
       .cpu_seconds = *cpu_seconds - (before == cpu_before.end() ? 0 : before->second),
       .pss_bytes = bench::memory_of(pid, "smaps_rollup", "Pss:")});
}

}  // namespace energon::cli
