#include "energon/worker/statistics.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/hash.h"

namespace energon {
namespace {

// Below these totals, shares are meaningless.
constexpr std::uint64_t kFewestBatches = 10;
constexpr std::chrono::milliseconds kShortestTime{100};

// A worker that waits for its consumer for at least this share of its time is not the bottleneck.
constexpr double kConsumerShare = 0.5;
// A reading stage whose CPU time is below this share of the busy time waits for the storage.
constexpr double kStorageCpuShare = 0.5;
// Above this share of the busy time spent waiting for a core, the machine lacks cores.
constexpr double kCpuWaitShare = 0.4;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

double share(std::chrono::nanoseconds part, std::chrono::nanoseconds whole) {
  return whole.count() > 0 ? seconds(part) / seconds(whole) : 0;
}

/// Numbers over all workers.
struct Totals {
  std::chrono::nanoseconds busy{0};
  std::chrono::nanoseconds consumer_wait{0};
  std::chrono::nanoseconds cpu{0};
  std::chrono::nanoseconds cpu_wait{0};
  std::map<std::string, StageStatistics> stages;
};

Totals totals_of(const LoaderStatistics& statistics) {
  Totals totals;
  for (const WorkerStatistics& worker : statistics.workers) {
    totals.busy += worker.busy;
    totals.consumer_wait += worker.consumer_wait;
    totals.cpu += worker.cpu;
    totals.cpu_wait += worker.cpu_wait;
    for (const StageStatistics& stage : worker.stages) {
      StageStatistics& sum = totals.stages[stage.name];
      sum.busy += stage.busy;
      sum.bytes += stage.bytes;
    }
  }
  if (statistics.num_workers == 0) {
    totals.consumer_wait = statistics.consumer.own_time;  // the pipeline is idle meanwhile
  }
  return totals;
}

Verdict judge_stages(const Totals& totals) {
  const double cpu_share = share(totals.cpu, totals.busy);
  if (const double waits = share(totals.cpu_wait, totals.busy); waits >= kCpuWaitShare) {
    return {.limit = Bottleneck::kCpuShortage,
            .text = fmt::format(
                "not getting CPU: the batch-making threads are ready to run but wait "
                "for a core for {:.0f} % of their busy time (the CPU share is {:.0f} %): "
                "use fewer workers or threads, or give the job more cores",
                waits * 100, cpu_share * 100)};
  }
  const auto longest =
      std::max_element(totals.stages.begin(), totals.stages.end(),
                       [](const auto& a, const auto& b) { return a.second.busy < b.second.busy; });
  if (longest == totals.stages.end() || longest->second.busy.count() == 0) {
    const bool is_cpu = cpu_share >= kStorageCpuShare;
    return {.limit = is_cpu ? Bottleneck::kCpu : Bottleneck::kStorage,
            .text = fmt::format("{}: the pipeline is busy for {:.1f} s, of which {:.0f} % are CPU "
                                "time; its stages are not measured",
                                is_cpu ? "CPU" : "storage", seconds(totals.busy), cpu_share * 100)};
  }
  const auto& [name, stage] = *longest;
  const double stage_share = share(stage.busy, totals.busy);
  if (stage.bytes > 0 && cpu_share < kStorageCpuShare) {
    return {.limit = Bottleneck::kStorage,
            .stage = name,
            .text = fmt::format("storage: stage '{}' takes {:.0f} % of the busy time and the "
                                "CPU share is {:.0f} %; {:.1f} MB/s are read for each worker",
                                name, stage_share * 100, cpu_share * 100,
                                static_cast<double>(stage.bytes) / 1e6 / seconds(stage.busy))};
  }
  return {.limit = Bottleneck::kCpu,
          .stage = name,
          .text = fmt::format("CPU in stage '{}': it takes {:.0f} % of the busy time, and the CPU "
                              "share is {:.0f} %",
                              name, stage_share * 100, cpu_share * 100)};
}

Config to_json(const StageStatistics& stage) {
  return {{"name", stage.name},
          {"samples", stage.samples},
          {"bytes", stage.bytes},
          {"busy_seconds", seconds(stage.busy)},
          {"input_wait_seconds", seconds(stage.input_wait)},
          {"skipped", stage.skipped},
          {"failed", stage.failed}};
}

Config to_json(const WorkerStatistics& worker) {
  Config stages = Config::array();
  for (const StageStatistics& stage : worker.stages) {
    stages.push_back(to_json(stage));
  }
  return {{"batches", worker.batches},
          {"busy_seconds", seconds(worker.busy)},
          {"consumer_wait_seconds", seconds(worker.consumer_wait)},
          {"cpu_seconds", seconds(worker.cpu)},
          {"cpu_wait_seconds", seconds(worker.cpu_wait)},
          {"helper_cpu_seconds", seconds(worker.helper_cpu)},
          {"queue_depth", worker.queue_depth},
          {"deaths", worker.deaths},
          {"stages", std::move(stages)}};
}

Config to_json(const FailureReport& report) {
  Config samples = Config::array();
  for (const FailedSample& sample : report.samples) {
    samples.push_back({{"dataset", printable(sample.dataset_path)},
                       {"shard", printable(sample.shard_name)},
                       {"index", sample.index_in_shard ? Config(*sample.index_in_shard) : Config()},
                       {"key", printable(sample.key)}});
  }
  return {{"stage", printable(report.stage)},
          {"code", to_string(report.code)},
          {"cause", printable(report.cause)},
          {"is_shard_broken", report.is_shard_broken},
          {"samples", std::move(samples)}};
}

}  // namespace

std::string_view to_string(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kUnknown:
      return "unknown";
    case Bottleneck::kStorage:
      return "storage";
    case Bottleneck::kCpu:
      return "cpu";
    case Bottleneck::kConsumer:
      return "consumer";
    case Bottleneck::kCpuShortage:
      return "cpu_shortage";
  }
  return "unknown";
}

