// How full packs would be: bars.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace energon::cli {

struct PackedLength {
  std::string key;  ///< of the sample
  std::int64_t length = 0;
};

/// A bar for each pack of at most `max_length`, filled as pack_by_length() fills them
/// (wrappers/batching/pack_selection.h), and the samples that are too long for any. `unit` follows
/// numbers: "bytes of txt". Requires: lengths are not negative, max_length >= 1.
std::string packs_html(const std::vector<PackedLength>& samples, std::int64_t max_length,
                       const std::string& unit);

}  // namespace energon::cli
