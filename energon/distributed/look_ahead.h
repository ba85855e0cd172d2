// Draws items before they are handed out, and still knows the position after the last one that was.
//
// Before an item is drawn ahead, the state of the source is taken and kept with the item before it:
// pairs (item, state after it). So the state that is given out never needs a correction, however
// far ahead was drawn. Nothing is drawn ahead, and no state taken, until somebody asks a question
// that needs it (last(), state()), so who does not ask pays nothing.

#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include "energon/state/state.h"

namespace energon {

/// `Source` has next(), which gives an optional item and nothing at the end of an epoch, and
/// save_state(). Not thread-safe.
template <class Source>
class LookAhead {
 public:
  using Item = typename decltype(std::declval<Source&>().next())::value_type;

  /// Borrows `source`, which must outlive this and be driven by nobody else.
  explicit LookAhead(Source& source) : source_(source) {}

  /// The next item, or nothing at the end. Throws what the source threw when it was drawn.
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

  /// Takes back the item handed out last: the position is again that before it, and it comes next.
  /// Requires: it was drawn ahead with draw(), and is given back once.
  void give_back(Item item) {
    Drawn drawn;
    drawn.item = std::move(item);
    drawn.state_after = std::exchange(state_, std::exchange(before_, std::nullopt));
    drawn_.push_front(std::move(drawn));
  }

  /// Holds up to `depth` items, fewer at the end of the epoch or before a failure.
  void draw(std::size_t depth) {
    while (drawn_.size() < depth && (drawn_.empty() || drawn_.back().item)) {
      std::optional<State>& before = drawn_.empty() ? state_ : drawn_.back().state_after;
      if (!before) {
        before = source_.save_state();
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

  /// True if the end follows the item handed out last. A failure of the item after it is kept for
  /// next().
  bool last() {
    if (!handed_out_) {
      return false;
    }
    draw(1);
    return !drawn_.front().item && !drawn_.front().failure;
  }

  /// The position after the item handed out last. After the last one of an epoch it is that of the
  /// end: who continues from there begins the next epoch. Before the first item nothing is drawn.
  State state() {
    if (last()) {
      std::optional<State>& after = drawn_.front().state_after;
      return after ? *after : source_.save_state();
    }
    return state_ ? *state_ : source_.save_state();
  }

  /// Passes over up to `count` items, at most to the end, and returns how many there were.
  /// `Source` has skip(), too.
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
      // Fewer: the source has come to its end, and its next item is of the next epoch.
      handed_out_ = more == count - skipped;
      skipped += more;
    }
    return skipped;
  }

  /// Forgets what was drawn: the source was restored.
  void reset() {
    drawn_.clear();
    state_.reset();
    handed_out_ = false;
  }

 private:
  struct Drawn {
    std::optional<Item> item;  // nothing: the end, or a failure
    std::exception_ptr failure;
    std::optional<State> state_after;  // absent: what the source says now
  };

  Source& source_;
  std::deque<Drawn> drawn_;
  std::optional<State> state_;   // after what was handed out; absent: what the source says now
  std::optional<State> before_;  // before it, if that is known
  bool handed_out_ = false;      // an item, since the beginning of the epoch or a reset
};

}  // namespace energon
