#include "wrappers/stages/iter_call.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "wrappers/held/combine.h"

namespace energon {

IterCall::IterCall(const IterMapOptions& options, StageGuard& guard, std::int64_t number,
                   Source source)
    : function_(options.function),
      guard_(guard),
      source_(std::move(source)),
      number_(number),
      key_(RestoreKey::list(Stage::kIterMap, {number}, {})),
      resources_(options.stage.resources()),
      context_(resources_, key_, number) {}

std::optional<Sample> IterCall::next_output() {
  const StageGuard::Work work = guard_.work_on(last_origins());
  std::optional<Sample> output = run_generator();
  if (output) {
    output->restore_key = RestoreKey::list(Stage::kIterMap, {number_, outputs_++}, keys_);
    if (output->keys.empty()) {
      for (const Sample& origins : origins_) {
        Sample copy = origins;
        move_origins({&copy, 1}, *output);
      }
    }
    check_made(*output);
  }
  return output;
}

std::optional<Sample> IterCall::run_generator() {
  std::optional<Sample> output;
  try {
    if (!std::exchange(has_begun_, true)) {
      generator_ = function_([this] { return pull(); }, context_);
    }
    output = generator_ ? generator_() : std::nullopt;
  } catch (...) {
    if (!source_error_) {
      throw;
    }
  }
  if (source_error_) {
    std::rethrow_exception(source_error_);
  }
  return output;
}

void IterCall::pass_over(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!next_output()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("call {} of the function gives {} outputs, before it gave {} or "
                              "more: it must be a function of what it pulls and its context",
                              number_, i, count));
    }
  }
}

std::optional<Sample> IterCall::pull() {
  if (source_error_) {
    std::rethrow_exception(source_error_);
  }
  try {
    std::optional<Sample> sample = source_(keys_.size());
    if (sample) {
      keys_.push_back(sample->restore_key);
      origins_.push_back(origins_of(*sample));
      if (keys_.size() == 1) {
        key_ = RestoreKey::list(Stage::kIterMap, {number_}, keys_);
      }
    }
    guard_.note_work(last_origins());  // overwrites what the stages before noted
    return sample;
  } catch (...) {
    source_error_ = std::current_exception();
    throw;
  }
}

// The samples that the function most likely works on.
std::span<const Sample> IterCall::last_origins() const {
  constexpr std::size_t kMost = 64;
  return std::span(origins_).last(std::min(origins_.size(), kMost));
}

}  // namespace energon
