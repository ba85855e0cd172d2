#include "cli/show/throughput.h"

#include <fmt/format.h>

#include "cli/show/output.h"
#include "cli/show/statistics_table.h"
#include "io/dataset/dataset_info.h"

namespace energon::cli {
namespace {

constexpr double kMega = 1e6;

std::string rate(double samples_per_second) {
  return with_separators(static_cast<std::int64_t>(samples_per_second));
}

std::string batches_text(std::int64_t count) {
  return fmt::format("{} {}", with_separators(count), count == 1 ? "batch" : "batches");
}

// What was measured, in one line.
std::string totals(const Throughput& result) {
  Repetition sum;
  for (const Repetition& repetition : result.repetitions) {
    sum.batches += repetition.batches;
    sum.samples += repetition.samples;
    sum.payload_bytes += repetition.payload_bytes;
    sum.seconds += repetition.seconds;
  }
  std::string text =
      fmt::format("{}, {}, {} in {:.2f} s", batches_text(sum.batches),
                  plural(sum.samples, "sample"), human_bytes(sum.payload_bytes), sum.seconds);
  if (result.repetitions.size() > 1) {
    text += fmt::format(", in {} repetitions", result.repetitions.size());
  }
  if (result.warmup_batches > 0) {
    text += fmt::format(" after {} of warm-up", batches_text(result.warmup_batches));
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

}  // namespace energon::cli
