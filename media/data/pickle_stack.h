// The stack and the memo of the machine that Python's pickles are programs of. Internal to
// media/data.

#pragma once

#include <cstddef>
#include <vector>

#include "media/data/pickle_graph.h"

namespace energon {

/// Holds objects by their number. All functions throw Error (kCorruptData) where the pickle takes
/// what is not there. Not thread-safe.
class PickleStack {
 public:
  void push(PickleId id) { stack_.push_back(id); }
  PickleId top() const;
  PickleId pop() { return pop_last(1).front(); }
  /// In the order in which they were pushed.
  std::vector<PickleId> pop_last(std::size_t count);

  /// Marks the top. Nothing below is taken until pop_marked().
  void mark() { marks_.push_back(stack_.size()); }
  /// All above the last mark, and the mark.
  std::vector<PickleId> pop_marked();

  std::size_t memo_size() const { return memo_.size(); }
  /// Stores the top, which stays, as `entry` of the memo. New entries come one by one.
  void put(std::size_t entry);
  /// Pushes `entry` of the memo.
  void get(std::size_t entry);

 private:
  std::vector<PickleId> pop_from(std::size_t begin);
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<PickleId> memo_;
};

}  // namespace energon
