// Shared by the fuzz targets. Bad input is an energon::Error; any other exception, and any
// sanitizer finding, ends the run.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "io/error.h"

namespace energon::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Calls `read`, which may throw Error. Always returns 0, as libFuzzer requires.
template <class Read>
int try_to_read(const Read& read) {
  try {
    read();
  } catch (const Error&) {
  }
  return 0;
}

/// Aborts unless `holds`, such as that a value survives a round trip.
inline void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace energon::fuzz
