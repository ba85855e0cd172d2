#include "io/lint/lint_dataset.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/bytes.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_record.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"
#include "io/lint/lint.h"
#include "io/lint/media_header.h"
#include "io/recipe/dataset_yaml.h"
#include "io/tar/shard_scan.h"
#include "io/tar/tar_walker.h"

namespace energon {

// --- The record of the shards, which must agree with the other files ---

namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

bool is_as_recorded(const ShardRecord& record, const LintedDataset& dataset, std::size_t i) {
  return record.name == dataset.shards[i] && record.sample_count == dataset.counts[i];
}

// Whether the record agrees with the names and counts of `dataset`, which are set. Adds to `report`
// that it does not.
bool lint_record(const LintedDataset& dataset, LintReport& report) {
  const std::vector<ShardRecord>& records = dataset.records->shards();
  bool is_same = records.size() == dataset.shards.size();
  for (std::size_t i = 0; is_same && i < dataset.shards.size(); ++i) {
    is_same = is_as_recorded(records[i], dataset, i);
  }
  if (!is_same) {
    report.problems.push_back(
        {.message = "shard_record.bin contradicts .info.json; prepare the dataset again"});
  }
  return is_same;
}

}  // namespace

std::string lint_recorded(const ShardRecord& shard, const std::string& folder) {
  const std::string index_path = tar_index_path(folder + "/" + shard.name);
  const TarIndexSummary index = summarize_tar_index(index_path, kNoLimit);
  if (index.end_offset != shard.end_offset || index.sample_count != shard.sample_count) {
    return fmt::format(
        "its index has {} samples that end at byte {}, shard_record.bin says {} "
        "and {}; prepare the dataset again",
        index.sample_count, index.end_offset, shard.sample_count, shard.end_offset);
  }
  const std::string checksums = checksum_path(index_path);
  if (shard.has_checksums && path_exists(checksums) &&
      xxh3_64(as_bytes(read_file(checksums, kNoLimit))) != shard.checksum_digest) {
    return "its checksums differ from the prepared ones; prepare the dataset again";
  }
  return "";
}

// --- The files of a dataset ---

namespace {

// Checks that the split file `name` lists only shards of .info.json.
void check_split(const LintedDataset& dataset, const std::string& meta,
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
             .message = fmt::format("{}listed in split part '{}', but not in .info.json", place,
                                    printable(part.name))});
      }
    }
  }
}

void check_splits(const LintedDataset& dataset, const std::string& meta, const LintOptions& options,
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

// The shards of a folder without .info.json.
std::vector<std::string> shards_of_plain(const std::string& path, LintReport& report) {
  if (path_exists(path + "/.nv-meta")) {
    report.problems.push_back(
        {.message = ".nv-meta/.info.json is missing: the dataset is not completely prepared"});
  }
  FoundShards found = find_shards(path);
  for (std::string& warning : found.warnings()) {
    report.warnings.push_back(std::move(warning));
  }
  if (found.names.empty()) {
    throw Error(ErrorCode::kNotFound, "no shards in this folder or below it", {.path = path});
  }
  return std::move(found.names);
}

LintedDataset lint_prepared(const std::string& path, const DatasetInfo& info,
                            const LintOptions& options, LintReport& report) {
  const std::string meta = path + "/.nv-meta";
  LintedDataset dataset{.folder = path};
  for (const ShardCount& shard : info.shards) {
    dataset.shards.push_back(shard.name);
    dataset.counts.push_back(shard.sample_count);
  }
  if (path_exists(meta + "/index.sqlite")) {
    dataset.sqlite_path = meta + "/index.sqlite";
  }
  try {
    dataset.records = ShardRecords::load(meta, info);
  } catch (const Error& error) {
    report.problems.push_back(problem_of("", error));
  }
  dataset.records_agree = dataset.records && lint_record(dataset, report);
  check_splits(dataset, meta, options, report);
  return dataset;
}

}  // namespace

LintProblem problem_of(const std::string& shard, const Error& error) {
  return {.shard = shard,
          .byte_offset = error.context().byte_offset,
          .key = error.context().sample_key,
          .message = error.message()};
}

LintedDataset lint_files(const std::string& path, const LintOptions& options, LintReport& report) {
  if (!std::filesystem::is_directory(path)) {
    ShardList list = list_shards({path});
    return {.folder = std::move(list.folder), .shards = std::move(list.names)};
  }
  if (const auto info = read_dataset_info(path + "/.nv-meta")) {
    return lint_prepared(path, *info, options, report);
  }
  return {.folder = path, .shards = shards_of_plain(path, report)};
}

