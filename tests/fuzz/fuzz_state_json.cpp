// Positions as JSON.

#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_forms.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  const auto json = nlohmann::ordered_json::parse(fuzz::text_of(data, size), nullptr, false);
  if (json.is_discarded()) {
    return 0;
  }
  return fuzz::try_to_read([&] {
    const SavableDataLoaderState state = loader_state_from_json(json, "state");
    fuzz::require(loader_state_from_json(loader_state_to_json(state), "state") == state);
  });
}
