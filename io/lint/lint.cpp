#include "io/lint/lint.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/dataset/dataset_info.h"
#include "io/dataset/dataset_kind.h"
#include "io/dataset/expanded_copy.h"
#include "io/dataset/read_committed.h"
#include "io/dataset/scan_pipeline.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_record.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/file_source.h"
#include "io/hash.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/parallel_for.h"
#include "io/index/sample_index.h"
#include "io/index/tar_index.h"
#include "io/lint/lint_jsonl.h"
#include "io/lint/lint_metadataset.h"
#include "io/lint/lint_parts.h"
#include "io/mutex.h"
#include "io/path_exists.h"
#include "io/recipe/dataset_yaml.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

// What the dataset's own files say; of plain tars, only the names.
struct Dataset {
  std::string folder;
  std::vector<std::string> shards;
  std::vector<std::int64_t> counts;  // by .info.json; empty if there is none
  std::string sqlite_path;           // empty if there is none
  std::optional<ShardRecords> records = std::nullopt;
};

LintProblem problem_of(const std::string& shard, const Error& error) {
  return {.shard = shard,
          .byte_offset = error.context().byte_offset,
          .key = error.context().sample_key,
          .message = error.message()};
}

// Of the split file of this name, which must name shards of .info.json.
void check_split(const Dataset& dataset, const std::string& meta,
                 const std::optional<std::string>& name, LintReport& report) {
  const std::string place = name ? printable(*name) + ": " : "";
  const SplitConfig config = read_split_config(meta, name);
  const std::unordered_set<std::string> known(dataset.shards.begin(), dataset.shards.end());
  for (const SplitConfig::Part& part : config.parts) {
    if (part.patterns.empty()) {
      report.warnings.push_back(
          fmt::format("{}split part '{}' is empty", place, printable(part.name)));
      continue;
    }
    for (const std::string& shard : select_shards(config, part.name, meta).names) {
      if (!known.contains(shard)) {
        report.problems.push_back(
            {.shard = shard,
             .message = fmt::format("{}split part '{}' names it, .info.json does not", place,
                                    printable(part.name))});
      }
    }
  }
}

void check_splits(const Dataset& dataset, const std::string& meta, const LintOptions& options,
                  LintReport& report) {
  const auto attempt = [&](const auto& check) {
    try {
      check();
    } catch (const Error& error) {
      report.problems.push_back(problem_of("", error));
    }
  };
  for (const std::optional<std::string>& name : options.split_configs) {
    attempt([&] { check_split(dataset, meta, name, report); });
  }
  if (options.split_configs.empty()) {
    attempt([&] {
      const DatasetYaml yaml = read_dataset_yaml(dataset.folder, std::nullopt);
      check_split(dataset, meta, yaml.split_config, report);
    });
  }
}

Dataset find_dataset(const std::string& path, const LintOptions& options, LintReport& report) {
  Dataset dataset;
  if (!fs::is_directory(path)) {
    ShardList list = list_shards({path});
    dataset.folder = std::move(list.folder);
    dataset.shards = std::move(list.names);
    return dataset;
  }
  dataset.folder = path;
  const std::string meta = path + "/.nv-meta";
  const auto info = read_dataset_info(meta);
  if (!info) {
    if (path_exists(meta)) {
      report.problems.push_back(
          {.message = ".nv-meta/.info.json is missing: the dataset is not prepared completely"});
    }
    FoundShards found = find_shards(path);
    for (std::string& warning : found.warnings()) {
      report.warnings.push_back(std::move(warning));
    }
    dataset.shards = std::move(found.names);
    if (dataset.shards.empty()) {
      throw Error(ErrorCode::kNotFound, "no shards in this folder or below it", {.path = path});
    }
    return dataset;
  }
  for (const ShardCount& shard : info->shards) {
    dataset.shards.push_back(shard.name);
    dataset.counts.push_back(shard.sample_count);
  }
  if (path_exists(meta + "/index.sqlite")) {
    dataset.sqlite_path = meta + "/index.sqlite";
  }
  try {
    dataset.records = ShardRecords::load(meta, *info);
  } catch (const Error& error) {
    report.problems.push_back(problem_of("", error));
  }
  check_splits(dataset, meta, options, report);
  return dataset;
}

std::string different_bytes(std::int64_t sample) {
  return fmt::format(
      "the bytes of sample {} are not those that were prepared: their checksum differs", sample);
}

class Linter {
 public:
  Linter(Dataset dataset, const LintOptions& options, LintReport report)
      : dataset_(std::move(dataset)), options_(options), report_(std::move(report)) {}