// --- The contents of parts ---

namespace {

// Called with the sample's index, the part, and the problem, such as "is not a JPEG image: …".
using ReportPart =
    std::function<void(std::size_t sample, const ScannedPart& part, std::string what)>;

constexpr std::uint64_t kLongestJson = std::uint64_t{64} << 20;
// Cameras store 64 KiB thumbnails before the header.
constexpr std::uint64_t kHeaderBytes = std::uint64_t{256} << 10;

// In lower case, without the dot: "png" for "seg.PNG".
std::string extension_of(std::string_view part) {
  std::string extension(part.substr(part.rfind('.') + 1));
  std::ranges::transform(extension, extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return extension;
}

std::vector<std::byte> read(const FileSource& tar, const ScannedPart& part, std::uint64_t most) {
  std::vector<std::byte> bytes(std::min(part.size, most));
  tar.read_at(part.content_offset, bytes);
  return bytes;
}

SharedBytes read_shared(const FileSource& tar, const ScannedPart& part) {
  auto bytes = std::make_shared<const std::vector<std::byte>>(read(tar, part, part.size));
  return {*bytes, bytes};
}

/// Records only the place and kind of an error, so that large documents take no memory.
class JsonCheck final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override { return true; }
  bool key(string_t& /*value*/) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t /*elements*/) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    position_ = position;
    return false;
  }

  std::size_t position() const { return position_; }

 private:
  std::size_t position_ = 0;
};

std::optional<std::string> json_problem(std::string_view text) {
  // nlohmann::json treats NUL as the end of the text.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fmt::format("is not valid JSON: byte {} of {} is zero", nul, text.size());
  }
  JsonCheck check;
  if (nlohmann::json::sax_parse(text, &check)) {
    return std::nullopt;
  }
  const std::size_t at = check.position() > 0 ? check.position() - 1 : 0;
  return fmt::format("is not valid JSON: syntax error at byte {} of {}{}", at, text.size(),
                     at < text.size() ? fmt::format(", '{}'", printable(text.substr(at, 1))) : "");
}

std::optional<std::string> problem_of(const FileSource& tar, const ScannedPart& part) {
  const std::string extension = extension_of(part.name);
  if (extension == "json") {
    if (part.size > kLongestJson) {
      return std::nullopt;
    }
    return json_problem(as_text(read(tar, part, kLongestJson)));
  }
  if (!promises_media(extension)) {
    return std::nullopt;
  }
  return media_problem(extension, read(tar, part, kHeaderBytes), part.size);
}

// Reads the JSON parts of one sample completely (those above 64 MiB are skipped), and the
// beginning of its images and audio. Passes parts without a problem to `check`, if set. Throws
// Error (kIo, kCorruptData).
void lint_parts(const FileSource& tar, const ShardScan& scan, std::size_t sample,
                const CheckPart& check, const ReportPart& report) {
  for (const ScannedPart& part : scan.samples[sample].parts) {
    std::optional<std::string> what = problem_of(tar, part);
    if (!what && check) {
      what = check(part.name, [&] { return read_shared(tar, part); });
    }
    if (what) {
      report(sample, part, std::move(*what));
    }
  }
}

// --- One shard ---

std::string different_bytes(std::int64_t sample) {
  return fmt::format(
      "the bytes of sample {} changed since they were prepared: their checksum differs", sample);
}

class ShardLinter {
 public:
  ShardLinter(const LintedDataset& dataset, const std::string& name, const LintOptions& options,
              LintFindings& findings)
      : dataset_(dataset),
        name_(name),
        options_(options),
        original_(dataset.folder + "/" + name),
        index_path_(tar_index_path(original_)),
        tar_(ensure_expanded(original_, options.cache_dir)),
        findings_(findings) {}

  ScannedShard run() {
    try {
      ShardScan scan = read_copy(original_, tar_.path(), [&] {
        return scan_shard(tar_, {.strictness = options_.strictness});
      });
      ScannedShard shard{.scan = std::move(scan), .tar_size = tar_.size()};
      check_index(shard.scan);
      check_parts(shard.scan);
      return shard;
    } catch (const Error& error) {
      check_by_index(error.context().byte_offset);
      throw;
    }
  }

 private:
  void check_parts(const ShardScan& scan) {
    const auto report = [&](std::size_t sample, const ScannedPart& part, std::string what) {
      findings_.add({.shard = name_,
                     .byte_offset = part.content_offset,
                     .key = scan.samples[sample].key,
                     .message = fmt::format("part '{}' {}", printable(part.name), what)});
    };
    for (std::size_t k = 0; k < scan.samples.size() && !options_.stop.stop_requested(); ++k) {
      lint_parts(tar_, scan, k, options_.check_part, report);
    }
  }

