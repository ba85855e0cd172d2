// The bytes of one of our own files, such as an index, in memory or mapped.
//
// Only files that this library writes are mapped, never the user's data. They are replaced by
// rename (io/shared_folder.h), so a mapping keeps the bytes that it began with. Other programs may
// not keep to this: if one writes into such a file, the mapping may show the new bytes; if one
// truncates it, access past its new end raises SIGBUS, which ends the process.

#pragma once

#include <cstdint>
#include <memory>

#include "io/bytes.h"
#include "io/file_source.h"

namespace energon {

/// Read-only; copies share the memory. Holds no descriptor.
class FileContent {
 public:
  /// Files below this size are read even if they may be mapped: the mapping would take more.
  static constexpr std::uint64_t kLeastMapped = std::uint64_t{4} << 10;

  /// Reads `file` as a whole. Throws Error as FileSource::read_at().
  static FileContent read(const FileSource& file);
  /// Maps `file`. Reads it if it is small, or if the system refuses the mapping.
  static FileContent map(const FileSource& file);
  /// Takes over bytes that were made here.
  template <class Container>
  static FileContent of(Container content) {
    auto owner = std::make_shared<const Container>(std::move(content));
    const ByteView bytes = std::as_bytes(std::span(*owner));
    return FileContent({.view = bytes, .owner = std::move(owner)}, false);
  }

  /// Aligned for integers of 8 bytes.
  ByteView bytes() const { return bytes_.view; }
  bool is_mapped() const { return is_mapped_; }

 private:
  FileContent(SharedBytes bytes, bool is_mapped)
      : bytes_(std::move(bytes)), is_mapped_(is_mapped) {}

  SharedBytes bytes_;
  bool is_mapped_;
};

}  // namespace energon
