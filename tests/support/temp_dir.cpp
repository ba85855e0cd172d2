#include "tests/support/temp_dir.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace energon::testing {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "energon-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("mkdtemp failed for " + pattern);
  }
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::write(std::string_view name, std::string_view content) const {
  const std::filesystem::path target = file(name);
  std::filesystem::create_directories(target.parent_path());
  std::ofstream(target, std::ios::binary)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
  return target.string();
}

}  // namespace energon::testing
