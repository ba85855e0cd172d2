// Runs `energon preview --html` and reads the page.

#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include "tests/cli/energon_program.h"
#include "tests/support/temp_dir.h"

namespace energon::testing {

struct PreviewedPage {
  int exit_code = 0;
  std::string out;
  std::string html;
};

/// Pages may be larger than read_file() allows.
inline std::string whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline PreviewedPage preview(const std::string& path, const Words& more = {}) {
  const TempDir folder;
  const std::string file = folder.file("page.html");
  const auto result = run_energon(Words{"preview", path, "--html", file} + more);
  UNSCOPED_INFO(result.err);
  REQUIRE(result.signal == 0);
  return {result.exit_code, result.out, result.exit_code > 1 ? "" : whole_file(file)};
}

inline PreviewedPage preview_tar(const std::string& tar, const Words& more = {}) {
  const TempDir folder;
  folder.write("a.tar", tar);
  return preview(folder.path(), more);
}

inline std::size_t count_of(const std::string& text, std::string_view piece) {
  std::size_t found = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace energon::testing
