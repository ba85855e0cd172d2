// A limit on what all readers of a process hold together: open tars, indexes, bytes read ahead.
//
// Each holder keeps its own things with the time of their last use. When the limit is reached, the
// least recently used things of all holders are dropped, some at a time, so that finding them costs
// little for each.

#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace energon {

/// Used by the thread that drives the pipelines.
class SharedBudget {
 public:
  struct Held {
    std::uint64_t last_use = 0;
    std::uint64_t cost = 0;
  };

  class Holder {
   public:
    /// Appends all that is held.
    virtual void list(std::vector<Held>& held) const = 0;
    /// Drops what was last used before `time`.
    virtual void drop_before(std::uint64_t time) = 0;

   protected:
    ~Holder() = default;
  };

  /// `grow` is asked once for a larger limit, before anything is dropped; absent: the limit is
  /// fixed.
  explicit SharedBudget(std::uint64_t limit, std::function<std::uint64_t()> grow = nullptr)
      : limit_(limit), full_limit_(limit), grow_(std::move(grow)) {}
  SharedBudget(const SharedBudget&) = delete;
  SharedBudget& operator=(const SharedBudget&) = delete;

  /// `holder` must leave before it is destroyed.
  void join(Holder& holder) { holders_.push_back(&holder); }
  void leave(Holder& holder) { std::erase(holders_, &holder); }

  std::uint64_t limit() const { return limit_; }
  /// The sum of the costs of all that is held, and the number of these things.
  std::uint64_t held() const { return held_; }
  std::uint64_t count() const { return count_; }
  /// How often something was dropped because the limit was reached.
  std::uint64_t drops() const { return drops_; }

  /// The time for Held::last_use.
  std::uint64_t now() const { return now_; }
  /// What was used before may be dropped from here on; what is used at this time is kept.
  void advance() { ++now_; }

  /// Drops what must go before `cost` can be added. Nothing that is used at this time is dropped;
  /// so the limit does not hold if that alone exceeds it.
  void make_room(std::uint64_t cost);
  void add(std::uint64_t cost) {
    held_ += cost;
    added_ += cost;
    ++count_;
  }
  /// A holder has dropped something.
  void remove(std::uint64_t cost) {
    held_ -= cost;
    --count_;
  }

  /// The system grants less than the limit now: lowers it below what is held. From then on the
  /// limit rises again by an eighth each time that this much was added without a refusal. Returns
  /// false if nothing can be dropped.
  bool shrink();

 private:
  void drop(std::uint64_t cost);

  std::uint64_t limit_;
  std::uint64_t full_limit_;             // without what shrink() took off
  std::uint64_t added_ = 0;              // since the limit last changed
  std::function<std::uint64_t()> grow_;  // empty once it was asked
  std::uint64_t held_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t drops_ = 0;
  std::uint64_t now_ = 1;
  std::vector<Holder*> holders_;
};

}  // namespace energon
