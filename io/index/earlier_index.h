// The `index.sqlite` of an earlier prepare, whose rows are taken over as they are. Private to io.
//
// The cells of its trees are those that would be written again for the same shards. So they are
// copied from tree to tree, without being decoded: a small part of what scanning the shards costs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/file.h"
#include "io/index/btree_reader.h"
#include "io/index/index_schema.h"
#include "io/index/sample_rows.h"

namespace energon {

/// Immutable after construction. Not for use across fork().
class EarlierIndex {
 public:
  /// Throws Error: kNotFound, kIo, kCorruptData if the file is not as SampleIndexWriter makes it.
  explicit EarlierIndex(const std::string& path);

  const FileSource& file() const { return file_; }
  const IndexRoots& roots() const { return roots_; }
  /// As the numbers of the last rows say.
  const RowCounts& counts() const { return counts_; }
  /// Distinct names of parts, of the first rows only, at most `limit`.
  std::vector<std::string> part_names(std::size_t limit) const;

 private:
  const FileSource file_;
  IndexRoots roots_;
  RowCounts counts_;
};

/// Reads the index of keys.
class EarlierKeys {
 public:
  /// `index` must outlive the reader.
  explicit EarlierKeys(const EarlierIndex& index);

  struct Key {
    ByteView cell;
    std::string_view key;
    std::int64_t row = 0;
  };

  /// The next key, valid until the next call; empty at the end. Throws Error (kCorruptData, kIo),
  /// also for keys that are out of order.
  std::optional<Key> next();

 private:
  const EarlierIndex& index_;
  BtreeReader cells_;
  std::string last_;
  bool is_first_ = true;
};

}  // namespace energon
