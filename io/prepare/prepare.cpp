#include "io/prepare/prepare.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/concurrency.h"
#include "io/dataset/brace_pattern.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/scan_pipeline.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/media_table.h"
#include "io/index/sample_index.h"
#include "io/index/sample_index_writer.h"
#include "io/index/tar_index.h"
#include "io/prepare/shard_preparation.h"
#include "io/prepare/staging_folder.h"
#include "io/recipe/dataset_yaml.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_walker.h"

namespace energon {

namespace fs = std::filesystem;

// --- Selecting the shards of a folder ---

namespace {

// The shards called `listed`. Throws Error: kNotFound, kInvalidArgument.
FoundShards find_listed_shards(const std::string& folder, const std::vector<std::string>& listed) {
  FoundShards found;
  found.names = listed;
  for (const std::string& name : listed) {
    check_shard_name(name, folder);
    list_shards({folder + "/" + name});
  }
  return found;
}

// The `listed` shards, or those in `folder`, at least one, except those whose name contains a match
// of a regular expression. Throws Error: kNotFound if there are none, kInvalidArgument for an
// invalid regular expression and for two shards with the same index name; and like find_shards().
FoundShards choose_shards(const std::string& folder,
                          const std::optional<std::vector<std::string>>& listed,
                          const std::vector<std::string>& exclude_regexes) {
  FoundShards found = listed ? find_listed_shards(folder, *listed) : find_shards(folder);
  std::vector<std::string>& names = found.names;
  if (names.empty()) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("no shards to prepare: no .tar, .tgz, .tar.gz or .tar.zst; for media in "
                    "a folder of files: energon prepare-media {} "
                    "--media-metadata-by-extension",
                    printable(folder)),
        {.path = folder});
  }
  for (const std::string& text : exclude_regexes) {
    try {
      const std::regex regex(text);
      std::erase_if(names, [&](const std::string& name) { return std::regex_search(name, regex); });
    } catch (const std::regex_error& error) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a regular expression: {}",
                                                           printable(text), error.what()));
    }
  }
  if (names.empty()) {
    throw Error(ErrorCode::kNotFound,
                "no shards to prepare: every .tar, .tgz, .tar.gz and .tar.zst is excluded",
                {.path = folder});
  }
  check_index_paths_differ(names);
  return found;
}

// --- Row counts of shards that are scanned in any order ---

// Thread-safe.
class RowNumbers {
 public:
  /// Sets the row counts of `shard`, waits until all earlier shards are counted, and returns the
  /// number of rows before it. Requires: called once for each shard, even a failed one; when a
  /// thread waits here for a shard, other threads have started all earlier ones.
  RowCounts take(std::int64_t shard, const RowCounts& counts);

 private:
  Mutex mutex_;
  Condition changed_;
  std::int64_t next_ ENERGON_GUARDED_BY(mutex_) = 0;
  RowCounts before_ ENERGON_GUARDED_BY(mutex_);
};

RowCounts RowNumbers::take(std::int64_t shard, const RowCounts& counts) {
  RowCounts before;
  {
    const MutexLock lock(mutex_);
    while (next_ != shard) {
      changed_.wait(mutex_);
    }
    ++next_;
    before = before_;
    before_ = {.samples = before.samples + counts.samples, .parts = before.parts + counts.parts};
  }
  changed_.notify_all();
  return before;
}

// --- The problems of all scanned shards, for one error ---

// Not thread-safe.
class PrepareProblems {
 public:
  /// Maximum number of problems in the message; the rest are only counted.
  static constexpr std::size_t kMostNamed = 50;

  /// Adds a problem of the whole shard `name`. Requires: shards are added in order.
  void add(std::int64_t shard, std::string_view name, std::string_view text);
  /// Adds the error that made a shard unreadable. Rethrows errors that are not the shard's fault:
  /// no space, no permission.
  void add(std::int64_t shard, std::string_view name, const Error& error);
  /// Adds duplicate keys; `names[i]` is the shard with tar_file_id i.
  void add(const RepeatedKeys& keys, const std::vector<std::string>& names);

