// Numbers of SQLite's B-tree pages. Private to io.
//
// https://www.sqlite.org/fileformat2.html, "B-tree Pages" and "Cell Payload Overflow Pages".

#pragma once

#include <cstddef>
#include <cstdint>

#include "io/index/btree_file.h"

namespace energon {

// First byte of a page.
inline constexpr std::byte kInnerIndex{2};
inline constexpr std::byte kInnerTable{5};
inline constexpr std::byte kLeafIndex{10};
inline constexpr std::byte kLeafTable{13};

inline constexpr std::size_t kLeafHeaderBytes = 8;
inline constexpr std::size_t kInnerHeaderBytes = 12;  // with the last child
inline constexpr std::size_t kPointerBytes = 2;       // to a cell
inline constexpr std::size_t kChildBytes = 4;
inline constexpr std::size_t kOverflowPointerBytes = 4;

// A longer row keeps its beginning in the page, the rest in a chain of overflow pages. The format
// gives these sizes; they let four keys fit into a page.
inline constexpr std::size_t kMostInTable = kBtreePageBytes - 35;
inline constexpr std::size_t kMostInIndex = (kBtreePageBytes - 12) * 64 / 255 - 23;
inline constexpr std::size_t kLeastInPage = (kBtreePageBytes - 12) * 32 / 255 - 23;
inline constexpr std::size_t kOverflowBytes = kBtreePageBytes - kOverflowPointerBytes;

/// The bytes of a row of `size` bytes that its page has; `most` is one of the above.
constexpr std::size_t bytes_in_page(std::size_t size, std::size_t most) {
  if (size <= most) {
    return size;
  }
  const std::size_t left = kLeastInPage + (size - kLeastInPage) % kOverflowBytes;
  return left <= most ? left : kLeastInPage;
}

// Numbers are big-endian.
inline void put_be16(std::byte* out, std::size_t value) {
  out[0] = static_cast<std::byte>(value >> 8);
  out[1] = static_cast<std::byte>(value);
}
inline void put_be32(std::byte* out, std::uint32_t value) {
  put_be16(out, value >> 16);
  put_be16(out + 2, value & 0xFFFF);
}
inline std::size_t get_be16(const std::byte* in) {
  return static_cast<std::size_t>(in[0]) << 8 | static_cast<std::size_t>(in[1]);
}
inline std::uint32_t get_be32(const std::byte* in) {
  return static_cast<std::uint32_t>(get_be16(in)) << 16 |
         static_cast<std::uint32_t>(get_be16(in + 2));
}

}  // namespace energon
