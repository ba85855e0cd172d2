// Reads the cells of one B-tree of a SQLite file, in order, as BtreeBuilder takes them. Private to
// io.
//
// The file is untrusted: whatever is not a tree is an Error.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "io/bytes.h"
#include "io/file.h"
#include "io/index/btree_builder.h"
#include "io/index/btree_file.h"

namespace energon {

/// Not thread-safe.
class BtreeReader {
 public:
  /// `file` must outlive the reader and must not change.
  BtreeReader(const FileSource& file, BtreeBuilder::Kind kind, std::uint32_t root);
  ~BtreeReader();
  BtreeReader(const BtreeReader&) = delete;
  BtreeReader& operator=(const BtreeReader&) = delete;

  /// The next cell, valid until the next call; empty at the end. Throws Error (kCorruptData, kIo).
  std::optional<ByteView> next();

 private:
  struct Step;

  void descend(std::uint32_t page);
  ByteView cell_at(const Step& step, std::size_t cell);
  ByteView join(ByteView inside, std::uint32_t overflow, std::size_t size);
  void read_page(std::uint32_t number, Page& page);
  [[noreturn]] void fail() const;

  const FileSource& file_;
  const BtreeBuilder::Kind kind_;
  std::uint64_t pages_left_;                  // each page is in a tree once
  std::vector<std::unique_ptr<Step>> steps_;  // from the root to where the reader is
  std::size_t depth_ = 0;                     // steps in use; the others keep their memory
  std::vector<std::byte> long_cell_;
};

}  // namespace energon
