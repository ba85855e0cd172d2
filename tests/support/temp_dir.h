// A temporary folder that the destructor removes with its content.

#pragma once

#include <string>
#include <string_view>

#include "io/bytes.h"

namespace energon::testing {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  /// Writes `content` to `name`, making folders as needed; returns the full path.
  std::string write(std::string_view name, std::string_view content) const;

 private:
  std::string path_;
};

}  // namespace energon::testing