  LintReport run() {
    const auto total = static_cast<std::int64_t>(dataset_.shards.size());
    open_sqlite();
    {
      ScanPipeline pipeline(total, thread_count(options_.threads, total), options_.stop,
                            [this](std::int64_t i) { return scan(i); });
      for (std::int64_t i = 0; i < total; ++i) {
        take(i, pipeline.next());
        if (options_.progress) {
          options_.progress({.shards_done = i + 1, .shards_total = total});
        }
      }
    }
    report_.shards = total;
    warn_of_repeated_keys();
    add_found();
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

  void add(LintProblem problem) {
    const MutexLock lock(mutex_);
    problems_.push_back(std::move(problem));
  }

  // Moves what all threads found into the report.
  void add_found() {
    const MutexLock lock(mutex_);
    std::ranges::move(problems_, std::back_inserter(report_.problems));
    report_.samples_checksummed = samples_checksummed_;
  }

  void open_sqlite() {
    if (dataset_.sqlite_path.empty()) {
      return;
    }
    try {
      sqlite_.emplace(dataset_.sqlite_path);
      if (const std::string wrong = sqlite_->check(); !wrong.empty()) {
        add({.message = fmt::format("index.sqlite is damaged: {}", wrong)});
        sqlite_.reset();
      }
    } catch (const Error& error) {
      sqlite_.reset();
      add(problem_of("", error));
    }
  }

  // On a pool thread: what concerns one shard and its neighbours on disk.
  ScannedShard scan(std::int64_t i) {
    const std::string original = dataset_.folder + "/" + name(i);
    const FileSource tar(ensure_expanded(original, options_.cache_dir));
    try {
      ShardScan scan = read_copy(original, tar.path(), [&] {
        return scan_shard(tar, {.strictness = options_.strictness});
      });
      ScannedShard shard{.scan = std::move(scan), .tar_size = tar.size()};
      check_index(i, tar, shard.scan, tar_index_path(original));
      check_parts(i, tar, shard.scan);
      return shard;
    } catch (const Error& error) {
      check_by_index(i, tar, tar_index_path(original), error.context().byte_offset);
      throw;
    }
  }

  void check_parts(std::int64_t i, const FileSource& tar, const ShardScan& scan) {
    const auto report = [&](std::size_t sample, const ScannedPart& part, std::string what) {
      add({.shard = name(i),
           .byte_offset = part.content_offset,
           .key = scan.samples[sample].key,
           .message = fmt::format("part '{}' {}", printable(part.name), what)});
    };
    for (std::size_t k = 0; k < scan.samples.size() && !options_.stop.stop_requested(); ++k) {
      lint_parts(tar, scan, k, report);
    }
  }

  // The walk through the tar ended at `known`, but the index says where the other samples are.
  void check_by_index(std::int64_t i, const FileSource& tar, const std::string& index_path,
                      std::optional<std::uint64_t> known) {
    std::optional<TarIndex> index;
    std::optional<ChecksumFile> expected;
    try {
      index = TarIndex::load(index_path, tar.size());
      const std::string path = checksum_path(index_path);
      if (path_exists(path)) {
        expected = ChecksumFile::load(path, tar.size(), index->sample_count());
      }
    } catch (const Error&) {
      return;  // what is wrong with the tar is said
    }
    std::vector<std::byte> bytes;
    for (std::int64_t k = 0; k < index->sample_count() && !options_.stop.stop_requested(); ++k) {
      const ByteRange range = index->range(k);
      try {
        bytes.resize(range.size);
        tar.read_at(range.offset, bytes);
        TarWalker walker(bytes, range.offset);
        while (walker.next()) {
        }
        if (expected && xxh3_64(bytes) != expected->digest(k)) {
          add({.shard = name(i), .byte_offset = range.offset, .message = different_bytes(k)});
        }
      } catch (const Error& error) {
        if (!known || error.context().byte_offset != known) {
          add(problem_of(name(i), error));
        }
      }
    }
  }

  void check_index(std::int64_t i, const FileSource& tar, const ShardScan& scan,
                   const std::string& index_path) {
    if (!path_exists(index_path)) {
      if (!dataset_.counts.empty()) {
        add({.shard = name(i), .message = "the index is missing: " + printable(index_path)});
      }
      return;
    }
    try {
      const TarIndex index = TarIndex::load(index_path, tar.size());
      const auto samples = static_cast<std::int64_t>(scan.samples.size());
      if (index.sample_count() != samples) {
        add({.shard = name(i),
             .message = fmt::format("the index lists {} samples, the tar has {}",
                                    index.sample_count(), samples)});
        return;
      }
      for (std::int64_t k = 0; k <= samples; ++k) {
        const bool is_end = k == samples;
        const auto at = static_cast<std::size_t>(k);
        const std::uint64_t actual = is_end ? scan.end_offset : scan.samples[at].offset;
        if (index.entries()[at] != actual) {
          add({.shard = name(i),
               .byte_offset = actual,
               .key = is_end ? std::nullopt : std::optional(scan.samples[at].key),
               .message = fmt::format(
                   "the index says byte {} for {} {}, the tar {}", index.entries()[at],
                   is_end ? "the end after sample" : "sample", is_end ? k - 1 : k, actual)});
          return;
        }
      }
      check_checksums(i, tar, index, scan, checksum_path(index_path));
    } catch (const Error& error) {
      add(problem_of(name(i), error));
    }
  }

  void check_checksums(std::int64_t i, const FileSource& tar, const TarIndex& index,
                       const ShardScan& scan, const std::string& path) {
    if (!path_exists(path)) {
      if (dataset_.records && dataset_.records->has_checksums()) {
        add({.shard = name(i),
             .message = "the checksum file is missing, with which the dataset was prepared: " +
                        printable(path)});
      }
      return;
    }
    const ChecksumFile expected = ChecksumFile::load(path, tar.size(), index.sample_count());
    const std::vector<std::uint64_t> actual = compute_checksums(tar, index);
    for (std::int64_t k = 0; k < index.sample_count(); ++k) {
      if (actual[static_cast<std::size_t>(k)] != expected.digest(k)) {
        add({.shard = name(i),
             .byte_offset = index.range(k).offset,
             .key = scan.samples[static_cast<std::size_t>(k)].key,
             .message = different_bytes(k)});
      }
    }
    const MutexLock lock(mutex_);
    samples_checksummed_ += index.sample_count();
  }

  // On the caller's thread: what concerns the dataset as a whole.
  void take(std::int64_t i, const ScannedShard& shard) {
    if (shard.error) {
      try {
        std::rethrow_exception(shard.error);
      } catch (const Error& error) {
        add(problem_of(name(i), error));
      }
      return;
    }
    const auto samples = static_cast<std::int64_t>(shard.scan.samples.size());
    report_.samples += samples;
    if (samples == 0) {
      add({.shard = name(i), .message = "has no samples"});
    }
    for (const std::string& warning : shard.scan.warnings) {
      report_.warnings.push_back(fmt::format("{}: {}", printable(name(i)), warning));
    }
    if (!dataset_.counts.empty() && dataset_.counts[static_cast<std::size_t>(i)] != samples) {
      add({.shard = name(i),
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

  // Of plain tars; a prepared dataset has none. Reading takes both samples, prepare refuses them.
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
    } catch (const Error& error) {
      add(problem_of(name(i), error));
    }
  }

  void check_rows(std::int64_t i, const ShardScan& scan) {
    try {
      for (std::size_t k = 0; k < scan.samples.size(); ++k) {
        const ScannedSample& sample = scan.samples[k];
        const auto row = sqlite_->find_sample(sample.key);
        if (!row || row->tar_file_id != i || row->sample_index != static_cast<std::int64_t>(k) ||
            row->bytes.offset != sample.offset) {
          add({.shard = name(i),
               .byte_offset = sample.offset,
               .key = sample.key,
               .message = row ? "index.sqlite has the sample at another place"
                              : "index.sqlite does not have the sample"});
          return;  // the others of this shard are likely to differ, too
        }
      }
    } catch (const Error& error) {
      add(problem_of(name(i), error));
    }
  }

  const Dataset dataset_;
  const LintOptions& options_;
  std::optional<SampleIndex> sqlite_;
  std::vector<std::pair<std::uint64_t, std::int64_t>> keys_;  // XXH3-64, and the shard

  LintReport report_;  // of the caller's thread

  Mutex mutex_;
  std::vector<LintProblem> problems_ ENERGON_GUARDED_BY(mutex_);
  std::int64_t samples_checksummed_ ENERGON_GUARDED_BY(mutex_) = 0;
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
    Dataset dataset = find_dataset(path, options, found);
    report = Linter(std::move(dataset), options, std::move(found)).run();
  };
  if (fs::is_directory(path)) {
    read_committed(path, look);
  } else {
    look();
  }
  return report;
}

}  // namespace energon
