#include "io/lint/lint_shard.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"
#include "io/lint/lint_parts.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

std::string different_bytes(std::int64_t sample) {
  return fmt::format(
      "the bytes of sample {} are not those that were prepared: their checksum differs", sample);
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

  // For a tar whose walk ended at `known`: the index says where the other samples are.
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
      return;  // the tar has been found broken already
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

  // Whether the index has an entry for each sample and the end, and each is right.
  bool check_entries(const TarIndex& index, const ShardScan& scan) {
    const auto samples = static_cast<std::int64_t>(scan.samples.size());
    if (index.sample_count() != samples) {
      findings_.add({.shard = name_,
                     .message = fmt::format("the index lists {} samples, the tar has {}",
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
             .message = fmt::format("the index says byte {} for {} {}, the tar {}",
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
             .message = "the checksum file is missing, with which the dataset was prepared: " +
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