  bool any() const { return count_ > 0; }
  /// Throws Error (kCorruptData) that lists the problems in the order of the samples. Requires:
  /// any().
  [[noreturn]] void raise(const std::string& path) const;

 private:
  struct Previous {
    bool operator()(const SamplePosition& a, const SamplePosition& b) const {
      return std::pair(a.tar_file_id, a.sample_index) < std::pair(b.tar_file_id, b.sample_index);
    }
  };

  std::size_t count_ = 0;
  std::map<SamplePosition, std::string, Previous> named_;
};

void PrepareProblems::add(std::int64_t shard, std::string_view name, std::string_view text) {
  ++count_;
  if (named_.size() < kMostNamed) {
    named_.emplace(SamplePosition{.tar_file_id = shard},
                   fmt::format("{}: {}", printable(name), text));
  }
}

void PrepareProblems::add(std::int64_t shard, std::string_view name, const Error& error) {
  if (error.code() == ErrorCode::kIo || error.code() == ErrorCode::kInternal) {
    throw error;
  }
  const ErrorContext& where = error.context();
  add(shard, name,
      fmt::format(
          "{}{}{}", error.message(),
          where.byte_offset ? fmt::format(" [byte {}]", *where.byte_offset) : "",
          where.sample_key ? fmt::format(" [sample {}]", printable(*where.sample_key)) : ""));
}

void PrepareProblems::add(const RepeatedKeys& keys, const std::vector<std::string>& names) {
  count_ += static_cast<std::size_t>(keys.count);
  for (const RepeatedKey& repeated : keys.named) {
    named_.emplace(
        repeated.again,
        fmt::format("duplicate key '{}': in {} (sample {}) and in {} (sample {}); keys must be "
                    "unique in a dataset",
                    printable(repeated.key),
                    printable(names[static_cast<std::size_t>(repeated.first.tar_file_id)]),
                    repeated.first.sample_index,
                    printable(names[static_cast<std::size_t>(repeated.again.tar_file_id)]),
                    repeated.again.sample_index));
  }
}

void PrepareProblems::raise(const std::string& path) const {
  std::string text;
  std::size_t left = kMostNamed;
  for (auto problem = named_.begin(); problem != named_.end() && left > 0; ++problem, --left) {
    text += fmt::format("\n  {}", problem->second);
  }
  const std::string more =
      count_ > kMostNamed ? fmt::format("\n  and {} more", count_ - kMostNamed) : "";
  throw Error(ErrorCode::kCorruptData,
              fmt::format("nothing was prepared because of {} problem{}:{}{}\n", count_,
                          count_ == 1 ? "" : "s", text, more),
              {.path = path});
}

// --- Before a prepare ---

bool contains_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<FirstSample> walk_samples(const FileSource& tar, const std::string& shard,
                                      std::size_t max_samples) {
  std::vector<FirstSample> samples;
  TarFileWalker walker(tar);
  while (const auto member = walker.next()) {
    const auto name =
        member->type == MemberType::kRegular ? split_member_name(member->name) : std::nullopt;
    if (!name) {
      continue;
    }
    if (samples.empty() || samples.back().key != name->key) {
      if (samples.size() == max_samples) {
        break;
      }
      samples.push_back({.shard = shard, .key = std::string(name->key)});
    }
    samples.back().parts.push_back({.name = std::string(name->part), .size_bytes = member->size});
  }
  return samples;
}

