// Where references lead: a dataset whose samples are addressed by their position.
//
// A pipeline has one or more leaves; what flows through its orders names a leaf and a position
// (energon/sample/sample_ref.h), and bytes are read at one place, by the leaf's reader.

#pragma once

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

/// Reads samples of one leaf. Not thread-safe; made after the fork (energon/read/leaf_readers.h).
class LeafReader {
 public:
  virtual ~LeafReader() = default;

  /// From now on large reads are shared with the thread of `helper`, which other readers of the
  /// calling thread may use, too. A reader of small samples need not.
  virtual void share_reads(const std::shared_ptr<ReadHelper>& /*helper*/) {}

  /// Appends the samples at `indexes`, in that order, without restore keys. Their parts lie in
  /// buffers of `allocator`. Throws Error with file, byte and key: kCorruptData, kIo, kNotFound;
  /// then nothing was appended.
  virtual void read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
                    std::vector<Sample>& samples) = 0;

  /// What is known of a sample without reading it, for reports. After a read of it failed: of that
  /// part of it that failed.
  virtual FailedSample describe(std::int64_t index) = 0;

  /// After a read of sample `index` failed: the number of a file of it that cannot be opened at
  /// all, with which all its samples are lost; nothing if all can.
  virtual std::optional<std::int64_t> broken_file(std::int64_t index) = 0;
  /// Whether sample `index` needs that file.
  virtual bool needs_file(std::int64_t index, std::int64_t file) const = 0;
};

/// Immutable, shared by the pipelines of all workers. Holds no descriptors.
class LeafDataset {
 public:
  virtual ~LeafDataset() = default;

  /// Samples in each shard, in order; a dataset without shards is one.
  virtual const std::vector<std::int64_t>& shard_counts() const = 0;
  virtual std::int64_t sample_count() const = 0;
  /// Positions that are passed over, ascending.
  virtual const std::vector<std::int64_t>& excluded() const = 0;
  /// Identity of the data for saved states: equal configs, equal samples at equal positions.
  virtual Config config() const = 0;
  virtual std::unique_ptr<LeafReader> open_reader() const = 0;
};

}  // namespace energon
