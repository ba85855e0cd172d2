#include "cli/show/statistics_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "cli/show/output.h"

namespace energon::cli {
namespace {

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

bool is_measured(const StageStatistics& stage) {
  return stage.samples > 0 || stage.busy.count() > 0 || stage.skipped > 0 || stage.failed > 0;
}

void append_stages(std::string& text, const WorkerStatistics& worker) {
  if (std::none_of(worker.stages.begin(), worker.stages.end(), is_measured)) {
    return;
  }
  text += fmt::format("  {:<20} {:>12} {:>12} {:>10} {:>10} {:>9} {:>8}\n", "stage", "samples",
                      "bytes", "busy", "for input", "skipped", "failed");
  for (const StageStatistics& stage : worker.stages) {
    text +=
        fmt::format("  {:<20} {:>12} {:>12} {:>8.3f} s {:>8.3f} s {:>9} {:>8}\n", stage.name,
                    stage.samples, stage.bytes > 0 ? human_bytes(stage.bytes) : "-",
                    seconds(stage.busy), seconds(stage.input_wait), stage.skipped, stage.failed);
  }
}

}  // namespace

std::string to_text(const LoaderStatistics& statistics) {
  std::string text = fmt::format("verdict: {}\n", statistics.verdict().text);
  for (std::size_t i = 0; i < statistics.workers.size(); ++i) {
    const WorkerStatistics& worker = statistics.workers[i];
    text += fmt::format(
        "{}: {} batches, busy {:.3f} s ({:.3f} s CPU), for consumer {:.3f} s, {} queued\n",
        statistics.num_workers > 0 ? fmt::format("worker {}", i) : "pipeline",
        with_separators(static_cast<std::int64_t>(worker.batches)), seconds(worker.busy),
        seconds(worker.cpu), seconds(worker.consumer_wait), worker.queue_depth);
    append_stages(text, worker);
  }
  if (const auto failures = describe_failures(statistics)) {
    text += *failures + "\n";
  }
  return text;
}

std::optional<std::string> describe_failures(const LoaderStatistics& statistics) {
  if (statistics.newest_reports.empty()) {
    return std::nullopt;
  }
  // Of a broken shard reports name one sample, but all are left out.
  std::uint64_t samples = 0;
  std::set<std::pair<std::string, std::string>> shards;
  std::set<std::pair<std::string, std::string>> broken;
  for (const FailureCount& count : statistics.failures) {
    if (count.is_shard_broken) {
      broken.emplace(count.dataset_path, count.shard_name);
    } else {
      samples += count.samples;
      shards.emplace(count.dataset_path, count.shard_name);
    }
  }
  std::string text;
  if (samples > 0 || broken.empty()) {
    text = fmt::format("{} in {}", plural(static_cast<std::int64_t>(samples), "sample"),
                       plural(static_cast<std::int64_t>(shards.size()), "shard"));
  }
  if (!broken.empty()) {
    text += fmt::format("{}{} with all samples", text.empty() ? "" : " and ",
                        plural(static_cast<std::int64_t>(broken.size()), "broken shard"));
  }
  return fmt::format("{} left out, the last one: {}", text,
                     to_string(statistics.newest_reports.back()));
}

}  // namespace energon::cli
