#include "wrappers/batching/pack_call.h"

#include <utility>

#include <fmt/format.h>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "wrappers/held/combine.h"

namespace energon {

PackCall::PackCall(const PackGenerator& function, std::vector<Sample> samples,
                   CallResources resources, std::int64_t number)
    : function_(function),
      samples_(std::move(samples)),
      number_(number),
      inner_keys_(restore_keys(samples_)),
      key_(RestoreKey::list(Stage::kPacking, {number}, inner_keys_)),
      resources_(std::move(resources)),
      context_(resources_, key_, number) {
  for (const Sample& sample : samples_) {
    Sample origins = energon::origins_of(sample);
    move_origins({&origins, 1}, origins_);
  }
}

std::optional<Sample> PackCall::next_pack() {
  if (!std::exchange(has_begun_, true)) {
    next_ = function_(samples_, context_);
  }
  std::optional<Mapping> fields = next_ ? next_() : std::nullopt;
  if (!fields) {
    return std::nullopt;
  }
  Sample pack = origins_;
  pack.restore_key = RestoreKey::list(Stage::kPacking, {number_, outputs_++}, inner_keys_);
  pack.fields = std::move(*fields);
  check_made(pack);
  return pack;
}

void PackCall::pass_over(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!next_pack()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the function makes {} packs of '{}', before it made {} or more: it "
                              "must be a function of its samples and its context",
                              i, key_.text(), count));
    }
  }
}

}  // namespace energon
