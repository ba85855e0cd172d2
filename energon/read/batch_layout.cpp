#include "energon/read/batch_layout.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/hash.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

// Detects a part that occurs twice in one sample.
//
// prepare() rejects such a shard, but an index made by Energon, which keeps the last of the two
// parts, may contain the sample. Nobody knows which part is correct, so reading the sample is an
// error, too.

/// `fields` are the parts in `range`, the bytes of a sample, which begin at offset `range_offset`
/// of their tar. Throws Error (kCorruptData) with the offset of the last part whose name occurred
/// before.
void check_parts_differ(const Mapping& fields, ByteView range, std::uint64_t range_offset) {
  const std::optional<std::string_view> name = find_twice(fields);
  if (!name) {
    return;
  }
  std::uint64_t last = range_offset;
  TarWalker walker(range, range_offset);
  while (const auto member = walker.next()) {
    const auto split =
        member->type == MemberType::kRegular ? split_member_name(member->name) : std::nullopt;
    if (split && split->part == *name) {
      last = member->header_offset;
    }
  }
  throw Error(ErrorCode::kCorruptData,
              fmt::format("part '{}' occurs twice in one sample; repack the shard, or leave the "
                          "sample out (--on-error skip)",
                          printable(*name)),
              {.byte_offset = last});
}

// Parts begin 512 bytes apart in a tar, so pieces that begin on this boundary give tensors their
// alignment.
constexpr std::size_t kPieceAlignment = 64;

// A batch of large samples is read into several buffers of about this size. The trainer returns
// them while the next batch is read, so fewer bytes are in flight than two whole batches, and the
// copy stays in the CPU's cache.
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

void check_digest(const SamplePiece& piece, ByteView bytes) {
  if (piece.verify && xxh3_64(bytes) != piece.expected_digest) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the checksum of sample {} differs from that of prepare; the "
                            "shard is damaged or was "
                            "changed",
                            piece.sample));
  }
}

// The name of the part in `member`; nullopt if it is not a part. The first part sets the key, which
// all others must share.
std::optional<std::string_view> take_name(const TarMember& member, Sample& sample) {
  if (member.type != MemberType::kRegular) {
    return std::nullopt;
  }
  if (!sample.keys.empty()) {
    if (const auto part = part_of_key(member.name, sample.keys.front())) {
      return part;
    }
  }
  const std::optional<MemberName> name = split_member_name(member.name);
  if (!name) {
    return std::nullopt;
  }
  if (sample.keys.empty()) {
    sample.keys.push_back(name->key);
  } else if (sample.keys.front() != name->key) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the index has one sample here, but found parts with the "
                            "keys '{}' and '{}'; "
                            "prepare the dataset again",
                            printable(sample.keys.front()), printable(name->key)),
                {.byte_offset = member.header_offset});
  }
  return name->part;
}

// The part `data` of `bytes`, which belong to `piece`, at its place in the buffer.
SharedBytes place_part(ByteView data, ByteView bytes, const SamplePiece& piece,
                       const Buffer& buffer) {
  const std::size_t offset = static_cast<std::size_t>(data.data() - bytes.data());
  const auto place = buffer.bytes.subspan(piece.buffer_offset + offset, data.size());
  if (place.data() != data.data() && !data.empty()) {
    std::memcpy(place.data(), data.data(), data.size());
  }
  return {place, buffer.owner};
}

void take_parts(const Webdataset& dataset, const SamplePiece& piece, ByteView bytes,
                const Buffer& buffer, Sample& sample) {
  TarWalker walker(bytes, piece.range.offset);
  while (const auto member = walker.next()) {
    const std::optional<std::string_view> part = take_name(*member, sample);
    if (!part) {
      continue;
    }
    if (member->sparse) {
      throw Error(ErrorCode::kUnsupported, "sparse members cannot be read",
                  {.byte_offset = member->header_offset});
    }
    if (dataset.has_part(*part)) {
      sample.fields.emplace_back(std::string(*part),
                                 place_part(walker.data(*member), bytes, piece, buffer));
    }
  }
  if (sample.keys.empty()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the index has sample {} here, but found no part of a "
                            "sample; prepare the "
                            "dataset again",
                            piece.sample));
  }
  check_parts_differ(sample.fields, bytes, piece.range.offset);
}

}  // namespace

void BatchLayout::clear() {
  pieces.clear();
  by_place.clear();
  runs.clear();
  buffer_sizes.clear();
}

// Sorts compact copies of the keys rather than the pieces.
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
        buffer_sizes.back() == 0 ||
        align_up(buffer_sizes.back(), kPieceAlignment) + piece.range.size <= kBufferBytes;
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
      piece.buffer_offset = align_up(buffer_sizes.back(), kPieceAlignment);
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

Sample parse_sample(const Webdataset& dataset, const SamplePiece& piece, ByteView bytes,
                    const Buffer& buffer, std::size_t usual_parts) {
  Sample sample = take_spare_sample();
  sample.fields.reserve(usual_parts);
  try {
    check_digest(piece, bytes);
    take_parts(dataset, piece, bytes, buffer, sample);
  } catch (Error& error) {
    const ShardFile& shard = dataset.shards().shards[static_cast<std::size_t>(piece.shard)];
    error.with({.path = shard.tar_path, .byte_offset = piece.range.offset});
    if (!sample.keys.empty()) {
      error.with({.sample_key = std::string(sample.keys.front())});
    }
    throw;
  }
  sample.sources.push_back({.shard = dataset.source(piece.shard),
                            .index_in_shard = piece.sample,
                            .bytes = piece.range,
                            .checksum = piece.expected_digest});
  return sample;
}

}  // namespace energon