  // For a tar whose walk ended at `known`: the index locates the other samples.
  void check_by_index(std::optional<std::uint64_t> known) {
    std::optional<TarIndex> index;
    std::optional<ChecksumFile> expected;
    try {
      index = TarIndex::load(index_path_, tar_.size());
      const std::string path = checksum_path(index_path_);
      if (path_exists(path)) {
        expected = ChecksumFile::load(path, tar_.size(), index->sample_count());
      }
    } catch (const Error&) {
      return;  // the tar is already known to be broken
    }
    std::vector<std::byte> bytes;
    for (std::int64_t k = 0; k < index->sample_count() && !options_.stop.stop_requested(); ++k) {
      const ByteRange range = index->range(k);
      try {
        bytes.resize(range.size);
        tar_.read_at(range.offset, bytes);
        TarWalker walker(bytes, range.offset);
        while (walker.next()) {
        }
        if (expected && xxh3_64(bytes) != expected->digest(k)) {
          findings_.add(
              {.shard = name_, .byte_offset = range.offset, .message = different_bytes(k)});
        }
      } catch (const Error& error) {
        if (!known || error.context().byte_offset != known) {
          findings_.add(problem_of(name_, error));
        }
      }
    }
  }

  void check_index(const ShardScan& scan) {
    if (!path_exists(index_path_)) {
      if (!dataset_.counts.empty()) {
        findings_.add(
            {.shard = name_, .message = "the index is missing: " + printable(index_path_)});
      }
      return;
    }
    try {
      const TarIndex index = TarIndex::load(index_path_, tar_.size());
      if (check_entries(index, scan)) {
        check_checksums(index, scan);
      }
    } catch (const Error& error) {
      findings_.add(problem_of(name_, error));
    }
  }

  // Checks that the index has the right entry for each sample and the end.
  bool check_entries(const TarIndex& index, const ShardScan& scan) {
    const auto samples = static_cast<std::int64_t>(scan.samples.size());
    if (index.sample_count() != samples) {
      findings_.add({.shard = name_,
                     .message = fmt::format("the index lists {} samples, but the tar has {}",
                                            index.sample_count(), samples)});
      return false;
    }
    for (std::int64_t k = 0; k <= samples; ++k) {
      const bool is_end = k == samples;
      const auto at = static_cast<std::size_t>(k);
      const std::uint64_t actual = is_end ? scan.end_offset : scan.samples[at].offset;
      if (index.entries()[at] != actual) {
        findings_.add(
            {.shard = name_,
             .byte_offset = actual,
             .key = is_end ? std::nullopt : std::optional(scan.samples[at].key),
             .message = fmt::format("the index has byte {} for {} {}, but the tar {}",
                                    index.entries()[at], is_end ? "the end after sample" : "sample",
                                    is_end ? k - 1 : k, actual)});
        return false;
      }
    }
    return true;
  }

  void check_checksums(const TarIndex& index, const ShardScan& scan) {
    const std::string path = checksum_path(index_path_);
    if (!path_exists(path)) {
      if (dataset_.records && dataset_.records->has_checksums()) {
        findings_.add(
            {.shard = name_,
             .message =
                 "the dataset was prepared with checksums, but the checksum file is missing: " +
                 printable(path)});
      }
      return;
    }
    const ChecksumFile expected = ChecksumFile::load(path, tar_.size(), index.sample_count());
    const std::vector<std::uint64_t> actual = compute_checksums(tar_, index);
    for (std::int64_t k = 0; k < index.sample_count(); ++k) {
      if (actual[static_cast<std::size_t>(k)] != expected.digest(k)) {
        findings_.add({.shard = name_,
                       .byte_offset = index.range(k).offset,
                       .key = scan.samples[static_cast<std::size_t>(k)].key,
                       .message = different_bytes(k)});
      }
    }
    findings_.add_checksummed(index.sample_count());
  }

  const LintedDataset& dataset_;
  const std::string& name_;
  const LintOptions& options_;
  const std::string original_;
  const std::string index_path_;
  const FileSource tar_;
  LintFindings& findings_;
};

}  // namespace

ScannedShard lint_shard(const LintedDataset& dataset, const std::string& name,
                        const LintOptions& options, LintFindings& findings) {
  return ShardLinter(dataset, name, options, findings).run();
}

}  // namespace energon
