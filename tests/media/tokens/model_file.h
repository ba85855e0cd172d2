// The models of data/.

#pragma once

#include <string>

#include "io/file.h"

namespace energon::testing {

/// The bytes of tests/media/tokens/data/`name`.
inline std::string token_file(const std::string& name) {
  return read_file(std::string(ENERGON_SOURCE_DIR) + "/tests/media/tokens/data/" + name);
}

}  // namespace energon::testing
