#include "energon/read/shard_cache.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/hash.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

void check_recorded_checksums(const ShardFile& file, const ChecksumFile& checksums) {
  if (file.checksum_digest && checksums.file_digest() != *file.checksum_digest) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the checksums of shard '{}' differ from those of prepare; run "
                            "energon prepare --force-overwrite --checksums again",
                            printable(file.name)),
                {.path = file.checksum_path});
  }
}

// Requires: the tar is the one that was opened with the dataset.
ShardIndex load_index(const ShardFile& file, bool with_checksums) {
  const std::uint64_t tar_size = file.tar_size;
  TarIndex index = TarIndex::load(file.index_path, tar_size);
  if (index.sample_count() != file.sample_count) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the index has {} samples, expected {}; prepare the dataset again",
                            index.sample_count(), file.sample_count),
                {.path = file.index_path});
  }
  std::optional<ChecksumFile> checksums;
  if (with_checksums && !file.checksum_path.empty()) {
    checksums = ChecksumFile::load(file.checksum_path, tar_size, index.sample_count());
    check_recorded_checksums(file, *checksums);
  }
  std::unique_ptr<SampleBoundaries> boundaries;
  if (file.index_digest) {
    check_recorded_index(*file.index_digest, index, file.index_path);
  } else {
    boundaries = std::make_unique<SampleBoundaries>(index.sample_count());
  }
  return {std::move(index), std::move(checksums), std::move(boundaries)};
}

std::uint64_t cost_of(const ShardIndex& index) {
  constexpr std::uint64_t kEntryBytes = 8;  // of the index and of the checksum file
  const std::uint64_t bytes_per_sample = kEntryBytes + (index.checksums ? kEntryBytes : 0) +
                                         (index.boundaries ? SampleBoundaries::kBytesPerSample : 0);
  return static_cast<std::uint64_t>(index.entries.sample_count()) * bytes_per_sample +
         sizeof(ShardIndex);
}

// Calls `open`; while the system refuses and other tars are open, closes some and retries.
template <class Open>
auto with_descriptor(SharedBudget& tars, const Open& open) {
  while (true) {
    try {
      return open();
    } catch (const TooManyOpenFiles&) {
      if (!tars.shrink()) {
        throw;
      }
    }
  }
}

std::uint64_t digest_of(std::string_view key) {
  return std::max<std::uint64_t>(xxh3_64(as_bytes(key)), 1);
}

// Iterates over the keys of the parts in a range of a tar.
class Keys {
 public:
  Keys(const FileSource& tar, const ByteRange& range) : walker_(tar, range.offset, range.end()) {}

  /// Digest of the next part's key; nullopt at the end of the range.
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
                       std::int64_t neighbor) {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("the index is wrong: a part of sample {} is within the bytes of sample {}; "
                  "prepare the dataset again (for a plain tar, remove its .idx)",
                  sample, neighbor),
      {.path = tar.path(), .byte_offset = index.range(neighbor).offset});
}

// 0 if a header is damaged: reading that sample reports the error.
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

// If a header is damaged, the last key before it.
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

ShardCache::ShardCache(const ShardSet& set, bool with_checksums,
                       std::optional<std::size_t> most_tars, const ReadBudgets& budgets)
    : set_(set),
      with_checksums_(with_checksums),
      tars_(budgets.tars, set.shards.size(), most_tars),
      indexes_(budgets.indexes, set.shards.size()) {}

const ShardIndex& ShardCache::index(std::int64_t shard) {
  const auto number = static_cast<std::size_t>(shard);
  if (const ShardIndex* const index = indexes_.find(number)) {
    return *index;
  }
  tar(shard);
  ShardIndex index =
      with_descriptor(tars_.budget(), [&] { return load_index(checked(number), with_checksums_); });
  const std::uint64_t cost = cost_of(index);
  indexes_.budget().advance();
  indexes_.make_room(cost);
  return indexes_.keep(number, cost, std::move(index));
}

const FileSource& ShardCache::tar(std::int64_t shard) {
  const auto number = static_cast<std::size_t>(shard);
  if (const FileSource* const tar = tars_.find(number)) {
    return *tar;
  }
  tars_.make_room(1);
  return tars_.keep(number, 1, with_descriptor(tars_.budget(), [&] { return open_tar(number); }));
}

FileSource ShardCache::open_tar(std::size_t number) {
  const ShardFile& file = checked(number);
  FileSource tar(file.tar_path);
  if (tar.identity() != file.tar_identity) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the shard changed since the dataset was opened (expected {} bytes, "
                            "found {}); prepare the "
                            "dataset again",
                            file.tar_identity.size_bytes, tar.size()),
                {.path = file.tar_path});
  }
  return tar;
}

const ShardFile& ShardCache::checked(std::size_t number) {
  const ShardFile& file = set_.shards[number];
  if (file.is_checked) {
    return file;
  }
  auto known = checked_.find(number);
  if (known == checked_.end()) {
    known = checked_.emplace(number, set_.check(file)).first;
  }
  return known->second;
}

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
