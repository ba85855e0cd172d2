// Appends pages to a SQLite file whose tables are empty. Private to io.
//
// Pages get their numbers in the order of append(). The file is usable after finish() only.
// https://www.sqlite.org/fileformat2.html describes the format.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "io/file.h"

namespace energon {

inline constexpr std::size_t kBtreePageBytes = 4096;

using Page = std::array<std::byte, kBtreePageBytes>;

/// Not thread-safe.
class BtreeFile {
 public:
  /// Opens a file of whole pages that SQLite wrote and closed. Throws Error (kIo).
  explicit BtreeFile(std::string path);

  /// The number that the next append() returns, and the number after that. Pages count from 1.
  std::uint32_t next_number() const { return number_after(page_count_); }
  std::uint32_t number_after_next() const { return number_after(next_number()); }

  /// Throws Error (kIo).
  std::uint32_t append(const Page& page);

  /// Replaces a page that was in the file when it was opened. Throws Error (kIo).
  void replace(std::uint32_t number, const Page& page);

  /// Records the number of pages and syncs the file. Throws Error (kIo).
  void finish();

 private:
  static std::uint32_t number_after(std::uint32_t number);
  void go_to(std::uint64_t offset);
  void flush();

  const std::string path_;
  UniqueFd fd_;
  std::uint32_t page_count_ = 0;
  std::vector<std::byte> pending_;  // the last pages, not yet written
};

}  // namespace energon
