#include "io/index/old_index.h"

#include <algorithm>
#include <functional>
#include <span>

#include "io/error.h"
#include "io/file.h"

namespace energon {

std::vector<std::uint64_t> read_old_index(const std::string& index_path, std::uint64_t unit_bytes) {
  constexpr std::uint64_t kLimitBytes = std::uint64_t{1} << 30;
  std::vector<std::uint64_t> entries;
  try {
    const FileSource file(index_path);
    if (file.size() % sizeof(std::uint64_t) != 0 || file.size() > kLimitBytes) {
      return {};
    }
    entries.resize(file.size() / sizeof(std::uint64_t));
    file.read_at(0, std::as_writable_bytes(std::span(entries)));
  } catch (const Error&) {
    return {};
  }
  const bool is_index =
      entries.size() >= 2 &&
      std::ranges::all_of(entries, [&](std::uint64_t entry) { return entry % unit_bytes == 0; }) &&
      std::ranges::adjacent_find(entries, std::greater_equal<>()) == entries.end();
  return is_index ? entries : std::vector<std::uint64_t>();
}

}  // namespace energon
