#include "tests/support/shared_data.h"

#include <cstdlib>
#include <filesystem>

#include "tests/support/skip.h"

namespace energon::testing {

std::optional<std::string> shared_data(std::string_view name) {
  const char* root = std::getenv("ENERGON_TEST_DATA");
  const std::filesystem::path folder =
      root != nullptr ? std::filesystem::path(root)
                      : std::filesystem::path(ENERGON_SOURCE_DIR) / "../shared/data";
  const std::filesystem::path path = folder / name;
  if (!std::filesystem::exists(path)) {
    return std::nullopt;
  }
  return path.lexically_normal().string();
}

void skipped() {
  skip_case("the shared test data is not next to this checkout (set ENERGON_TEST_DATA)");
}

}  // namespace energon::testing
