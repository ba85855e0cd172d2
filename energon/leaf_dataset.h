// Where references lead: a dataset whose samples are addressed by their position.
//
// A pipeline has one or more leaves; what flows through its orders names a leaf and a position
// (energon/sample_ref.h), and bytes are read at one place, by the leaf's reader.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "energon/buffer_allocator.h"
#include "energon/failure.h"
#include "energon/sample.h"
#include "energon/savable.h"

namespace energon {

/// Reads samples of one leaf. Not thread-safe; one per pipeline, made after the fork.
class LeafReader {
 public:
  virtual ~LeafReader() = default;

  /// Appends the samples at `indexes`, in that order, without restore keys. Their parts lie in
  /// buffers of `allocator`. Throws Error with file, byte and key: kCorruptData, kIo, kNotFound;
  /// then nothing was appended.
  virtual void read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
                    std::vector<Sample>& samples) = 0;

  /// What is known of a sample without reading it, for reports.
  virtual FailedSample describe(std::int64_t index) = 0;

  /// Number of the file that sample `index` lies in.
  virtual std::int64_t file_of(std::int64_t index) const = 0;
  /// Whether that file can be opened at all.
  virtual bool can_open(std::int64_t index) = 0;
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
