// A leaf dataset that joins samples with the same key from several prepared datasets.
//
// The join index, written by `energon prepare METADATASET` (io/recipe/join_index.h), lists which
// samples belong together. As in Energon, a join is one shard: its rows are not divided at the
// boundaries of tars.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/read/leaf_dataset.h"
#include "energon/read/webdataset.h"
#include "io/recipe/join_index.h"

namespace energon {

/// One dataset's part of a joined sample.
struct JoinedColumn {
  std::string name = {};         ///< set if `join` is a mapping, else empty
  std::optional<Sample> sample;  ///< nullopt if the dataset lacks it (nonmatch: none)
};

/// Computes the fields of a joined sample. Runs in the worker.
using JoinFunction = std::function<Mapping(std::vector<JoinedColumn> columns)>;

/// Merges the fields of all columns. If two have the same name, the value of the later column
/// replaces the first one, at its place.
Mapping merge_columns(std::vector<JoinedColumn> columns);

class JoinedDataset final : public LeafDataset, public std::enable_shared_from_this<JoinedDataset> {
 public:
  /// `reference` must be of kind kJoin; `columns` are its opened datasets, in its order. Reads the
  /// whole join index once. `loaded_by` as in WebdatasetOptions. Throws Error: kInvalidArgument if
  /// the join is not prepared, kCorruptData if the index does not fit the datasets, kIo.
  JoinedDataset(const LeafReference& reference,
                std::vector<std::shared_ptr<const Webdataset>> columns, JoinFunction function,
                std::string loaded_by = {});

  const std::vector<std::int64_t>& shard_counts() const override { return shard_counts_; }
  std::int64_t sample_count() const override { return shard_counts_.front(); }
  const std::vector<std::int64_t>& excluded() const override { return excluded_; }
  const std::vector<std::int64_t>& excluded_in_place() const override { return excluded_in_place_; }
  Config config() const override;
  std::unique_ptr<LeafReader> open_reader() const override;

  const std::string& index_path() const { return index_path_; }
  /// Identity of the index file when this dataset was opened.
  const FileIdentity& index_identity() const { return index_identity_; }
  const JoinFunction& function() const { return function_; }
  std::size_t column_count() const { return columns_.size(); }
  const Webdataset& column(std::size_t i) const { return *columns_[i].dataset; }
  std::shared_ptr<const Webdataset> shared_column(std::size_t i) const {
    return columns_[i].dataset;
  }
  const std::string& column_name(std::size_t i) const { return columns_[i].name; }
  /// The opened shard of `column` for `place`, a shard number in the index; nullopt if the shard
  /// was left out.
  std::optional<std::int64_t> shard_of(std::size_t column, std::int64_t place) const;

 private:
  struct Column {
    std::string name;
    std::shared_ptr<const Webdataset> dataset;
    std::vector<std::optional<std::int64_t>> shards;  // by index in the split before exclusion
  };

  void find_excluded(const JoinIndex& index);

  std::vector<Column> columns_;
  const JoinFunction function_;
  const std::string loaded_by_;
  std::string index_path_;
  FileIdentity index_identity_;
  std::vector<std::int64_t> shard_counts_;  // one entry, the number of rows
  std::vector<std::int64_t> excluded_;
  std::vector<std::int64_t> excluded_in_place_;
  std::string digest_;
};

/// Reads rows of a JoinedDataset. Not thread-safe. Shared by the pipelines of a process
/// (energon/read/leaf_readers.h).
class JoinedReader final : public LeafReader {
 public:
  explicit JoinedReader(std::shared_ptr<const JoinedDataset> dataset);

  void share_reads(const std::shared_ptr<ReadHelper>& helper) override;
  void share_budgets(const ReadBudgets& budgets) override;
  void read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
            std::vector<Sample>& samples) override;
  FailedSample describe(std::int64_t index) override;
  /// A file is a tar of one of the datasets.
  std::optional<std::int64_t> broken_file(std::int64_t index) override;
  bool needs_file(std::int64_t index, std::int64_t file) const override;

 private:
  /// A number that is unique among the tars of all datasets.
  std::int64_t file_number(std::size_t column, std::int64_t shard) const {
    return shard * static_cast<std::int64_t>(readers_.size()) + static_cast<std::int64_t>(column);
  }
  JoinRow row(std::int64_t index) const;

  const std::shared_ptr<const JoinedDataset> dataset_;
  std::size_t reading_ = 0;  // the last column read; after an Error, the column that failed
  std::string joining_;      // the key of the sample being joined, or of the failed one
  std::vector<WebdatasetReader> readers_;   // by column
  mutable std::optional<JoinIndex> index_;  // opened at the first row, in the reading process
};

}  // namespace energon
