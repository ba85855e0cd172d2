// Reads a range of a file into newly allocated memory. Private to io.

#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "io/bytes.h"
#include "io/file_source.h"
#include "io/index/tar_index.h"

namespace energon {

/// Requires: `range` lies within the file. Throws Error as FileSource::read_at().
inline SharedBytes read_bytes(const FileSource& file, const ByteRange& range) {
  auto memory = std::make_shared_for_overwrite<std::byte[]>(range.size);
  const std::span<std::byte> bytes(memory.get(), range.size);
  file.read_at(range.offset, bytes);
  return {.view = bytes, .owner = std::move(memory)};
}

}  // namespace energon
