// What the fuzz targets have in common. Bad input is an energon::Error; whatever else is thrown,
// and what the sanitizers find, ends the run.

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

/// Calls `read`, which may throw Error. Always 0, as libFuzzer wants it.
template <class Read>
int try_to_read(const Read& read) {
  try {
    read();
  } catch (const Error&) {
  }
  return 0;
}

/// What is read and written again is read as the same.
inline void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace energon::fuzz
