// Sorts the keys of a dataset with bounded memory. Private to io.
//
// Keys are kept in memory until it is full, then sorted and written to a file as a run; at the end
// the runs are merged. Keys come in ascending stretches, one or more per shard, so sorting merges
// these. If all keys come in order, there is one stretch and one run, and nothing to merge.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/file.h"

namespace energon {

/// Not thread-safe.
class KeySorter {
 public:
  using Visit = std::function<void(std::string_view key, std::int64_t row)>;

  /// Runs are stored in an unnamed file, created at `path`, which must not exist. `memory_bytes`
  /// limits the memory of all keys; merging takes half as much again.
  KeySorter(std::string path, std::uint64_t memory_bytes);

  /// Throws Error (kIo, kResourceExhausted for a key of 4 GiB).
  void add(std::string_view key, std::int64_t row);

  /// Calls `visit` with each key in byte order, equal keys in row order. Can be called once; no key
  /// can be added afterwards. Throws Error (kIo), and whatever `visit` throws.
  void visit_in_order(const Visit& visit);

 private:
  struct Item {
    std::uint64_t beginning;  // first bytes of the key, which decide most comparisons
    std::uint32_t offset;     // position of the key in texts_
    std::uint32_t size;
    std::int64_t row;
  };

  std::string_view key_of(const Item& item) const {
    return {texts_.data() + item.offset, item.size};
  }
  bool is_before(const Item& a, const Item& b) const;
  void sort_items();
  void write_run();
  void merge(const Visit& visit);

  const std::string path_;
  const std::uint64_t memory_bytes_;
  std::vector<char> texts_;
  std::vector<Item> items_;
  std::vector<std::size_t> stretches_;  // start of each stretch in items_

  UniqueFd runs_;
  std::uint64_t runs_size_ = 0;
  std::vector<ByteRange> run_ranges_;
  std::string last_key_;  // the last key of the last run
};

}  // namespace energon
