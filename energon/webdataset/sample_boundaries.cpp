#include "energon/webdataset/sample_boundaries.h"

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

}  // namespace

void SampleBoundaries::note(std::int64_t sample, std::string_view key) {
  keys_[static_cast<std::size_t>(sample)] = digest_of(key);
}

void SampleBoundaries::check(const FileSource& tar, const TarIndex& index, std::int64_t sample) {
  const std::uint64_t key = keys_[static_cast<std::size_t>(sample)];
  const auto compare = [&](std::int64_t neighbour, std::uint64_t other) {
    if (other == key) {
      fail(tar, index, sample, neighbour);
    }
  };
  if (sample > 0) {
    std::uint64_t& before = keys_[static_cast<std::size_t>(sample) - 1];
    if (before == 0) {
      std::uint64_t last = 0;
      try {
        Keys keys(tar, index.range(sample - 1));
        bool has_one_key = true;
        while (const auto next = keys.next()) {
          has_one_key = has_one_key && (last == 0 || last == *next);
          last = *next;
        }
        before = has_one_key ? last : 0;
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kIo) {
          throw;
        }
      }
      compare(sample - 1, last);
    } else {
      compare(sample - 1, before);
    }
  }
  if (sample + 1 < index.sample_count()) {
    std::uint64_t after = keys_[static_cast<std::size_t>(sample) + 1];
    if (after == 0) {
      try {
        after = Keys(tar, index.range(sample + 1)).next().value_or(0);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kIo) {
          throw;
        }
      }
    }
    compare(sample + 1, after);
  }
}

}  // namespace energon