std::string listed_names(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  std::transform(names.begin(), names.end(), std::back_inserter(texts),
                 [](const std::string& name) { return printable(name); });
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::vector<FirstSample> first_samples(const std::string& folder,
                                       const FirstSamplesOptions& options) {
  const std::string shard =
      choose_shards(folder, options.shards, options.exclude_regexes).names.front();
  const std::string path = folder + "/" + shard;
  const FileSource tar(ensure_expanded(path, options.cache_dir));
  try {
    return read_copy(path, tar.path(),
                     [&] { return walk_samples(tar, shard, options.max_samples); });
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

std::vector<std::string> part_names_of(const std::vector<FirstSample>& samples) {
  std::vector<std::string> names;
  for (const FirstSample& sample : samples) {
    for (const FirstPart& part : sample.parts) {
      if (!contains_name(names, part.name)) {
        names.push_back(part.name);
      }
    }
  }
  return names;
}

std::vector<std::string> check_parts_occur(const FieldMap& map,
                                           const std::vector<std::string>& part_names) {
  std::vector<std::string> warnings;
  for (const FieldMap::Field& field : map.fields) {
    std::vector<std::string> missing;
    for (const FieldPath& path : field.expression.alternatives) {
      if (!contains_name(part_names, path.part) && !contains_name(missing, path.part)) {
        missing.push_back(path.part);
      }
    }
    const auto& alternatives = field.expression.alternatives;
    if (std::all_of(alternatives.begin(), alternatives.end(),
                    [&](const FieldPath& path) { return contains_name(missing, path.part); })) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("field '{}' is made from '{}', but the first samples have no such "
                              "part; their parts are: {}",
                              printable(field.name), printable(to_text(field.expression)),
                              listed_names(part_names)));
    }
    if (!missing.empty()) {
      warnings.push_back(fmt::format("the first samples lack these parts for field '{}': {}",
                                     printable(field.name), listed_names(missing)));
    }
  }
  return warnings;
}

// --- The prepare ---

namespace {

constexpr std::size_t kMaxPartNames = 50;

void validate(const PrepareOptions& options) {
  const int splits = static_cast<int>(!options.split_ratios.empty()) +
                     static_cast<int>(!options.split_patterns.empty()) +
                     static_cast<int>(options.split.has_value());
  if (splits > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "the split is specified more than once: by ratios, by patterns or by its shards; "
                "use only one of them");
  }
  const std::string& split_name = options.split_config_name;
  if (split_name.find('/') != std::string::npos ||
      !(split_name.ends_with(".yaml") || split_name.ends_with(".json"))) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the name of the split config must end in .yaml or .json and must not "
                            "contain folders, found '{}'",
                            printable(split_name)));
  }
  if (options.dataset_yaml_name && options.dataset_yaml_name->find('/') != std::string::npos) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the name of the loader definition, '{}', must not contain folders",
                            printable(*options.dataset_yaml_name)));
  }
  if (options.samples && !options.dataset_yaml_name) {
    throw Error(ErrorCode::kInvalidArgument,
                "typed samples need a loader definition: set dataset_yaml_name");
  }
}

// Checked before hours of scanning. Returns warnings.
std::vector<std::string> check_samples(const std::string& path, const PrepareOptions& options) {
  const std::string text = dataset_yaml_of(*options.samples);
  const std::string file = fmt::format("{}/.nv-meta/{}", path, *options.dataset_yaml_name);
  constexpr std::uint64_t kLimitBytes = std::uint64_t{16} << 20;
  if (options.existing == Existing::kRefuse &&
      read_if_there(file, kLimitBytes).value_or(text) != text) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "a different loader definition exists; to replace it: energon prepare --force-overwrite",
        {.path = file});
  }
  const std::vector<FirstSample> first =
      first_samples(path, {.shards = options.shards,
                           .exclude_regexes = options.exclude_regexes,
                           .cache_dir = options.cache_dir});
  return check_parts_occur(options.samples->field_map, part_names_of(first));
}

unsigned mode_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw io_error("cannot stat", errno, {.path = path});
  }
  return status.st_mode & 0777U;
}

std::string ratio_text(std::span<const SplitRatio> ratios) {
  std::string text;
  for (const SplitRatio& ratio : ratios) {
    text += fmt::format("{}{:g}", text.empty() ? "" : ",", ratio.weight);
  }
  return text;
}

