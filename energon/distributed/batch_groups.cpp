#include "energon/distributed/batch_groups.h"

#include <utility>

#include "energon/distributed/batch_slices.h"
#include "io/error.h"

namespace energon {

BatchGroups::BatchGroups(BatchSource& source, std::int64_t batches, bool drop_last)
    : source_(source), batches_(batches), drop_last_(drop_last), ahead_(source) {}

std::optional<BatchGroups::Group> BatchGroups::next() {
  Group group;
  while (static_cast<std::int64_t>(group.batches.size()) < batches_) {
    // If the epoch ends within a group, the next call hands out the end.
    if (!group.batches.empty() && ahead_.last()) {
      break;
    }
    std::optional<Sample> batch = ahead_.next();
    if (!batch) {
      full_samples_ = 0;
      return std::nullopt;
    }
    if (sample_count(*batch) == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a batch without samples (its list of keys is empty) cannot be dispatched");
    }
    group.samples += sample_count(*batch);
    group.batches.push_back(std::move(*batch));
  }
  check_concatenation(group.batches);
  if (full_samples_ == 0) {
    full_samples_ = group.samples;
  }
  const bool incomplete =
      static_cast<std::int64_t>(group.batches.size()) < batches_ || group.samples < full_samples_;
  if (drop_last_ && incomplete && ahead_.last()) {
    ahead_.next();
    full_samples_ = 0;
    return std::nullopt;
  }
  return group;
}

std::optional<std::int64_t> BatchGroups::batches_left() const {
  const std::optional<std::int64_t> left = source_.batches_left();
  return left ? std::optional(ahead_.left(*left)) : left;
}

void BatchGroups::restored(std::int64_t full_samples) {
  ahead_.reset();
  full_samples_ = full_samples;
}

}  // namespace energon
