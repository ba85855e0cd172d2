#include "io/index/tar_index.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"

namespace energon {
namespace {

static_assert(std::endian::native == std::endian::little,
              "index files are little-endian and are read and written as they are");

constexpr std::uint64_t kEntryBytes = 8;
constexpr std::uint64_t kBlockBytes = 512;  // tar block; members begin at block boundaries

constexpr std::string_view kNotOfThisTar =
    "the tar is truncated, or the index belongs to another tar; run energon prepare again (for a "
    "plain tar, remove its .idx)";

[[noreturn]] void fail(const std::string& problem, const std::string& path,
                       std::optional<std::uint64_t> byte_offset = std::nullopt) {
  throw Error(
      ErrorCode::kCorruptData,
      problem + "; it is damaged or not the index of this shard (prepare the dataset again)",
      {.path = path, .byte_offset = byte_offset});
}

// Returns the number of entries.
std::uint64_t check_length(const FileSource& file, std::uint64_t tar_size) {
  if (file.size() == 0 || file.size() % kEntryBytes != 0) {
    fail(fmt::format("the index has {} bytes, expected a positive multiple of {}", file.size(),
                     kEntryBytes),
         file.path());
  }
  const std::uint64_t count = file.size() / kEntryBytes;
  // Each sample has at least one header block. Checked before memory of this size is allocated.
  if (count - 1 > tar_size / kBlockBytes) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("the index lists {} samples, more than the {} bytes of the tar can hold; "
                    "{}",
                    count - 1, tar_size, kNotOfThisTar),
        {.path = file.path()});
  }
  return count;
}

void check_end(std::uint64_t end, std::uint64_t tar_size, const std::string& path) {
  if (end > tar_size) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format(
            "the samples end at byte {} according to the index, but the tar has {} bytes; {}", end,
            tar_size, kNotOfThisTar),
        {.path = path});
  }
}

void check_entries(std::span<const std::uint64_t> entries, std::uint64_t tar_size,
                   const std::string& path) {
  if (entries.empty()) {
    fail("the index is empty", path);
  }
  check_end(entries.back(), tar_size, path);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i] % kBlockBytes != 0) {
      fail(fmt::format("index entry {} is {}, expected a multiple of {}", i, entries[i],
                       kBlockBytes),
           path, i * kEntryBytes);
    }
    if (i > 0 && entries[i] <= entries[i - 1]) {
      fail(fmt::format("index entry {} is {}, expected more than entry {}, which is {}", i,
                       entries[i], i - 1, entries[i - 1]),
           path, i * kEntryBytes);
    }
  }
}

}  // namespace

TarIndex::TarIndex(SharedBytes content, std::uint64_t tar_size, const std::string& index_path)
    : content_(std::move(content)),
      entries_(reinterpret_cast<const std::uint64_t*>(content_.view.data()),
               content_.size() / kEntryBytes) {
  check_entries(entries_, tar_size, index_path);
}

TarIndex TarIndex::from_entries(std::vector<std::uint64_t> entries, std::uint64_t tar_size,
                                const std::string& index_path) {
  const auto owner = std::make_shared<const std::vector<std::uint64_t>>(std::move(entries));
  return {{.view = std::as_bytes(std::span(*owner)), .owner = owner}, tar_size, index_path};
}

TarIndex TarIndex::load(const std::string& index_path, std::uint64_t tar_size) {
  const FileSource file(index_path);
  check_length(file, tar_size);
  return {read_whole(file), tar_size, index_path};
}

ByteRange TarIndex::range(std::int64_t i) const {
  if (i < 0 || i >= sample_count()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("sample index {} is out of range: the shard has {} samples", i,
                            sample_count()));
  }
  const auto k = static_cast<std::size_t>(i);
  const std::uint64_t begin = i == 0 ? 0 : entries_[k];
  return {.offset = begin, .size = entries_[k + 1] - begin};
}

std::uint64_t TarIndex::digest() const { return xxh3_64(content_.view); }

TarIndexSummary summarize_tar_index(const std::string& index_path, std::uint64_t tar_size) {
  const FileSource file(index_path);
  const std::uint64_t count = check_length(file, tar_size);
  TarIndexSummary summary{.sample_count = static_cast<std::int64_t>(count) - 1};
  file.read_at((count - 1) * kEntryBytes,
               std::as_writable_bytes(std::span(&summary.end_offset, 1)));
  check_end(summary.end_offset, tar_size, index_path);
  return summary;
}

std::string tar_index_path(std::string_view shard_path) {
  const std::size_t slash = shard_path.rfind('/');
  const std::size_t name = slash == std::string_view::npos ? 0 : slash + 1;
  // A leading or trailing dot does not begin a suffix (as in Python's pathlib).
  const std::size_t dot = shard_path.rfind('.');
  const bool has_suffix =
      dot != std::string_view::npos && dot > name && dot + 1 < shard_path.size();
  return std::string(has_suffix ? shard_path.substr(0, dot) : shard_path) + ".tar.idx";
}

void check_index_paths_differ(std::span<const std::string> shards) {
  std::map<std::string, const std::string*> owners;
  for (const std::string& shard : shards) {
    const auto [owner, is_new] = owners.emplace(tar_index_path(shard), &shard);
    if (!is_new && *owner->second != shard) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("the shards '{}' and '{}' would share one index, '{}'; rename or "
                      "exclude one of them",
                      printable(*owner->second), printable(shard), printable(owner->first)));
    }
  }
}

void write_tar_index(const std::string& index_path, std::span<const std::uint64_t> entries,
                     unsigned mode) {
  write_file_atomically(index_path, std::as_bytes(entries), mode);
}

std::vector<std::uint64_t> read_old_index(const std::string& index_path, std::uint64_t unit_bytes) {
  constexpr std::uint64_t kLimitBytes = std::uint64_t{1} << 30;
  std::vector<std::uint64_t> entries;
  try {
    const FileSource file(index_path);
    if (file.size() % sizeof(std::uint64_t) != 0 || file.size() > kLimitBytes) {
      return {};
    }
    entries.resize(file.size() / sizeof(std::uint64_t));
    file.read_at(0, std::as_writable_bytes(std::span(entries)));
  } catch (const Error&) {
    return {};
  }
  const bool is_index =
      entries.size() >= 2 &&
      std::ranges::all_of(entries, [&](std::uint64_t entry) { return entry % unit_bytes == 0; }) &&
      std::ranges::adjacent_find(entries, std::greater_equal<>()) == entries.end();
  return is_index ? entries : std::vector<std::uint64_t>();
}

}  // namespace energon
