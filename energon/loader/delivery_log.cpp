#include "energon/loader/delivery_log.h"

#include <utility>

namespace energon {

void DeliveryLog::begin(std::vector<std::int64_t> delivered, std::int64_t batch_index) {
  entries_.clear();
  places_.clear();
  batches_ = 0;
  begin_index_ = batch_index;
  first_counts_ = std::move(delivered);
}

void DeliveryLog::push(Entry entry) {
  entries_.push_back(std::move(entry));
  if (const EpochPlace* place = entries_.back().place.get()) {
    places_.push_back(place);
  }
}

// Returns whether the entry had a place.
bool DeliveryLog::pop_oldest() {
  const bool is_place = entries_.front().place != nullptr;
  if (is_place) {
    places_.pop_front();
  }
  entries_.pop_front();
  return is_place;
}

std::optional<DeliveryLog::Forgotten> DeliveryLog::add_batch(std::size_t stream,
                                                             const Certificate& certificate,
                                                             std::optional<EpochPlace> place) {
  push({static_cast<std::uint32_t>(stream), certificate,
        place ? std::make_unique<const EpochPlace>(std::move(*place)) : nullptr});
  if (batches_ < most_) {
    ++batches_;
    return std::nullopt;
  }
  bool is_place = false;
  while (entries_.front().stream == kNoStream) {
    is_place = pop_oldest() || is_place;
  }
  const std::size_t oldest = entries_.front().stream;
  is_place = pop_oldest() || is_place;
  ++first_counts_[oldest];
  return Forgotten{oldest, is_place};
}

void DeliveryLog::add_end(EpochPlace place) {
  if (!entries_.empty() && entries_.back().stream == kNoStream) {
    return;  // an epoch without a batch: both ends are undone together
  }
  push({kNoStream, {}, std::make_unique<const EpochPlace>(std::move(place))});
}

CheckpointPlace DeliveryLog::first(std::size_t stream, const EpochPlace& now) const {
  const EpochPlace& place = places_.empty() ? now : *places_.front();
  return {first_counts_[stream], place.turns.of(stream).epoch};
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
    if (entries_.back().place) {
      places_.pop_back();
    }
    entries_.pop_back();
  }
}

std::int64_t DeliveryLog::batches_after(std::span<const CheckpointPlace> oldest,
                                        const RankPosition& now) const {
  std::vector<std::int64_t> delivered = now.delivered;
  bool is_in_reach = true;
  std::int64_t batches = 0;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->stream != kNoStream) {
      if (!is_in_reach) {  // after the ends of epochs that are undone with the batch before
        break;
      }
      ++batches;
      is_in_reach = --delivered[entry->stream] >= oldest[entry->stream].index;
    }
    for (std::size_t i = 0; entry->place && i < oldest.size(); ++i) {
      is_in_reach = is_in_reach && entry->place->turns.of(i).epoch >= oldest[i].epoch;
    }
  }
  return is_in_reach || batches == 0 ? batches : batches - 1;
}

}  // namespace energon