// Shards are never divided, so a part with a small ratio may get none. Adds a warning for each such
// part. Throws Error (kInvalidArgument) if the part with the largest ratio gets none.
void check_parts_filled(const SplitConfig& split, std::span<const std::string> shards,
                        std::span<const SplitRatio> ratios, const std::string& path,
                        std::vector<std::string>& warnings) {
  const auto largest = std::ranges::max_element(ratios, {}, &SplitRatio::weight);
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (!split.parts[i].patterns.empty() || ratios[i].weight == 0) {
      continue;
    }
    std::string text = fmt::format(
        "split part '{}' gets no shard: {} shard{} in the ratio {}, and shards are not divided; "
        "assign all to one part (--split-ratio 1,0,0), choose the shards of each part "
        "(--split-parts NAME:REGEX), or write the samples into more shards",
        printable(ratios[i].part), shards.size(), shards.size() == 1 ? "" : "s",
        ratio_text(ratios));
    if (ratios.begin() + static_cast<std::ptrdiff_t>(i) == largest) {
      throw Error(ErrorCode::kInvalidArgument, text, {.path = path});
    }
    warnings.push_back(std::move(text));
  }
}

SplitConfig choose_split(std::span<const std::string> shards, const PrepareOptions& options,
                         const std::string& path, std::vector<std::string>& warnings) {
  if (options.split) {
    SplitConfig split = *options.split;
    for (SplitConfig::Part& part : split.parts) {
      part.patterns = collapse_names(part.patterns);
    }
    return split;
  }
  if (!options.split_patterns.empty()) {
    return split_by_pattern(shards, options.split_patterns);
  }
  if (!options.split_ratios.empty()) {
    SplitConfig split = split_by_ratio(shards, options.split_ratios);
    check_parts_filled(split, shards, options.split_ratios, path, warnings);
    return split;
  }
  return split_by_ratio(shards, std::vector<SplitRatio>{{.part = "train", .weight = 1}});
}

// Serializes the split as Energon does with Python's json.
std::string to_split_json(const SplitConfig& split) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::object();
  for (const SplitConfig::Part& part : split.parts) {
    parts[part.name] = part.patterns;
  }
  const nlohmann::ordered_json json = {{"split_parts", parts}, {"exclude", split.exclude}};
  return json.dump(2, ' ', /*ensure_ascii=*/true);
}

std::vector<std::string> first_part_names(const ShardScan& scan) {
  std::set<std::string_view> seen;
  std::vector<std::string> names;
  for (const ScannedSample& sample : scan.samples) {
    for (const ScannedPart& part : sample.parts) {
      if (names.size() < kMaxPartNames && seen.insert(part.name).second) {
        names.push_back(part.name);
      }
    }
  }
  return names;
}

void check_not_prepared(const std::string& path, const PrepareOptions& options) {
  const std::string meta = path + "/.nv-meta";
  if (options.existing == Existing::kRefuse &&
      (path_exists(meta + "/.info.json") || path_exists(meta + "/.info.yaml"))) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "the dataset is already prepared; to prepare it again: energon prepare --force-overwrite",
        {.path = path});
  }
}

class Preparation {
 public:
  Preparation(std::string path, const PrepareOptions& options)
      : path_(std::move(path)),
        options_(options),
        found_(choose_shards(path_, options.shards, options.exclude_regexes)),
        names_(found_.names),
        split_(choose_split(names_, options, path_, report_.warnings)),
        file_mode_((mode_of(path_ + "/" + names_.front()) | 0600U) & 0666U),
        staging_(path_, mode_of(path_) | 0700U),
        index_path_(staging_.meta_file("index.sqlite")),
        previous_(choose_previous()),
        writer_(std::make_unique<SampleIndexWriter>(index_path_)) {}

