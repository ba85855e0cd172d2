#include "io/lint/lint.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/concurrency.h"
#include "io/dataset/dataset_kind.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/scan_pipeline.h"
#include "io/dataset/shard_record.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/index_cache.h"
#include "io/index/jsonl_index.h"
#include "io/index/sample_index.h"
#include "io/index/tar_index.h"
#include "io/lint/lint_dataset.h"
#include "io/recipe/join_index.h"
#include "io/recipe/recipe.h"
#include "io/shared_folder.h"

namespace energon {

namespace fs = std::filesystem;

// --- JSONL files ---

namespace {

using Json = nlohmann::json;

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

// Strips the library's name and the line number, which is always 1.
std::string reason_of(const Json::exception& error) {
  std::string_view text = error.what();
  for (const std::string_view mark : {"] ", "column "}) {
    const std::size_t begin = text.find(mark);
    text.remove_prefix(begin == std::string_view::npos ? 0 : begin + mark.size());
  }
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits != std::string_view::npos && digits > 0 && text.substr(digits).starts_with(": ")) {
    text.remove_prefix(digits + 2);
  }
  return printable(text);
}

class JsonlLinter {
 public:
  JsonlLinter(const std::string& path, const LintOptions& options)
      : options_(options), file_(path), shard_(std::filesystem::path(path).filename().string()) {}

  LintReport run() {
    std::string block;
    for (std::uint64_t offset = 0; offset < file_.size(); offset += block.size()) {
      if (options_.stop.stop_requested()) {
        throw Error(ErrorCode::kCancelled, "lint was stopped", {.path = file_.path()});
      }
      block.resize(std::min<std::uint64_t>(kBlockBytes, file_.size() - offset));
      file_.read_at(offset, std::as_writable_bytes(std::span(block)));
      feed(block);
    }
    if (!line_.empty()) {
      end_line();  // the last line may lack a line end
    }
    if (entries_.empty()) {
      add("no samples: the file is empty or has only blank lines");
    } else if (!has_no_object_) {
      check_index();
    }
    report_.shards = 1;
    if (options_.progress) {
      options_.progress({.shards_done = 1, .shards_total = 1});
    }
    return std::move(report_);
  }

