// The baselines for loader benchmarks: loops of only pread() calls, in one thread, or in several
// for loaders with as many workers.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bench/support/measure.h"
#include "energon/read/webdataset.h"
#include "io/file.h"
#include "io/index/tar_index.h"

namespace energon::bench {

/// Reads the byte ranges of samples in a given order. The range of a sample is what the loader
/// reads for it: headers, parts and padding.
class BareReader {
 public:
  /// Opens the shards. `order` lists samples by their position in the dataset. Throws Error.
  BareReader(const Webdataset& dataset, std::span<const std::int64_t> order);

  /// Reads every range in turn with one pread() into `buffer`. Ranges are placed one after another;
  /// if the rest of the buffer is too small, the next range wraps to its beginning. With a buffer
  /// of largest_range() bytes, all ranges reuse the same memory. Returns the sum of consume() over
  /// all ranges. Throws Error (kIo).
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

/// Runs body(0) to body(threads - 1) concurrently and returns the seconds until all are done. All
/// threads have then ended, so loaders may be created afterwards. If `body` throws, rethrows the
/// first error.
double seconds_in_threads(int threads, const std::function<void(int)>& body);

/// Each thread reads its share of the samples in order, with one pread() per sample, and consumes
/// the bytes.
class BareSampleThreads {
 public:
  /// Thread i takes the i-th part of `order`, the positions of samples in the dataset. Its buffer
  /// has `buffer_bytes`, but at least room for each sample: with 0, it stays in the CPU's cache.
  /// Throws Error.
  BareSampleThreads(const Webdataset& dataset, std::span<const std::int64_t> order, int threads,
                    Consumer consumer, std::size_t buffer_bytes = 0);

  /// Reads all samples `passes` times. Returns samples/s. Throws Error (kIo).
  double samples_per_second(int passes);

 private:
  const Consumer consumer_;
  std::vector<BareReader> readers_;
  std::vector<std::vector<std::byte>> buffers_;
};

/// Each thread reads every `threads`-th shard from start to end in blocks, and touches each cache
/// line. It ignores samples, so no loader can be faster.
class BareBlockThreads {
 public:
  BareBlockThreads(const Webdataset& dataset, int threads);

  /// Reads all shards once. Returns samples/s. Throws Error (kIo).
  double samples_per_second() const;

 private:
  void read_shards(int thread) const;

  const int threads_;
  const std::int64_t samples_;
  std::vector<FileSource> files_;
};

}  // namespace energon::bench