  PrepareReport run(ProgressSink& sink) {
    const WriteSignalsBlocked blocked;  // for SQLite
    const auto total = static_cast<std::int64_t>(names_.size());
    const std::int64_t kept = previous_.count();
    PrepareProgress progress{.shards_total = total};
    {
      ScanPipeline pipeline(total, thread_count(options_.threads, total), options_.stop,
                            [this](std::int64_t i) { return find_and_encode(i); });
      for (std::int64_t i = 0; i < total; ++i) {
        take(i, pipeline.next());
        progress.shards_done = i + 1;
        progress.samples = report_.samples;
        progress.bytes = report_.bytes;
        sink.on_progress(progress);
      }
    }
    problems_.add(writer_->finish(PrepareProblems::kMostNamed), names_);
    if (problems_.any()) {
      problems_.raise(path_);
    }
    for (std::string& warning : found_.warnings()) {
      report_.warnings.push_back(std::move(warning));
    }
    report_.lacks_media = take_previous_media() && kept < total;
    write_meta_files();
    commit();
    report_.shards = total;
    report_.kept_shards = kept;
    report_.part_names.assign(part_names_.begin(), part_names_.end());
    report_.split = split_;
    return std::move(report_);
  }

 private:
  std::string shard_path(std::int64_t i) const {
    return path_ + "/" + names_[static_cast<std::size_t>(i)];
  }

  PreviousPrepare choose_previous() {
    if (options_.existing != Existing::kUpdate) {
      return {};
    }
    const auto shards = static_cast<std::int64_t>(names_.size());
    PreviousChoice choice =
        options_.strictness == ScanStrictness::kStrict
            ? PreviousChoice{.why_none = "strict tars are required, which no record covers"}
            : find_previous_prepare(path_, names_, options_.checksums == Checksums::kWrite,
                                    thread_count(options_.threads, shards));
    if (!choice.why_none.empty()) {
      report_.warnings.push_back(
          fmt::format("scanning all shards instead of only new ones: {}", choice.why_none));
    }
    return std::move(choice.prepare);
  }

  // Copies the media metadata of the reused shards. Returns false if no prepare had any.
  bool take_previous_media() const {
    if (previous_.count() > 0) {
      return copy_media_tables(previous_.index_path, index_path_);
    }
    try {
      return SampleIndex(path_ + "/.nv-meta/index.sqlite").has_media();
    } catch (const Error&) {  // missing or damaged
      return false;
    }
  }

  // All work for one shard, on a pool thread.
  ScannedShard find_and_encode(std::int64_t i) {
    ScannedShard shard;
    try {
      shard = i < previous_.count()
                  ? read_prepared_shard(previous_, i)
                  : prepare_shard(shard_path(i), staging_.loose_file(i, ".idx"),
                                  staging_.loose_file(i, ".xxh3"), file_mode_, options_);
    } catch (...) {
      shard.error = std::current_exception();
    }
    const RowCounts before = row_numbers_.take(i, count_rows(shard.scan));
    shard.part_names = first_part_names(shard.scan);
    shard.rows = encode_rows(shard.scan, i, before);
    shard.scan.samples = {};
    return shard;
  }

  // On the caller's thread, in order.
  void take(std::int64_t i, const ScannedShard& shard) {
    const std::string& name = names_[static_cast<std::size_t>(i)];
    if (shard.error) {
      if (i < previous_.count()) {
        std::rethrow_exception(shard.error);  // not a problem of the shard
      }
      add_problem(i, shard.error);
      return;
    }
    for (const std::string& warning : shard.scan.warnings) {
      report_.warnings.push_back(fmt::format("{}: {}", printable(name), warning));
    }
    const RowCounts& counts = shard.rows.counts;
    if (counts.samples == 0) {
      problems_.add(
          i, name,
          fmt::format("no samples in {} bytes; exclude the shard or remove it", shard.tar_size));
      return;
    }
    info_.shards.push_back({name, counts.samples});
    records_.push_back(shard.record);
    records_.back().name = name;
    report_.samples += counts.samples;
    report_.parts += counts.parts;
    report_.bytes += shard.tar_size;
    writer_->add(shard.rows);
    for (const std::string& part : shard.part_names) {
      if (part_names_.size() < kMaxPartNames) {
        part_names_.insert(part);
      }
    }
  }

