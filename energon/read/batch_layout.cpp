#include "energon/read/batch_layout.h"

#include <algorithm>

namespace energon {
namespace {

// Parts begin 512 bytes apart in a tar, so pieces that begin on this boundary give tensors their
// alignment.
constexpr std::size_t kPieceAlignment = 64;

// A batch of large samples is read into several buffers of about this size: the trainer gives them
// back while the next batch is read, so that fewer bytes are in flight than two whole batches, and
// the copy stays in the CPU's cache.
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::size_t aligned(std::size_t size) {
  return (size + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}

}  // namespace

void BatchLayout::clear() {
  pieces.clear();
  by_place.clear();
  runs.clear();
  buffer_sizes.clear();
}

// Compares copies that lie side by side, not the pieces.
void BatchLayout::sort() {
  places_.clear();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    places_.push_back({pieces[i].shard, pieces[i].range.offset, i});
  }
  std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
    return a.shard != b.shard ? a.shard < b.shard : a.offset < b.offset;
  });
  for (const Place& place : places_) {
    by_place.push_back(place.piece);
  }
}

void BatchLayout::place() {
  sort();
  buffer_sizes.push_back(0);
  for (std::size_t place = 0; place < by_place.size(); ++place) {
    SamplePiece& piece = pieces[by_place[place]];
    const bool follows = !runs.empty() && runs.back().shard == piece.shard &&
                         runs.back().range.end() == piece.range.offset;
    const bool fits =
        buffer_sizes.back() == 0 || aligned(buffer_sizes.back()) + piece.range.size <= kBufferBytes;
    if (!fits) {
      buffer_sizes.push_back(0);
    }
    piece.buffer = buffer_sizes.size() - 1;
    if (follows && fits) {
      PieceRun& run = runs.back();
      piece.buffer_offset = run.buffer_offset + run.range.size;
      run.end = piece.sample + 1;
      run.range.size += piece.range.size;
    } else {
      piece.buffer_offset = aligned(buffer_sizes.back());
      runs.push_back({.shard = piece.shard,
                      .first = piece.sample,
                      .end = piece.sample + 1,
                      .range = piece.range,
                      .buffer = piece.buffer,
                      .buffer_offset = piece.buffer_offset,
                      .first_place = place});
    }
    buffer_sizes.back() = piece.buffer_offset + piece.range.size;
  }
}

}  // namespace energon
