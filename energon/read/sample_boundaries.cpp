#include "energon/read/sample_boundaries.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "io/error.h"
#include "io/hash.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

std::uint64_t digest_of(std::string_view key) {
  return std::max<std::uint64_t>(xxh3_64(as_bytes(key)), 1);
}

// The keys of the parts in a range of a tar, one after the other.
class Keys {
 public:
  Keys(const FileSource& tar, const ByteRange& range) : walker_(tar, range.offset, range.end()) {}

  /// Digest of the next part's key; empty at the end of the range.
  std::optional<std::uint64_t> next() {
    while (const auto member = walker_.next()) {
      if (member->type == MemberType::kRegular) {
        if (const auto name = split_member_name(member->name)) {
          return digest_of(name->key);
        }
      }
    }
    return std::nullopt;
  }

 private:
  TarFileWalker walker_;
};

[[noreturn]] void fail(const FileSource& tar, const TarIndex& index, std::int64_t sample,
                       std::int64_t neighbour) {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("the index is wrong: a part of sample {} lies in the bytes of sample {}; "
                          "prepare the dataset again (of a plain tar, remove its .idx)",
                          sample, neighbour),
              {.path = tar.path(), .byte_offset = index.range(neighbour).offset});
}

// 0 if a header is damaged: the error comes when that sample itself is read.
std::uint64_t first_key(const FileSource& tar, const ByteRange& range) {
  try {
    return Keys(tar, range).next().value_or(0);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) {
      throw;
    }
    return 0;
  }
}

// If a header is damaged, the key before it.
std::uint64_t last_key(const FileSource& tar, const ByteRange& range) {
  std::uint64_t last = 0;
  try {
    Keys keys(tar, range);
    while (const auto next = keys.next()) {
      last = *next;
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) {
      throw;
    }
  }
  return last;
}

}  // namespace

void SampleBoundaries::note(std::int64_t sample, std::string_view key) {
  const std::uint64_t digest = digest_of(key);
  edges_[static_cast<std::size_t>(sample)] = {digest, digest};
}

void SampleBoundaries::check(const FileSource& tar, const TarIndex& index, std::int64_t sample) {
  const auto i = static_cast<std::size_t>(sample);
  const std::uint64_t key = edges_[i].first;
  if (i > 0) {
    std::uint64_t& before = edges_[i - 1].last;
    if (before == 0) {
      before = last_key(tar, index.range(sample - 1));
    }
    if (before == key) {
      fail(tar, index, sample, sample - 1);
    }
  }
  if (i + 1 < edges_.size()) {
    std::uint64_t& after = edges_[i + 1].first;
    if (after == 0) {
      after = first_key(tar, index.range(sample + 1));
    }
    if (after == key) {
      fail(tar, index, sample, sample + 1);
    }
  }
}

}  // namespace energon
