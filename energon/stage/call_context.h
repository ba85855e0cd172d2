// What a function of the user may know besides its data.

#pragma once

#include <cstdint>
#include <optional>

#include "energon/sample/restore_key.h"
#include "energon/stage/call_rng.h"

namespace energon {

/// For the duration of one call.
class CallContext {
 public:
  /// `seed` is the job's, not the worker's; `key` is that of the item being made and must outlive
  /// the context.
  CallContext(std::uint32_t seed, const RestoreKey& key, std::int64_t call)
      : seed_(seed), key_(key), call_(call) {}

  /// A generator seeded by (seed, restore key): a restored item is augmented as the first time.
  /// Made on first use.
  CallRng& rng();

  /// Calls of the function before this one, on this logical shard.
  std::int64_t call() const { return call_; }

  const RestoreKey& restore_key() const { return key_; }

 private:
  const std::uint32_t seed_;
  const RestoreKey& key_;
  const std::int64_t call_;
  std::optional<CallRng> rng_;
};

}  // namespace energon
