// Draws items ahead, but still knows the position after the last delivered item.
//
// Before drawing an item ahead, LookAhead saves the state of the source and keeps it with the
// previous item, as pairs (item, state after the item). So the returned state never needs a
// correction, however many items were drawn ahead. Drawing ahead and saving happen only when a call
// needs them (last(), state()).

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

namespace energon {

/// `Source` has save_state_rank() and next(), which returns an optional item (nullopt at the end of
/// an epoch). Not thread-safe.
template <class Source>
class LookAhead {
 public:
  using Item = typename decltype(std::declval<Source&>().next())::value_type;
  using Position = decltype(std::declval<Source&>().save_state_rank());

  /// Borrows `source`, which must outlive this. Nothing else may drive the source.
  explicit LookAhead(Source& source) : source_(source) {}

  /// The next item, or nullopt at the end. Throws what the source threw when the item was drawn.
  std::optional<Item> next() {
    if (drawn_.empty()) {
      before_ = std::exchange(state_, std::nullopt);
      std::optional<Item> item = source_.next();
      handed_out_ = item.has_value();
      return item;
    }
    Drawn drawn = std::move(drawn_.front());
    drawn_.pop_front();
    if (drawn.failure) {
      std::rethrow_exception(drawn.failure);
    }
    before_ = std::exchange(state_, std::move(drawn.state_after));
    handed_out_ = drawn.item.has_value();
    return std::move(drawn.item);
  }

  /// Takes back the last delivered item: the position moves to before the item, and next() returns
  /// it again. Requires: the item was drawn ahead with draw() and is taken back only once.
  void give_back(Item item) {
    Drawn drawn;
    drawn.item = std::move(item);
    drawn.state_after = std::exchange(state_, std::exchange(before_, std::nullopt));
    drawn_.push_front(std::move(drawn));
  }

  /// Draws ahead until `depth` items are held; fewer at the end of the epoch or before a failure.
  void draw(std::size_t depth) {
    while (drawn_.size() < depth && (drawn_.empty() || drawn_.back().item)) {
      std::optional<Position>& before = drawn_.empty() ? state_ : drawn_.back().state_after;
      if (!before) {
        before = source_.save_state_rank();
      }
      Drawn drawn;
      try {
        drawn.item = source_.next();
      } catch (...) {
        drawn.failure = std::current_exception();
      }
      drawn_.push_back(std::move(drawn));
    }
  }

  /// True if the end follows the last delivered item. If drawing the next item fails, next()
  /// throws the error.
  bool last() {
    if (!handed_out_) {
      return false;
    }
    draw(1);
    return !drawn_.front().item && !drawn_.front().failure;
  }

  /// The position after the last delivered item. After the last item of an epoch, this is the
  /// position at the end: a run that continues from there begins the next epoch. Draws nothing
  /// before the first item.
  Position state() {
    if (last()) {
      std::optional<Position>& after = drawn_.front().state_after;
      return after ? *after : source_.save_state_rank();
    }
    return state_ ? *state_ : source_.save_state_rank();
  }

  /// Skips up to `count` items, at most to the end, and returns how many it skipped. Requires:
  /// `Source` also has skip().
  std::int64_t skip(std::int64_t count) {
    std::int64_t skipped = 0;
    while (skipped < count && !drawn_.empty()) {
      if (!next()) {
        return skipped;
      }
      ++skipped;
    }
    if (skipped < count) {
      state_.reset();
      const std::int64_t more = source_.skip(count - skipped);
      // If fewer, the source has reached its end, and its next item belongs to the next epoch.
      handed_out_ = more == count - skipped;
      skipped += more;
    }
    return skipped;
  }

  /// Number of items left before the end, if the source has `of_source` left.
  std::int64_t left(std::int64_t of_source) const {
    const std::int64_t items = std::count_if(
        drawn_.begin(), drawn_.end(), [](const Drawn& drawn) { return drawn.item.has_value(); });
    // After the end, the source is in the next epoch.
    const bool has_end = !drawn_.empty() && !drawn_.back().item && !drawn_.back().failure;
    return has_end ? items : items + of_source;
  }

  /// Discards what was drawn; call it after restoring the source.
  void reset() {
    drawn_.clear();
    state_.reset();
    handed_out_ = false;
  }

 private:
  struct Drawn {
    std::optional<Item> item;  // nullopt for the end or a failure
    std::exception_ptr failure;
    std::optional<Position> state_after;  // unset: query the source
  };

  Source& source_;
  std::deque<Drawn> drawn_;
  std::optional<Position> state_;   // after the last delivered item, or unset to query the source
  std::optional<Position> before_;  // before that item, if known
  bool handed_out_ =
      false;  // whether an item was delivered since the start of the epoch or reset()
};

}  // namespace energon
