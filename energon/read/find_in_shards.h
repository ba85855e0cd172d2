// Finds samples by key in the tars of one dataset, prepared or plain.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "energon/read/find_sample.h"

namespace energon {

enum class KeyMatches { kFirst, kAll };

/// Where in a dataset samples are looked for.
struct SplitPart {
  std::optional<std::string> name = std::nullopt;    ///< absent: everywhere
  std::optional<std::string> config = std::nullopt;  ///< its split file; absent: the usual one
};

/// The samples with this key in the tars at `path`, at least one. `options.split` is not used.
/// Throws Error as find_sample().
std::vector<FoundSample> find_in_shards(const std::string& path, const std::string& key,
                                        const SplitPart& part, KeyMatches matches,
                                        const FindOptions& options);

/// Throws Error (kNotFound).
[[noreturn]] void fail_key_not_found(const std::string& path, const std::string& key);

}  // namespace energon
