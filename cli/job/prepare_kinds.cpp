#include "cli/job/prepare_kinds.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/job/interrupt.h"
#include "cli/show/outcome.h"
#include "cli/show/output.h"
#include "io/dataset/dataset_kind.h"
#include "io/error.h"
#include "io/prepare/prepare_join.h"

namespace energon::cli {
namespace {

void print_jsonl(const std::string& path) {
  output().write("Preparing jsonl dataset…\n");
  output().flush();
  const StopOnInterrupt interrupt;
  const JsonlReport report = prepare_jsonl(path, interrupt.token());
  for (const std::string& warning : report.warnings) {
    print_warning(fmt::format("{}: {}", printable(path), warning));
  }
  output().print("Done. Found {} samples.\n", report.samples);
}

void print_join(const JoinReport& join) {
  if (join.rows == join.primary_samples) {
    output().print("Joined all {} samples\n", join.rows);
  } else {
    output().print("Joined {}/{} samples, skipped {} samples due to join\n", join.rows,
                   join.primary_samples, join.primary_samples - join.rows);
  }
  for (const std::int64_t missing : join.missing) {
    if (missing > 0) {
      output().print("Non-matching samples left empty, by dataset: {}\n",
                     fmt::join(join.missing, ", "));
      break;
    }
  }
}

void print_metadataset(const std::string& path) {
  output().write("Preparing metadataset…\n");
  output().flush();
  const StopOnInterrupt interrupt;
  const MetadatasetReport report = prepare_metadataset(path, interrupt.token());
  for (const JoinReport& join : report.joins) {
    print_join(join);
  }
  for (const std::string& file : report.removed) {
    output().print("Removed the unused index {}\n", file);
  }
  output().write(report.joins.empty() ? "Done. It has no joins, so it needs no index.\n"
                                      : "Done\n");
}

}  // namespace

std::optional<int> prepare_other_kind(const std::string& path,
                                      const std::vector<std::string>& shard_flags) {
  std::error_code ignored;
  const bool is_jsonl = path.ends_with(".jsonl");
  if (!std::filesystem::is_regular_file(path, ignored) || (!is_jsonl && !is_metadataset(path))) {
    return std::nullopt;
  }
  if (!shard_flags.empty()) {
    throw UsageError{
        fmt::format("{} {} for folders of shards, not for a {}", fmt::join(shard_flags, ", "),
                    shard_flags.size() == 1 ? "is" : "are", to_string(detect_dataset_kind(path)))};
  }
  if (is_jsonl) {
    print_jsonl(path);
  } else {
    print_metadataset(path);
  }
  return kExitOk;
}

}  // namespace energon::cli
