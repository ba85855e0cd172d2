#include "energon/loader/delivery_log.h"

#include <utility>

namespace energon {

void DeliveryLog::begin(std::vector<std::int64_t> delivered) {
  entries_.clear();
  batches_ = 0;
  first_counts_ = std::move(delivered);
}

std::optional<std::size_t> DeliveryLog::add_batch(std::size_t stream,
                                                  const Certificate& certificate,
                                                  std::optional<EpochPlace> place) {
  entries_.push_back({static_cast<std::uint32_t>(stream), certificate,
                      place ? std::make_unique<const EpochPlace>(std::move(*place)) : nullptr});
  if (batches_ < most_) {
    ++batches_;
    return std::nullopt;
  }
  while (entries_.front().stream == kNoStream) {
    entries_.pop_front();
  }
  const std::size_t oldest = entries_.front().stream;
  entries_.pop_front();
  ++first_counts_[oldest];
  return oldest;
}

void DeliveryLog::add_end(EpochPlace place) {
  if (!entries_.empty() && entries_.back().stream == kNoStream) {
    return;  // an epoch without a batch: both ends are undone together
  }
  entries_.push_back({kNoStream, {}, std::make_unique<const EpochPlace>(std::move(place))});
}

void DeliveryLog::undo(const Entry& entry, RankPosition& position) {
  if (entry.stream != kNoStream) {
    position.certificates[entry.stream] = entry.certificate;
    --position.delivered[entry.stream];
    --position.batch_index;
    if (!entry.place) {
      position.place.turns.give_back(entry.stream);
      if (position.place.step_in_epoch) {
        --*position.place.step_in_epoch;
      }
    }
  }
  if (entry.place) {
    position.place = *entry.place;
  }
}

// The ends of epochs after that batch are counted, too.
std::size_t DeliveryLog::entries_after(std::int64_t batch_index, std::int64_t now) const {
  std::size_t entries = 0;
  while (entries < entries_.size()) {
    const bool is_batch = entries_[entries_.size() - 1 - entries].stream != kNoStream;
    if (is_batch && now == batch_index) {
      break;
    }
    now -= is_batch ? 1 : 0;
    ++entries;
  }
  return entries;
}

RankPosition DeliveryLog::position_at(std::int64_t batch_index, RankPosition now) const {
  const std::size_t last = entries_after(batch_index, now.batch_index);
  for (std::size_t i = 0; i < last; ++i) {
    undo(entries_[entries_.size() - 1 - i], now);
  }
  return now;
}

void DeliveryLog::go_back(std::int64_t batch_index, const RankPosition& now) {
  for (std::size_t left = entries_after(batch_index, now.batch_index); left > 0; --left) {
    batches_ -= entries_.back().stream != kNoStream ? 1 : 0;
    entries_.pop_back();
  }
}

std::int64_t DeliveryLog::batches_after(std::span<const std::int64_t> oldest,
                                        const RankPosition& now) const {
  std::vector<std::int64_t> delivered = now.delivered;
  std::int64_t batches = 0;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->stream == kNoStream) {
      continue;
    }
    if (--delivered[entry->stream] < oldest[entry->stream]) {
      break;
    }
    ++batches;
  }
  return batches;
}

}  // namespace energon