Verdict LoaderStatistics::verdict() const {
  const Totals totals = totals_of(*this);
  const std::chrono::nanoseconds time = totals.busy + totals.consumer_wait;
  if (consumer.batches < kFewestBatches || time < kShortestTime) {
    return {.text = fmt::format("not enough data yet: {} batches in {:.3f} s of work",
                                consumer.batches, seconds(time))};
  }
  const double waits = share(totals.consumer_wait, time);
  // Both may wait: batches are taken in turn, so a fast worker waits for a slow one.
  if (waits >= kConsumerShare && consumer.own_time >= consumer.worker_wait) {
    return {.limit = Bottleneck::kConsumer,
            .text = fmt::format("consumer: the {} for {:.0f} % of the time until batches are "
                                "taken or returned; the consumer waits {:.1f} s for batches",
                                num_workers > 0 ? "workers wait" : "pipeline waits", waits * 100,
                                seconds(consumer.worker_wait))};
  }
  return judge_stages(totals);
}

Config to_json(const LoaderStatistics& statistics) {
  const Verdict verdict = statistics.verdict();
  const ConsumerStatistics& consumer = statistics.consumer;
  Config json = {
      {"verdict",
       {{"limit", to_string(verdict.limit)}, {"stage", verdict.stage}, {"text", verdict.text}}},
      {"num_workers", statistics.num_workers},
      {"consumer",
       {{"batches", consumer.batches},
        {"samples", consumer.samples},
        {"bytes", consumer.bytes},
        {"worker_wait_seconds", seconds(consumer.worker_wait)},
        {"own_seconds", seconds(consumer.own_time)},
        {"lost_epochs", consumer.lost_epochs}}},
      {"batch_index", statistics.batch_index},
      {"earliest_state", statistics.earliest_state},
      {"certificate",
       {{"digest", to_hex(statistics.certificate.digest)},
        {"samples", statistics.certificate.samples}}},
      {"workers", Config::array()},
      {"failures", Config::array()},
      {"newest_reports", Config::array()}};
  for (const WorkerStatistics& worker : statistics.workers) {
    json["workers"].push_back(to_json(worker));
  }
  for (const FailureCount& count : statistics.failures) {
    json["failures"].push_back({{"stage", printable(count.stage)},
                                {"dataset", printable(count.dataset_path)},
                                {"shard", printable(count.shard_name)},
                                {"samples", count.samples},
                                {"is_shard_broken", count.is_shard_broken}});
  }
  for (const FailureReport& report : statistics.newest_reports) {
    json["newest_reports"].push_back(to_json(report));
  }
  return json;
}

void add_run(WorkerStatistics& sum, const WorkerStatistics& run) {
  sum.batches += run.batches;
  sum.busy += run.busy;
  sum.consumer_wait += run.consumer_wait;
  sum.cpu += run.cpu;
  sum.cpu_wait += run.cpu_wait;
  sum.helper_cpu += run.helper_cpu;
  sum.queue_depth = run.queue_depth;
  sum.deaths += run.deaths;
  for (std::size_t i = 0; i < run.stages.size(); ++i) {
    const StageStatistics& stage = run.stages[i];
    // Usually at the same index: each run makes the same pipeline.
    auto found = i < sum.stages.size() && sum.stages[i].name == stage.name
                     ? sum.stages.begin() + static_cast<std::ptrdiff_t>(i)
                     : std::find_if(sum.stages.begin(), sum.stages.end(),
                                    [&](const auto& entry) { return entry.name == stage.name; });
    if (found == sum.stages.end()) {
      sum.stages.push_back(stage);
      continue;
    }
    found->samples += stage.samples;
    found->bytes += stage.bytes;
    found->busy += stage.busy;
    found->input_wait += stage.input_wait;
    found->skipped += stage.skipped;
    found->failed += stage.failed;
  }
}

}  // namespace energon