 private:
  void add(std::string message, std::optional<std::uint64_t> byte = std::nullopt) {
    report_.problems.push_back(
        {.shard = shard_, .byte_offset = byte, .message = std::move(message)});
  }

  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t newline = bytes.find('\n');
      const std::size_t size = newline == std::string_view::npos ? bytes.size() : newline + 1;
      line_ += bytes.substr(0, size);
      bytes.remove_prefix(size);
      if (newline != std::string_view::npos) {
        end_line();
      }
    }
  }

  void end_line() {
    ++number_;
    const std::uint64_t begin = std::exchange(line_begin_, line_begin_ + line_.size());
    const std::size_t first = line_.find_first_not_of(kWhiteSpace);
    if (first != std::string::npos) {
      // The first sample includes the blank lines before it.
      entries_.push_back(entries_.empty() ? 0 : begin);
      check(std::string_view(line_).substr(first, line_.find_last_not_of(kWhiteSpace) + 1 - first),
            begin + first);
    }
    line_.clear();
  }

  void check(std::string_view text, std::uint64_t begin) {
    if (text.front() != '{' || text.back() != '}') {
      has_no_object_ = true;
      const bool is_first = text.front() != '{';
      add(fmt::format("line {} is not a JSON object: it {} with '{}'", number_,
                      is_first ? "begins" : "ends",
                      printable(text.substr(is_first ? 0 : text.size() - 1, 1))),
          begin);
      return;
    }
    try {
      [[maybe_unused]] const Json value = Json::parse(text);
      ++report_.samples;
      check_content(text, begin);
    } catch (const Json::parse_error& error) {
      // Counted from 1.
      add(fmt::format("line {} is not valid JSON: {}", number_, reason_of(error)),
          begin + (error.byte > 0 ? error.byte - 1 : 0));
    } catch (const Json::exception& error) {
      add(fmt::format("line {} cannot be read: {}", number_, reason_of(error)), begin);
    }
  }

  // A line is one part, "json".
  void check_content(std::string_view text, std::uint64_t begin) {
    if (!options_.check_part) {
      return;
    }
    if (const auto what = options_.check_part("json", [text] {
          return SharedBytes{as_bytes(text), nullptr};
        })) {
      add(fmt::format("line {} {}", number_, *what), begin);
    }
  }

  void check_index() {
    const std::string path = jsonl_index_path(file_.path());
    if (!path_exists(path)) {
      return;
    }
    try {
      if (const auto proof = jsonl_proof_of_shrinking(path, file_.size())) {
        add(
            fmt::format("{}; if that was on purpose, remove '{}' or run energon prepare on the "
                        "file",
                        *proof, printable(path)));
        return;
      }
      if (!has_time_of(path, file_.identity())) {
        report_.warnings.push_back(fmt::format(
            "{} has a different modification time than the file; readers will rebuild the index",
            printable(path)));
        return;
      }
      const JsonlIndex index = JsonlIndex::load(path, file_.size());
      entries_.push_back(file_.size());
      const auto [actual, stored] = std::mismatch(entries_.begin(), entries_.end(),
                                                  index.entries().begin(), index.entries().end());
      if (actual != entries_.end() || stored != index.entries().end()) {
        const auto sample = actual - entries_.begin();
        add(fmt::format("the index next to it has different offsets from sample {} on; run energon "
                        "prepare on the file",
                        sample),
            actual == entries_.end() ? std::nullopt : std::optional(*actual));
      }
    } catch (const Error& error) {
      add(error.what());
    }
  }

  const LintOptions& options_;
  const FileSource file_;
  const std::string shard_;
  LintReport report_;

  std::int64_t number_ = 0;  // number of the last complete line
  std::uint64_t line_begin_ = 0;
  std::string line_;                    // the current line so far
  std::vector<std::uint64_t> entries_;  // entries of the index, except the end
  bool has_no_object_ = false;          // if true, no index can be built
};

// Reads and parses every line, and checks the index next to the file, if there is one. Throws Error
// (kNotFound, kIo, kCancelled).
LintReport lint_jsonl(const std::string& path, const LintOptions& options) {
  return JsonlLinter(path, options).run();
}

// --- Metadatasets ---

// Split files of one dataset; nullopt is the default one.
using SplitConfigs = std::set<std::optional<std::string>>;

struct PartOfSplit {
  std::string path;  // path of the dataset
  std::optional<std::string> split_config;
  std::string part;

  auto operator<=>(const PartOfSplit&) const = default;
};

// Errors that concern the machine or the caller, not the data.
bool ends_lint(ErrorCode code) {
  return code == ErrorCode::kCancelled || code == ErrorCode::kResourceExhausted ||
         code == ErrorCode::kInternal;
}

class MetadatasetLinter {
 public:
  MetadatasetLinter(const std::string& path, const LintOptions& options)
      : path_(std::filesystem::absolute(path).lexically_normal().string()), options_(options) {}

  LintReport run() {
    report_.datasets = 0;
    for (const MetadatasetSplit& split : read_metadataset(path_).splits) {
      attempt(path_, fmt::format("split '{}', which was not read: ", printable(split.name)),
              [&] { add_recipe(load_recipe(path_, split.name)); });
    }
    for (const std::string& path : datasets_) {
      attempt(path, "", [&] { lint_dataset(path); });
    }
    for (const PartOfSplit& part : parts_) {
      check_part(part);
    }
    for (const LeafReference& join : joins_) {
      attempt(path_, "join: ", [&] {
        if (checked_joins_.insert(locate_join(join).index_path).second) {
          read_committed(dataset_paths(join), [&] { check_join(join); });
        }
      });
    }
    return std::move(report_);
  }

