// One call of the function of IterMap and its generator.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/stages/iter_map.h"

namespace energon {

class IterCall {
 public:
  /// Returns the sample that the call pulls at `position`, counted from 0; nothing at the end.
  using Source = std::function<std::optional<Sample>(std::size_t position)>;

  /// `options` and `guard` must outlive the call. `number` is the number of the call.
  IterCall(const IterMapOptions& options, StageGuard& guard, std::int64_t number, Source source);
  IterCall(const IterCall&) = delete;
  IterCall& operator=(const IterCall&) = delete;

  /// The next output with its key, or nothing after the last one. Throws what the function throws,
  /// and what the source threw even if the function caught it.
  std::optional<Sample> next_output();

  /// Makes the first `count` outputs again and drops them. Throws Error (kInvalidArgument) if the
  /// function now makes fewer.
  void pass_over(std::int64_t count);

  bool has_source_failed() const { return source_error_ != nullptr; }
  /// Keys and sources of the samples that were pulled.
  std::span<const Sample> origins() const { return origins_; }

 private:
  std::optional<Sample> run_generator();
  std::optional<Sample> pull();
  std::span<const Sample> last_origins() const;

  const IterMapFunction& function_;
  StageGuard& guard_;
  const Source source_;
  const std::int64_t number_;
  RestoreKey key_;  // IterMap(call)[first sample pulled]
  const CallResources resources_;
  CallContext context_;
  std::vector<RestoreKey> keys_;
  std::vector<Sample> origins_;
  std::exception_ptr source_error_;
  bool has_begun_ = false;
  SampleGenerator generator_;  // may refer to the context and to this
  std::int64_t outputs_ = 0;
};

}  // namespace energon
