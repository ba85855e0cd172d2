// The shards of one dataset that its reader has open.
//
// A tar costs a descriptor and its index memory; both are limited for all readers of a process
// together (energon/read/leaf_readers.h). The index is read and checked once and kept when the tar
// is closed, so reopening the tar costs two system calls. A shard that was not checked when the
// dataset was opened is checked before its first use.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "energon/read/leaf_readers.h"
#include "io/dataset/dataset_folder.h"
#include "io/file.h"
#include "io/index/checksum_file.h"
#include "io/index/tar_index.h"

namespace energon {

// Checks that the samples of a shard begin and end at the offsets of its index. Used if prepare()
// did not record the digest of the index.
//
// `<shard>.tar.idx` has no checksum. An entry that points to the wrong member, for example because
// of a flipped bit, moves a part of one sample to its neighbor. The neighbor's range then has two
// keys, which the reader rejects, but the sample that lacks a part looks valid. So before a sample
// is delivered, the keys in the ranges on both sides are compared with its own key. Neighbors that
// were read before or together with the sample cost nothing; otherwise their headers are read.

/// The keys of one shard. Takes kBytesPerSample. Not thread-safe.
class SampleBoundaries {
 public:
  static constexpr std::uint64_t kBytesPerSample = 16;

  explicit SampleBoundaries(std::int64_t sample_count)
      : edges_(static_cast<std::size_t>(sample_count)) {}

  /// Records that all parts in the range of `sample` have this key. Requires: the whole range was
  /// parsed.
  void note(std::int64_t sample, std::string_view key);

  /// Requires: note(sample, …). Throws Error (kCorruptData) if an adjacent range has a part with
  /// the sample's key. If the headers of a neighbor are damaged, only the readable ones are
  /// compared. Throws Error (kIo) if a neighbor cannot be read.
  void check(const FileSource& tar, const TarIndex& index, std::int64_t sample);

 private:
  /// XXH3-64 of the keys of the first and last part in a range; 0 if not known.
  struct Edges {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };

  static_assert(sizeof(Edges) == kBytesPerSample);

  std::vector<Edges> edges_;
};

/// Where the samples of a shard are, and the data to verify them.
struct ShardIndex {
  TarIndex entries;
  std::optional<ChecksumFile> checksums;  ///< nullopt: prepared without checksums, or not requested
  /// Null if prepare() recorded the digest of the index.
  std::unique_ptr<SampleBoundaries> boundaries;
};

/// Not thread-safe. Used only after the fork, so that no two processes share descriptors.
class ShardCache {
 public:
  /// `set` must outlive the cache. `most_tars` limits the open tars in addition to the budget;
  /// unset means no such limit.
  ShardCache(const ShardSet& set, bool with_checksums, std::optional<std::size_t> most_tars,
             const ReadBudgets& budgets);

  /// Returns the index of a shard, valid until the next call. Throws Error: kNotFound, kIo;
  /// kCorruptData if the shard is not the one that was indexed (different file, size or number of
  /// samples).
  const ShardIndex& index(std::int64_t shard);

  /// Prefetch into the CPU's cache what index() needs of a shard, then the place of a sample.
  void prefetch(std::int64_t shard) const { indexes_.prefetch(static_cast<std::size_t>(shard)); }
  void prefetch(std::int64_t shard, std::int64_t sample) const {
    if (const ShardIndex* const index = indexes_.peek(static_cast<std::size_t>(shard))) {
      __builtin_prefetch(&index->entries.entries()[static_cast<std::size_t>(sample)]);
    }
  }

  /// Returns an open tar. Up to capacity() tars returned since begin_round() are valid until the
  /// next begin_round(). Throws Error like index(), and TooManyOpenFiles if the system refuses to
  /// open the tar although all others were closed.
  const FileSource& tar(std::int64_t shard);
  const ShardFile& file(std::int64_t shard) const {
    return set_.shards[static_cast<std::size_t>(shard)];
  }
  void begin_round() { tars_.budget().advance(); }
  std::size_t capacity() const { return tars_.capacity(); }

 private:
  FileSource open_tar(std::size_t number);
  const ShardFile& checked(std::size_t number);

  const ShardSet& set_;
  std::unordered_map<std::size_t, ShardFile> checked_;  // shards checked by this cache
  const bool with_checksums_;
  ValueCache<FileSource> tars_;
  ValueCache<ShardIndex> indexes_;
};

}  // namespace energon
