// Real shards and odd archives made by others, if this checkout lies beside them.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace energon::testing {

/// Path of `name` in the shared test data: $ENERGON_TEST_DATA, else ../shared/data beside the
/// source tree. Empty if the data is not there; the caller then skips its case:
///   const auto path = shared_data("tar"); if (!path) return skipped();
std::optional<std::string> shared_data(std::string_view name);

/// skip_case() for want of the shared data.
void skipped();

}  // namespace energon::testing
