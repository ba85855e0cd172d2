#include "energon/read/parse_sample.h"

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "energon/read/repeated_part.h"
#include "energon/sample/sample.h"
#include "io/error.h"
#include "io/hash.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

void check_digest(const SamplePiece& piece, ByteView bytes) {
  if (piece.verify && xxh3_64(bytes) != piece.expected_digest) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("sample {} does not have the checksum it was prepared with; the "
                            "shard is damaged or was "
                            "changed",
                            piece.sample));
  }
}

// The part that `member` is; nothing if it is none. Sets the key of the first part; the others must
// have the same.
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
                fmt::format("the index says that one sample lies here, but its parts have the "
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
                fmt::format("the index says that sample {} lies here, but there is no part of a "
                            "sample; prepare the "
                            "dataset again",
                            piece.sample));
  }
  check_parts_differ(sample.fields, bytes, piece.range.offset);
}

}  // namespace

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
