// What get says of a sample that it found by its key.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "energon/read/find_sample.h"

namespace energon::cli {

/// {"shard", "index"}: where a sample lies in its dataset.
nlohmann::ordered_json source_json(const SampleSource& source);

/// Key, place, parts with their bytes and media metadata, and the digest of the sample.
nlohmann::ordered_json found_json(const FoundSample& found);

/// The same for people, on standard output; names the dataset if it `is_of_several`. Throws
/// ClosedOutput, Error (kIo).
void print_found(const FoundSample& found, bool is_of_several);

}  // namespace energon::cli
