// Where the samples of a batch lie in their tars, where their bytes go, and how a sample is made of
// its bytes.

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

/// Neighbors of a tar, which are read together.
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
  /// In the order in which the samples were asked for; set by the reader.
  std::vector<SamplePiece> pieces = {};

  // Set by place().
  std::vector<std::size_t> by_place = {};  ///< positions in `pieces`
  std::vector<PieceRun> runs = {};
  std::vector<std::size_t> buffer_sizes = {};

  /// Keeps the memory of the lists.
  void clear();
  /// Requires: `pieces` are set, and nothing else is.
  void place();

 private:
  /// What pieces are sorted by.
  struct Place {
    std::int64_t shard;
    std::uint64_t offset;
    std::size_t piece;
  };
  void sort();

  std::vector<Place> places_ = {};
};

/// The sample of `piece`, whose bytes are `bytes`. Its parts share `buffer`: if `bytes` are not the
/// piece's place in it, the parts are copied there, and the rest of the place stays as it is.
/// Memory for `usual_parts` fields is taken at once. Throws Error (kCorruptData, kUnsupported) with
/// tar, byte and key.
Sample parse_sample(const Webdataset& dataset, const SamplePiece& piece, ByteView bytes,
                    const Buffer& buffer, std::size_t usual_parts);

}  // namespace energon
