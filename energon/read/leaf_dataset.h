// A dataset whose samples are addressed by their position: the target of sample references.
//
// A pipeline has one or more leaves. The references in its orders name a leaf and a position
// (energon/sample/sample_ref.h). Only the leaf's reader reads the bytes.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "energon/read/read_helper.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "energon/stage/failure.h"
#include "energon/state/savable.h"

namespace energon {

struct ReadBudgets;

/// The samples of one leaf that a pipeline reads.
class LeafShare {
 public:
  virtual ~LeafShare() = default;

  /// The exclusive end of the range of the share that contains sample `index`; index + 1 if the
  /// share is not known.
  virtual std::int64_t end_of_part(std::int64_t index) const = 0;
};

/// Reads samples of one leaf. Not thread-safe. Made after the fork (energon/read/leaf_readers.h).
class LeafReader {
 public:
  virtual ~LeafReader() = default;

  /// Shares large reads with the thread of `helper` from now on. Other readers of the calling
  /// thread may use the same helper. The default ignores `helper`, for readers of small samples.
  virtual void share_reads(const std::shared_ptr<ReadHelper>& /*helper*/) {}

  /// Shares limits on open files and memory with other readers of the calling thread from now on.
  /// Called before the first read. The default ignores them, for readers of a single file.
  virtual void share_budgets(const ReadBudgets& /*budgets*/) {}

  /// Appends the samples at `indexes`, in that order, without restore keys. Their parts are in
  /// buffers of `allocator`. Throws Error with file, byte and key: kCorruptData, kIo, kNotFound;
  /// `samples` is then unchanged.
  virtual void read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
                    std::vector<Sample>& samples) = 0;
  /// The same, but may read ahead samples of `share` (and nothing else).
  virtual void read_in_share(std::span<const std::int64_t> indexes, const LeafShare& /*share*/,
                             BufferAllocator& allocator, std::vector<Sample>& samples) {
    read(indexes, allocator, samples);
  }

  /// Describes a sample for reports, without reading it. After a failed read of the sample,
  /// describes the source that failed.
  virtual FailedSample describe(std::int64_t index) = 0;

  /// After a failed read of sample `index`: returns the number of a file that the sample needs and
  /// that cannot be opened at all, so that all its samples are lost; nullopt if all files of the
  /// sample can be opened.
  virtual std::optional<std::int64_t> broken_file(std::int64_t index) = 0;
  /// Whether sample `index` needs `file`, a number that broken_file() returned.
  virtual bool needs_file(std::int64_t index, std::int64_t file) const = 0;
};

/// Immutable; shared by the pipelines of all workers. Holds no file descriptors.
class LeafDataset {
 public:
  virtual ~LeafDataset() = default;

  /// Number of samples in each shard, in order. A dataset without shards counts as one shard.
  virtual const std::vector<std::int64_t>& shard_counts() const = 0;
  /// The running sums of shard_counts(), or none if the dataset does not keep them.
  virtual std::span<const std::int64_t> shard_ends() const { return {}; }
  virtual std::int64_t sample_count() const = 0;
  /// Positions to skip, ascending. They are part of config(), because orders do not draw them.
  virtual const std::vector<std::int64_t>& excluded() const = 0;
  /// Positions that orders draw and ReadSamples leaves out, ascending. They change no order, so
  /// they are not part of config(), and a job may go on with others.
  virtual const std::vector<std::int64_t>& excluded_in_place() const {
    static const std::vector<std::int64_t> none;
    return none;
  }
  /// Whether the sample is excluded in either way.
  bool is_excluded(std::int64_t index) const {
    return std::ranges::binary_search(excluded(), index) ||
           std::ranges::binary_search(excluded_in_place(), index);
  }
  /// Identity of the data for saved states: equal configs mean equal samples at equal positions.
  virtual Config config() const = 0;
  virtual std::unique_ptr<LeafReader> open_reader() const = 0;
};

}  // namespace energon
