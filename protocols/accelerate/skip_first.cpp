#include "protocols/accelerate/skip_first.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr const char* kSkipType = "SkipFirst";

State skip_node(std::int64_t shortened_by, std::int64_t left) {
  return {kSkipType, {{"shortened_by", shortened_by}, {"left", left}}, {}};
}

}  // namespace

SkipFirst::SkipFirst(std::shared_ptr<Adapter> source, std::int64_t count)
    : ForwardingAdapter(std::move(source)), shortened_by_(count), left_(count) {
  if (count < 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("cannot skip {} batches", count));
  }
}

std::optional<Sample> SkipFirst::next() {
  if (left_ > 0 && source_->keeps_position()) {  // otherwise the reading rank skips
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

SavableDataLoaderState SkipFirst::save_state_rank() {
  const bool at_end = left_ == 0 && source_->end_of_dataloader();
  return put_over(skip_node(at_end ? 0 : shortened_by_, left_), source_->save_state_rank());
}

void SkipFirst::restore_state_rank(const SavableDataLoaderState& state) {
  const Parts parts = take_apart(state, kSkipType);
  check_node(parts.node, skip_node(0, 0));
  source_->restore_state_rank(parts.source);
  shortened_by_ = parts.node.integer("shortened_by");
  left_ = parts.node.integer("left");
}

std::optional<std::int64_t> SkipFirst::batches_left() const {
  const std::optional<std::int64_t> left = source_->batches_left();
  return left ? std::optional(std::max<std::int64_t>(*left - left_, 0)) : left;
}

std::optional<std::int64_t> SkipFirst::size() const {
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

}  // namespace energon
