// The header of NumPy's .npy files, versions 1.0, 2.0 and 3.0: numpy.lib.format. Internal to
// media/data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/bytes.h"
#include "media/data/stored_elements.h"

namespace energon {

/// What the header says.
struct NpyHeader {
  StoredType type;
  bool is_byte_swapped = false;
  bool is_column_major = false;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;  ///< of the first element
  std::size_t data_bytes = 0;   ///< which are there, exactly
};

/// Thread-safe. Throws Error: kCorruptData for a damaged header and if not exactly the bytes of the
/// elements follow, kUnsupported for other versions and types.
NpyHeader parse_npy_header(ByteView encoded);

}  // namespace energon
