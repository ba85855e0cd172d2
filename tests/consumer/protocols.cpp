// Linked beside main.cpp where the package has the protocols: before main(), something of each
// system is used.

#include <cstdlib>
#include <memory>

#include "protocols/accelerate/shard_adapter.h"
#include "protocols/cerebras/restartable_map.h"
#include "protocols/indexed_source.h"
#include "protocols/torchdata/stateful_data_loader.h"

namespace {

const bool is_checked = [] {
  const energon::FetchFunction fetch = [](std::span<const std::int64_t> /*indexes*/) {
    return energon::Sample();
  };
  const energon::IndexedOptions options{.samples = 4, .batch_size = 2};
  energon::StatefulDataLoader loader(std::make_shared<energon::ShardAdapter>(
      std::make_shared<energon::IndexedSource>(options, fetch)));
  const energon::RestartableMap object(energon::WorkerIdentity(), {.samples = 4}, fetch);
  if (loader.state_dict().empty() || object.state_dict().empty()) {
    std::abort();
  }
  return true;
}();

}  // namespace
