#include "energon/distributed/skip_first.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

State skip_state(std::int64_t shortened_by, std::int64_t left) {
  return {"SkipFirst", {{"shortened_by", shortened_by}, {"left", left}}, {State()}};
}

}  // namespace

SkipFirst::SkipFirst(std::shared_ptr<Adapter> source, std::int64_t count)
    : source_(std::move(source)), shortened_by_(count), left_(count) {
  if (count < 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} batches cannot be skipped", count));
  }
}

std::optional<Sample> SkipFirst::next() {
  if (left_ > 0) {
    const std::int64_t count = std::exchange(left_, 0);
    if (source_->skip(count) < count) {
      return ended(std::nullopt);
    }
  }
  return ended(source_->next());
}

std::optional<Sample> SkipFirst::ended(std::optional<Sample> batch) {
  if (!batch) {
    shortened_by_ = 0;
  }
  return batch;
}

State SkipFirst::save_state() {
  const bool at_end = left_ == 0 && source_->end_of_dataloader();
  State state = skip_state(at_end ? 0 : shortened_by_, left_);
  state.children[0] = source_->save_state();
  return state;
}

void SkipFirst::restore_state(const State& state) {
  check_shape(state, skip_state(0, 0));
  source_->restore_state(state.children[0]);
  shortened_by_ = state.integer("shortened_by");
  left_ = state.integer("left");
}

std::optional<std::int64_t> SkipFirst::size() {
  const std::optional<std::int64_t> whole = source_->size();
  return whole ? std::optional(std::max<std::int64_t>(*whole - shortened_by_, 0)) : whole;
}

std::int64_t SkipFirst::skip(std::int64_t count) {
  const std::int64_t first = std::exchange(left_, 0);
  const std::int64_t skipped = source_->skip(first + count);
  if (skipped < first + count) {
    shortened_by_ = 0;
  }
  return std::max<std::int64_t>(skipped - first, 0);
}

std::shared_ptr<SkipFirst> skip_first_batches(std::shared_ptr<Adapter> source, std::int64_t count) {
  return std::make_shared<SkipFirst>(std::move(source), count);
}

Config SkipFirst::common_settings() { return source_->common_settings(); }

}  // namespace energon
