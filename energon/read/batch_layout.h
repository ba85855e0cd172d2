// Layout of a batch that is read as a whole: where its samples are stored in the tars, where their
// bytes go, and how the bytes become samples.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "energon/read/webdataset.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon {

/// One sample to read.
struct SamplePiece {
  std::int64_t shard = 0;
  std::int64_t sample = 0;  ///< of the shard
  ByteRange range = {};     ///< in the tar
  std::size_t buffer = 0;
  std::size_t buffer_offset = 0;
  bool verify = false;
  std::uint64_t expected_digest = 0;
};

/// Adjacent samples of a tar, which are read together.
struct PieceRun {
  std::int64_t shard = 0;
  std::int64_t first = 0;  ///< sample of the shard
  std::int64_t end = 0;    ///< one past the last
  ByteRange range = {};
  std::size_t buffer = 0;
  std::size_t buffer_offset = 0;
  std::size_t first_place = 0;  ///< position of its first piece in BatchLayout::by_place
};

/// The pieces of one batch, laid out in the order of their place on disk.
struct BatchLayout {
  /// In the order of the request; set by the reader.
  std::vector<SamplePiece> pieces = {};

  // Set by place().
  std::vector<std::size_t> by_place = {};  ///< positions in `pieces`
  std::vector<PieceRun> runs = {};
  std::vector<std::size_t> buffer_sizes = {};

  /// Keeps the memory of the lists.
  void clear();
  /// Computes the other members. Requires: only `pieces` is set.
  void place();

 private:
  /// The sort key of pieces.
  struct Place {
    std::int64_t shard;
    std::uint64_t offset;
    std::size_t piece;
  };
  void sort();

  std::vector<Place> places_ = {};
};

/// Makes the sample of `piece` from its `bytes`. Its parts share `buffer`: if `bytes` is not the
/// piece's place in `buffer`, the parts (and nothing else) are copied there. Reserves memory for
/// `usual_parts` fields. Throws Error (kCorruptData, kUnsupported) with tar, byte and key.
Sample parse_sample(const Webdataset& dataset, const SamplePiece& piece, ByteView bytes,
                    const Buffer& buffer, std::size_t usual_parts);

}  // namespace energon
