// One call of a function that makes several packs from the same samples.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "wrappers/batching/batch_generator.h"

namespace energon {

/// Like BatchGenerator, for the samples of a selected pack.
using PackGenerator = BatchGenerator;

class PackCall {
 public:
  /// Takes ownership of `samples`. `function` must outlive the call. `number` is the number of the
  /// selected pack.
  PackCall(const PackGenerator& function, std::vector<Sample> samples, CallResources resources,
           std::int64_t number);
  PackCall(const PackCall&) = delete;
  PackCall& operator=(const PackCall&) = delete;

  /// The next pack, with the key Packing(number, output)[…] and the keys and sources of all
  /// samples; nothing after the last one. Throws what the function throws.
  std::optional<Sample> next_pack();

  /// Makes the first `count` packs again and drops them. Throws Error (kInvalidArgument) if the
  /// function now makes fewer.
  void pass_over(std::int64_t count);

  /// Packing(number)[…]: what a state stores about the call.
  const RestoreKey& key() const { return key_; }
  /// Keys and sources of the samples.
  const Sample& origins() const { return origins_; }

 private:
  const PackGenerator& function_;
  std::vector<Sample> samples_;
  const std::int64_t number_;
  const std::vector<RestoreKey> inner_keys_;
  const RestoreKey key_;
  Sample origins_;
  const CallResources resources_;
  CallContext context_;
  bool has_begun_ = false;
  FieldsGenerator next_;  // may refer to samples and context
  std::int64_t outputs_ = 0;
};

}  // namespace energon