 private:
  // Turns an exception of `body` into a problem of `dataset`.
  template <class Body>
  void attempt(const std::string& dataset, const std::string& prefix, const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      if (ends_lint(error.code())) {
        throw;
      }
      report_.problems.push_back({.dataset = dataset, .message = prefix + error.what()});
    }
  }

  void add_recipe(const Recipe& recipe) {
    for (const LeafReference& leaf : recipe.leaves) {
      if (leaf.kind == LeafReference::Kind::kJoin) {
        joins_.push_back(leaf);
      } else {
        add({leaf.path, leaf.split_config, leaf.split_part});
      }
      for (const JoinColumn& column : leaf.columns) {
        add({column.path, column.split_config, column.split_part});
      }
      for (const AuxReference& aux : leaf.aux) {
        // A folder, or an index of media, has nothing to check.
        if (aux.kind == AuxReference::Kind::kJsonl ||
            (aux.kind == AuxReference::Kind::kWebdataset &&
             detect_dataset_kind(aux.path) == DatasetKind::kPrepared)) {
          add(aux.path);
        }
      }
    }
  }

  void add(const PartOfSplit& part) {
    if (path_exists(part.path + "/.nv-meta")) {
      parts_.insert(part);
    }
    add(part.path).insert(part.split_config);
  }

  SplitConfigs& add(const std::string& path) {
    const auto [splits, is_new] = splits_.try_emplace(path);
    if (is_new) {
      datasets_.push_back(path);
    }
    return splits->second;
  }

  void lint_dataset(const std::string& path) {
    ++report_.datasets;
    LintOptions options = options_;
    const SplitConfigs& splits = splits_.at(path);
    options.split_configs.assign(splits.begin(), splits.end());
    if (options_.progress) {
      options.progress = [&](LintProgress progress) {
        progress.dataset = path;
        options_.progress(progress);
      };
    }
    LintReport found = lint(path, options);
    report_.shards += found.shards;
    report_.samples += found.samples;
    report_.samples_checksummed += found.samples_checksummed;
    for (LintProblem& problem : found.problems) {
      problem.dataset = path;
      report_.problems.push_back(std::move(problem));
    }
    for (const std::string& warning : found.warnings) {
      report_.warnings.push_back(fmt::format("{}: {}", printable(path), warning));
    }
  }

  // Checks that the part exists and has shards. The split file itself was checked before.
  void check_part(const PartOfSplit& part) {
    const std::string meta = part.path + "/.nv-meta";
    SplitConfig config;
    try {
      config = read_split_config(meta, part.split_config);
    } catch (const Error&) {
      return;
    }
    attempt(part.path, "", [&] { select_shards(config, part.part, meta); });
  }

  // Checks that each place in the index is a sample of its shard.
  void check_join(const LeafReference& join) {
    const JoinFiles files = locate_join(join);
    const JoinIndex index = open_join_index(files, join);
    std::vector<JoinIndex::TarSizes> sizes;
    std::vector<std::vector<std::optional<TarIndex>>> tars;
    for (const JoinSource& source : files.sources) {
      JoinIndex::TarSizes& column_sizes = sizes.emplace_back();
      auto& column_tars = tars.emplace_back();
      for (std::size_t i = 0; i < source.shards.size(); ++i) {
        if (source.is_shard_excluded(i)) {
          column_sizes.emplace_back(std::nullopt);
          column_tars.emplace_back(std::nullopt);
          continue;
        }
        const std::string shard = source.dataset_path + "/" + source.shards[i];
        const FileSource tar(ensure_expanded(shard, options_.cache_dir));
        column_sizes.emplace_back(tar.size());
        column_tars.emplace_back(TarIndex::load(tar_index_path(shard), tar.size()));
      }
    }
    index.check(sizes);
    index.for_each_row([&](std::int64_t i, const JoinRow& row) {
      for (std::size_t c = 0; c < row.size(); ++c) {
        if (row[c] &&
            !has_sample_at(*tars[c][static_cast<std::size_t>(row[c]->shard)], row[c]->bytes)) {
          throw Error(
              ErrorCode::kCorruptData,
              fmt::format(
                  "row {} points to bytes {} to {} of shard '{}' of '{}', which are not a sample; "
                  "run energon prepare on the metadataset",
                  i, row[c]->bytes.offset, row[c]->bytes.end(),
                  printable(files.sources[c].shards[static_cast<std::size_t>(row[c]->shard)]),
                  printable(files.sources[c].dataset_path)),
              {.path = files.index_path});
        }
      }
    });
  }

  static bool has_sample_at(const TarIndex& tar, const ByteRange& bytes) {
    const auto begins = tar.entries();
    const auto begin = std::lower_bound(begins.begin(), begins.end() - 1, bytes.offset);
    return begin != begins.end() - 1 && *begin == bytes.offset &&
           tar.range(begin - begins.begin()).end() == bytes.end();
  }

  const std::string path_;
  const LintOptions& options_;
  LintReport report_;

  std::vector<std::string> datasets_;  // by path, in the order of the recipes
  std::map<std::string, SplitConfigs> splits_;
  std::set<PartOfSplit> parts_;  // parts that the recipes use
  std::vector<LeafReference> joins_;
  std::set<std::string> checked_joins_;  // by path of the index
};

