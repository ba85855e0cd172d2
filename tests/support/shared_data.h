// Finds test data outside the source tree: real shards and unusual archives made by other tools.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace energon::testing {

/// Path of `name` in the shared test data: $ENERGON_TEST_DATA, otherwise ../shared/data next to the
/// source tree. nullopt if the data does not exist; the caller then skips its case:
///   const auto path = shared_data("tar"); if (!path) return skipped();
std::optional<std::string> shared_data(std::string_view name);

/// Calls skip_case() because the shared data is missing.
void skipped();

}  // namespace energon::testing
