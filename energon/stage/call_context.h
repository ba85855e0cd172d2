// What a user function can query besides its data.

#pragma once

#include <cstdint>
#include <optional>

#include "energon/sample/restore_key.h"
#include "energon/stage/call_rng.h"

namespace energon {

/// Valid for the duration of one call.
class CallContext {
 public:
  /// `seed` is the seed of the job, not of the worker. `key` is the key of the item being made and
  /// must outlive the context.
  CallContext(std::uint32_t seed, const RestoreKey& key, std::int64_t call)
      : seed_(seed), key_(key), call_(call) {}

  /// A generator seeded by (seed, restore key), so that a restored item gets the same augmentation
  /// as before. Created on first use.
  CallRng& rng();

  /// Number of calls of the function before this one, on this logical shard.
  std::int64_t call() const { return call_; }

  const RestoreKey& restore_key() const { return key_; }

 private:
  const std::uint32_t seed_;
  const RestoreKey& key_;
  const std::int64_t call_;
  std::optional<CallRng> rng_;
};

}  // namespace energon
