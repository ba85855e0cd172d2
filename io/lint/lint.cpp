#include "io/lint/lint.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/dataset/dataset_kind.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/scan_pipeline.h"
#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/index_cache.h"
#include "io/index/sample_index.h"
#include "io/lint/lint_files.h"
#include "io/lint/lint_findings.h"
#include "io/lint/lint_jsonl.h"
#include "io/lint/lint_metadataset.h"
#include "io/lint/lint_shard.h"
#include "io/lint/lint_summary.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

// How the rows of samples of shard `i` differ from a scan of it; nothing if they do not.
std::optional<LintProblem> sample_rows_problem(const SampleIndex& index, std::int64_t i,
                                               const ShardScan& scan) {
  for (std::size_t k = 0; k < scan.samples.size(); ++k) {
    const ScannedSample& sample = scan.samples[k];
    const auto row = index.find_sample(sample.key);
    const SampleLocation in_tar{.tar_file_id = i,
                                .sample_index = static_cast<std::int64_t>(k),
                                .bytes = {.offset = sample.offset, .size = sample.size}};
    if (row != in_tar) {
      return LintProblem{.byte_offset = sample.offset,
                         .key = sample.key,
                         .message = row ? "index.sqlite has the sample at another place"
                                        : "index.sqlite does not have the sample"};
    }
  }
  return std::nullopt;
}

// The same for the rows of parts.
std::optional<LintProblem> part_rows_problem(const SampleIndex& index, std::int64_t i,
                                             const ShardScan& scan) {
  if (!index.has_parts()) {
    return std::nullopt;  // written by an older version of Energon
  }
  std::vector<PartLocation> rows;
  index.for_each_part_of(i, [&rows](std::string_view, const PartLocation& part) {
    rows.push_back(part);
    return true;
  });
  auto row = rows.cbegin();
  for (std::size_t k = 0; k < scan.samples.size(); ++k) {
    const ScannedSample& sample = scan.samples[k];
    for (const ScannedPart& part : sample.parts) {
      const PartLocation in_tar{.tar_file_id = i,
                                .sample_index = static_cast<std::int64_t>(k),
                                .part = part.name,
                                .content = {.offset = part.content_offset, .size = part.size}};
      if (row == rows.cend() || *row != in_tar) {
        return LintProblem{
            .byte_offset = part.content_offset,
            .key = sample.key,
            .message = fmt::format("index.sqlite does not have the part '{}' at its place; prepare "
                                   "the dataset again",
                                   printable(part.name))};
      }
      ++row;
    }
  }
  if (row != rows.cend()) {
    return LintProblem{.message =
                           fmt::format("index.sqlite has {} part{} that the tar does not have",
                                       rows.cend() - row, rows.cend() - row == 1 ? "" : "s")};
  }
  if (const std::int64_t more = index.count_part_rows(i) - std::ssize(rows); more != 0) {
    return LintProblem{.message = fmt::format("index.sqlite has {} part{} of samples that it does "
                                              "not have; prepare the dataset again",
                                              more, more == 1 ? "" : "s")};
  }
  return std::nullopt;
}

class DatasetLinter {
 public:
  DatasetLinter(LintedDataset dataset, const LintOptions& options, LintReport report)
      : dataset_(std::move(dataset)), options_(options), report_(std::move(report)) {}

  LintReport run() {
    const auto total = static_cast<std::int64_t>(dataset_.shards.size());
    open_sqlite();
    {
      ScanPipeline pipeline(
          total, thread_count(options_.threads, total), options_.stop,
          [this](std::int64_t i) { return lint_shard(dataset_, name(i), options_, findings_); });
      for (std::int64_t i = 0; i < total; ++i) {
        take(i, pipeline.next());
        if (options_.progress) {
          options_.progress({.shards_done = i + 1, .shards_total = total});
        }
      }
    }
    report_.shards = total;
    warn_of_repeated_keys();
    findings_.move_to(report_);
    if (sqlite_ && report_.ok() && sqlite_->sample_count() != report_.samples) {
      report_.problems.push_back(
          {.message = fmt::format("index.sqlite has {} samples, the shards have {}",
                                  sqlite_->sample_count(), report_.samples)});
    }
    std::stable_sort(report_.problems.begin(), report_.problems.end(),
                     [](const LintProblem& a, const LintProblem& b) { return a.shard < b.shard; });
    return std::move(report_);
  }

 private:
  const std::string& name(std::int64_t i) const {
    return dataset_.shards[static_cast<std::size_t>(i)];
  }

  void open_sqlite() {
    if (dataset_.sqlite_path.empty()) {
      return;
    }
    try {
      sqlite_.emplace(dataset_.sqlite_path);
      if (const std::string wrong = sqlite_->check(); !wrong.empty()) {
        findings_.add({.message = fmt::format("index.sqlite is damaged: {}", wrong)});
        sqlite_.reset();
      }
    } catch (const Error& error) {
      sqlite_.reset();
      findings_.add(problem_of("", error));
    }
  }