// Lints each dataset of any split once: leaves, datasets of joins, and auxiliary datasets. Also
// lints the join indices. Throws Error as read_metadataset(), and kCancelled.
LintReport lint_metadataset(const std::string& path, const LintOptions& options) {
  return MetadatasetLinter(path, options).run();
}

// --- Datasets ---

// The first difference between the sample rows of shard `i` and its scan; nullopt if there is none.
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
                         .message = row ? "index.sqlite has the sample at a different place"
                                        : "index.sqlite lacks the sample"};
    }
  }
  return std::nullopt;
}

// The same for part rows.
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
            .message = fmt::format(
                "index.sqlite lacks the part '{}' at its place; prepare the dataset again",
                printable(part.name))};
      }
      ++row;
    }
  }
  if (row != rows.cend()) {
    return LintProblem{.message =
                           fmt::format("index.sqlite has {} part{} that the tar lacks",
                                       rows.cend() - row, rows.cend() - row == 1 ? "" : "s")};
  }
  if (const std::int64_t more = index.count_part_rows(i) - std::ssize(rows); more != 0) {
    return LintProblem{
        .message = fmt::format(
            "index.sqlite has {} part{} of samples that it lacks; prepare the dataset again", more,
            more == 1 ? "" : "s")};
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
          {.message = fmt::format("index.sqlite has {} samples, but the shards have {}",
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

  // Compares a scan with the dataset's own files.
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
           .message = fmt::format(".info.json counts {} samples, but the tar has {}",
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

  // For plain tars: prepare rejects repeated keys, but a reader yields both samples.
  void warn_of_repeated_keys() {
    std::sort(keys_.begin(), keys_.end());
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> repeated;  // by pair of shards
    for (std::size_t k = 1; k < keys_.size(); ++k) {
      if (keys_[k].first == keys_[k - 1].first) {
        ++repeated[{keys_[k - 1].second, keys_[k].second}];
      }
    }
    for (const auto& [shards, count] : repeated) {
      report_.warnings.push_back(
          fmt::format("{}: {} of its keys are also in {}; prepare rejects this",
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
      if (dataset_.records_agree) {
        if (std::string problem = lint_recorded(*record, dataset_.folder); !problem.empty()) {
          findings_.add({.shard = name(i), .message = std::move(problem)});
        }
      }
    } catch (const Error& error) {
      findings_.add(problem_of(name(i), error));
    }
  }

  // Only the first difference of each shard, because the other rows are likely to differ, too.
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

  LintReport report_;  // used only by the caller's thread
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
