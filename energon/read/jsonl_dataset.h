// A leaf dataset: the lines of a JSONL file.
//
// Sample i has the key "i", in decimal, and one part `json`: its line without leading and trailing
// white space. As in Energon, the file is one shard without split parts. Its index is built on
// first use (io/index/jsonl_index.h).

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/read/leaf_dataset.h"
#include "io/dataset/quarantine.h"
#include "io/file.h"
#include "io/index/jsonl_index.h"

namespace energon {

class JsonlDataset final : public LeafDataset, public std::enable_shared_from_this<JsonlDataset> {
 public:
  /// Loads the index, or builds it. `subflavors`: a JSON object. excluded_in_place() has the
  /// samples that `exclude_files` (io/dataset/quarantine.h) list. Reading a line of more than
  /// `max_sample_bytes` is an error instead of a huge allocation. Throws Error: kNotFound, kIo,
  /// kCorruptData with line and byte, and those of find_quarantined_lines().
  JsonlDataset(std::string path, const std::optional<std::string>& cache_dir,
               std::string subflavors = "{}", const std::vector<std::string>& exclude_files = {},
               std::uint64_t max_sample_bytes = std::uint64_t{1} << 36);

  const std::vector<std::int64_t>& shard_counts() const override { return shard_counts_; }
  std::int64_t sample_count() const override { return index_.sample_count(); }
  const std::vector<std::int64_t>& excluded() const override { return excluded_; }
  const std::vector<std::int64_t>& excluded_in_place() const override {
    return quarantined_.indexes;
  }
  Config config() const override;
  std::unique_ptr<LeafReader> open_reader() const override;

  const std::string& path() const { return path_; }
  /// Harmless problems found in the quarantine files.
  const std::vector<std::string>& warnings() const { return quarantined_.warnings; }
  const FileIdentity& identity() const { return identity_; }
  const JsonlIndex& index() const { return index_; }
  std::uint64_t max_sample_bytes() const { return max_sample_bytes_; }
  const std::shared_ptr<const SourceShard>& source() const { return source_; }

 private:
  const std::string path_;
  const FileIdentity identity_;
  const JsonlIndex index_;
  const std::vector<std::int64_t> shard_counts_;
  const std::vector<std::int64_t> excluded_;  // always empty
  const QuarantinedLines quarantined_;
  const std::uint64_t max_sample_bytes_;
  const std::shared_ptr<const SourceShard> source_;
};

/// Reads lines of a JsonlDataset. Not thread-safe. Shared by the pipelines of a process
/// (energon/read/leaf_readers.h).
class JsonlReader final : public LeafReader {
 public:
  explicit JsonlReader(std::shared_ptr<const JsonlDataset> dataset)
      : dataset_(std::move(dataset)) {}

  void read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
            std::vector<Sample>& samples) override;
  FailedSample describe(std::int64_t index) override;
  std::optional<std::int64_t> broken_file(std::int64_t index) override;
  bool needs_file(std::int64_t /*index*/, std::int64_t /*file*/) const override { return true; }

 private:
  const FileSource& file();

  const std::shared_ptr<const JsonlDataset> dataset_;
  std::optional<FileSource> file_;  // opened at the first read
};

}  // namespace energon
