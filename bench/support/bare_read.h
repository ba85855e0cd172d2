// The baseline for loader benchmarks: a loop of pread() calls and nothing else.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/support/consumer.h"
#include "energon/read/webdataset.h"
#include "io/file.h"
#include "io/index/tar_index.h"

namespace energon::bench {

/// Reads the byte ranges of samples in a given order. The range of a sample is what the loader
/// reads for it: headers, parts and padding.
class BareReader {
 public:
  /// Opens the shards. `order` lists samples by their position in the data set. Throws Error.
  BareReader(const Webdataset& dataset, std::span<const std::int64_t> order);

  /// Reads every range in turn with one pread() into `buffer`. Ranges are placed one after the
  /// other; when the rest of the buffer is too small, the next range goes to its beginning again.
  /// With a buffer of largest_range() bytes, all ranges reuse the same memory. Returns the sum of
  /// what consume() gives for each range. Throws Error (kIo).
  std::uint64_t read_all(std::span<std::byte> buffer, Consumer consumer = Consumer::kDrops) const;

  std::size_t largest_range() const { return largest_; }
  std::int64_t sample_count() const { return static_cast<std::int64_t>(reads_.size()); }

 private:
  struct Read {
    int fd;
    std::size_t size;
    std::uint64_t offset;
  };

  std::vector<FileSource> files_;
  std::vector<Read> reads_;
  std::size_t largest_ = 0;
};

}  // namespace energon::bench
