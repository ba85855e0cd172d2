// Reads ahead in slices that are read one after the other in small steps.
//
// A system call costs more than copying a small sample. If many slices are open, a batch takes only
// a few samples from each. So if a request begins at the sample after the previous request, a block
// is read, and later requests are served from it. The amount that is read at once grows while the
// slice continues, and is smaller if many slices are open. Nothing past the end of the share is
// read. An error while reading ahead is dropped: the request then reads its own bytes and reports
// what is wrong with them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "energon/read/batch_layout.h"
#include "energon/read/leaf_readers.h"
#include "io/bytes.h"
#include "io/file.h"
#include "io/index/tar_index.h"

namespace energon {

/// Neighbors in a shard.
struct AheadRequest {
  std::int64_t shard = 0;
  std::int64_t first = 0;  ///< sample of the shard
  std::int64_t end = 0;    ///< one past the last
  ByteRange range = {};
};

/// Used by one reader. Not thread-safe.
class ReadAhead final : private SharedBudget::Holder {
 public:
  /// Larger requests are read to their place, which costs less than copying them.
  static constexpr std::uint64_t kLargestRequest = std::uint64_t{16} << 10;

  ReadAhead(std::shared_ptr<AheadMemory> memory, std::size_t shard_count);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

  /// Begins to load what is needed for `runs` into the CPU's cache.
  void prefetch(std::span<const PieceRun> runs) const;

  /// The bytes of the request, valid until the next call, or none if they were not read ahead.
  ByteView take(const AheadRequest& request);

  /// After an empty take(): whether the request continues a slice. If not, the request is recorded
  /// as the possible start of a slice.
  bool continues(const AheadRequest& request);
  /// Requires: continues(). Reads ahead in `tar`, at most up to sample `share_end` of the shard
  /// (exclusive), and returns the bytes of the request, valid until the next call. If the result is
  /// empty, the request must be read directly.
  ByteView read(const AheadRequest& request, const FileSource& tar, const TarIndex& index,
                std::int64_t share_end);

 private:
  /// A slice that at least one request continued.
  struct Stream {
    std::int64_t next = 0;     // sample after the last request
    std::int64_t stop = 0;     // end of the block, exclusive; equals `next` without a block
    std::int64_t end = 0;      // end of the readable range; set with a block
    std::uint64_t offset = 0;  // of the block in the tar
    std::uint64_t window = 0;  // bytes to read at once
    std::uint64_t last_use = 0;
    AheadMemory::Block block = {};
  };
  struct Shard {
    std::vector<Stream> streams = {};
    std::vector<std::int64_t> ends = {};  // of the latest requests that did not continue a stream
    std::size_t oldest_end = 0;
  };

  void list(std::vector<SharedBudget::Usage>& held) const override;
  void drop_before(std::uint64_t time) override;
  Shard* shard(std::int64_t number) { return shards_[static_cast<std::size_t>(number)].get(); }
  Stream* find(const AheadRequest& request);
  void note(const AheadRequest& request);
  void begin_stream(std::int64_t number, const Stream& stream);
  ByteView advance(Shard& shard, Stream& stream, const AheadRequest& request);
  std::int64_t window_end(const Stream& stream, const AheadRequest& request,
                          const TarIndex& index) const;
  void reserve(Stream& stream, std::uint64_t size);
  void release(Stream& stream);

  const std::shared_ptr<AheadMemory> memory_;
  std::vector<std::unique_ptr<Shard>> shards_;  // null if nothing is recorded
  std::vector<std::int64_t> with_streams_;      // the shards that have had streams
  // The block of a stream that ended with the last request; its bytes may still be in use. Not in
  // the budget.
  AheadMemory::Block ended_ = {};
};

}  // namespace energon
