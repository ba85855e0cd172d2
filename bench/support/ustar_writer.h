// Writes the tars for the benchmarks: plain ustar, short names, regular files only.

#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "io/bytes.h"

namespace energon::bench {

class UstarWriter {
 public:
  /// Replaces `path`. Throws Error (kIo).
  explicit UstarWriter(const std::string& path);

  /// Appends a file. Requires: `name` has at most 99 bytes. Throws Error (kIo).
  void add(std::string_view name, ByteView content);

  /// Writes the end of the archive. Throws Error (kIo).
  void finish();

 private:
  void write(const char* bytes, std::size_t size);

  const std::string path_;
  std::ofstream file_;
};

}  // namespace energon::bench