  // Compares a scan with what the dataset's own files say of the shard.
  void take(std::int64_t i, const ScannedShard& shard) {
    if (shard.error) {
      try {
        std::rethrow_exception(shard.error);
      } catch (const Error& error) {
        findings_.add(problem_of(name(i), error));
      }
      return;
    }
    const auto samples = static_cast<std::int64_t>(shard.scan.samples.size());
    report_.samples += samples;
    if (samples == 0) {
      findings_.add({.shard = name(i), .message = "has no samples"});
    }
    for (const std::string& warning : shard.scan.warnings) {
      report_.warnings.push_back(fmt::format("{}: {}", printable(name(i)), warning));
    }
    if (!dataset_.counts.empty() && dataset_.counts[static_cast<std::size_t>(i)] != samples) {
      findings_.add(
          {.shard = name(i),
           .message = fmt::format(".info.json counts {} samples, the tar has {}",
                                  dataset_.counts[static_cast<std::size_t>(i)], samples)});
    }
    if (sqlite_) {
      check_rows(i, shard.scan);
    }
    check_record(i);
    if (dataset_.counts.empty()) {
      for (const ScannedSample& sample : shard.scan.samples) {
        keys_.emplace_back(xxh3_64(as_bytes(sample.key)), i);
      }
    }
  }

  // For plain tars: prepare refuses repeated keys, but a reader yields both samples.
  void warn_of_repeated_keys() {
    std::sort(keys_.begin(), keys_.end());
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> repeated;  // by two shards
    for (std::size_t k = 1; k < keys_.size(); ++k) {
      if (keys_[k].first == keys_[k - 1].first) {
        ++repeated[{keys_[k - 1].second, keys_[k].second}];
      }
    }
    for (const auto& [shards, count] : repeated) {
      report_.warnings.push_back(
          fmt::format("{}: {} of its keys are in {}, too; prepare refuses this",
                      printable(name(shards.second)), count, printable(name(shards.first))));
    }
  }

  void check_record(std::int64_t i) {
    const ShardRecord* const record = dataset_.records ? dataset_.records->find(name(i)) : nullptr;
    const std::string original = dataset_.folder + "/" + name(i);
    if (record == nullptr || !path_exists(tar_index_path(original))) {
      return;
    }
    try {
      const FileSource file(original);
      const FileSource tar(ensure_expanded(file, options_.cache_dir));
      check_recorded(*record, file.identity(), tar, tar_index_path(original));
      if (dataset_.summary != nullptr) {
        const auto& summarized = dataset_.summary->shards[static_cast<std::size_t>(i)];
        if (std::string problem = lint_summarized(summarized, dataset_.folder); !problem.empty()) {
          findings_.add({.shard = name(i), .message = std::move(problem)});
        }
      }
    } catch (const Error& error) {
      findings_.add(problem_of(name(i), error));
    }
  }

  // Of a shard whose rows differ, the first difference: the other rows are likely to differ, too.
  void check_rows(std::int64_t i, const ShardScan& scan) {
    try {
      if (auto problem = sample_rows_problem(*sqlite_, i, scan)) {
        problem->shard = name(i);
        findings_.add(std::move(*problem));
      } else if (auto in_parts = part_rows_problem(*sqlite_, i, scan)) {
        in_parts->shard = name(i);
        findings_.add(std::move(*in_parts));
      }
      if (sqlite_->has_parts() && sqlite_->has_media()) {
        sqlite_->for_each_media_of(i, "", [](std::int64_t, const MediaMetadata&) {});
      }
    } catch (const Error& error) {
      findings_.add(problem_of(name(i), error));
    }
  }

  const LintedDataset dataset_;
  const LintOptions& options_;
  std::optional<SampleIndex> sqlite_;
  std::vector<std::pair<std::uint64_t, std::int64_t>> keys_;  // XXH3-64, and the shard

  LintReport report_;  // used by the caller's thread only
  LintFindings findings_;
};

}  // namespace

LintReport lint(const std::string& path, const LintOptions& options) {
  if (is_metadataset(path)) {
    return lint_metadataset(path, options);
  }
  if (path.ends_with(".jsonl") && !fs::is_directory(path)) {
    return lint_jsonl(path, options);
  }
  LintReport report;
  const auto look = [&] {
    LintReport found;
    LintedDataset dataset = lint_files(path, options, found);
    report = DatasetLinter(std::move(dataset), options, std::move(found)).run();
  };
  if (fs::is_directory(path)) {
    read_committed(path, look);
  } else {
    look();
  }
  return report;
}

}  // namespace energon