  void add_problem(std::int64_t shard, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const Error& known) {
      problems_.add(shard, names_[static_cast<std::size_t>(shard)], known);
    }
  }

  void write_meta_files() {
    fs::permissions(index_path_, static_cast<fs::perms>(file_mode_));
    info_.energon_version = std::string(writer_version());
    const std::string uuid = make_uuid();
    staging_.write_meta_file("index.uuid", as_bytes(uuid), file_mode_);
    const std::string info = to_info_json(info_);
    const ShardRecords records(uuid, prepared_set_digest(info, uuid), records_);
    staging_.write_meta_file("shard_record.bin", as_bytes(records.encode()), file_mode_);
    const std::string& split_name = options_.split_config_name;
    staging_.write_meta_file(
        split_name,
        as_bytes(split_name.ends_with(".json") ? to_split_json(split_) : to_split_yaml(split_)),
        file_mode_);
    if (options_.samples) {
      staging_.write_meta_file(*options_.dataset_yaml_name,
                               as_bytes(dataset_yaml_of(*options_.samples)), file_mode_);
    } else if (options_.dataset_yaml_name &&
               !path_exists(fmt::format("{}/.nv-meta/{}", path_, *options_.dataset_yaml_name))) {
      staging_.write_meta_file(*options_.dataset_yaml_name, as_bytes(crude_dataset_yaml()),
                               file_mode_);
    }
    // Last, because a folder without this file is not prepared.
    staging_.write_meta_file(".info.json", as_bytes(info), file_mode_);
  }

  void commit() {
    // An older .info.yaml would contradict the new .info.json, and old checksums the new index.
    staging_.remove_file(".nv-meta/.info.yaml");
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(names_.size()); ++i) {
      const std::string index_path = tar_index_path(names_[static_cast<std::size_t>(i)]);
      const bool is_kept = i < previous_.count();
      if (!is_kept) {
        staging_.move_loose_file(i, ".idx", index_path);
      }
      if (options_.checksums != Checksums::kWrite) {
        staging_.remove_file(checksum_path(index_path));
      } else if (!is_kept) {
        staging_.move_loose_file(i, ".xxh3", checksum_path(index_path));
      }
    }
    if (options_.stop.stop_requested()) {
      throw Error(ErrorCode::kCancelled, "prepare was stopped; the folder is unchanged");
    }
    check_not_prepared(path_, options_);  // another process may have prepared it
    staging_.commit();
  }

  const std::string path_;
  const PrepareOptions& options_;
  const FoundShards found_;
  const std::vector<std::string>& names_;  // position = tar_file_id
  PrepareReport report_;                   // before split_, which adds warnings to it
  const SplitConfig split_;
  const unsigned file_mode_;

  StagingFolder staging_;
  const std::string index_path_;
  const PreviousPrepare previous_;  // while staging_ has the lock
  RowNumbers row_numbers_;
  std::unique_ptr<SampleIndexWriter> writer_;  // after staging_: closed before staging_ is removed
  DatasetInfo info_;
  std::vector<ShardRecord> records_;
  PrepareProblems problems_;
  std::set<std::string> part_names_;
};

}  // namespace

PrepareReport prepare(const std::string& path, const PrepareOptions& options,
                      ProgressSink& progress) {
  validate(options);
  check_path(path);
  if (!fs::is_directory(path)) {
    throw Error(ErrorCode::kNotFound,
                fs::exists(path) ? "not a folder; prepare needs the folder that contains the shards"
                                 : "no such folder",
                {.path = path});
  }
  complete_commit(path);
  check_not_prepared(path, options);
  std::vector<std::string> warnings;
  if (options.samples) {
    warnings = check_samples(path, options);
  }
  PrepareReport report = Preparation(path, options).run(progress);
  report.warnings.insert(report.warnings.begin(), warnings.begin(), warnings.end());
  return report;
}

}  // namespace energon
