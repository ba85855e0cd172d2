// What a loader is measured against: a loop of pread() calls that does nothing else.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "energon/read/webdataset.h"
#include "io/file_source.h"
#include "io/index/tar_index.h"

namespace energon::bench {

/// The byte ranges of samples, to be read in a given order. A range is what the loader reads for
/// the sample: headers, parts and padding.
class BareReader {
 public:
  /// `order`: samples by position in the data set. Opens the shards. Throws Error.
  BareReader(const Webdataset& dataset, std::span<const std::int64_t> order);

  /// Reads every range in turn, one pread() each, into `buffer`: the first at its beginning, each
  /// next one behind it, from the beginning again where the rest of the buffer is too short. With a
  /// buffer of largest_range() bytes, all into the same place. Throws Error (kIo).
  void read_all(std::span<std::byte> buffer) const;

  /// The same, and reads one word of each cache line of what was read. Returns their sum.
  std::uint64_t read_and_touch_all(std::span<std::byte> buffer) const;

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

/// Sum of one word of each cache line: what a consumer costs that looks at everything.
std::uint64_t touch_lines(std::span<const std::byte> bytes);

/// Keeps a value that nothing else uses from being optimised away.
void keep(std::uint64_t value);

}  // namespace energon::bench
