#include "media/data/pickle_stack.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

[[noreturn]] void fail_stack(std::string message) {
  throw Error(ErrorCode::kCorruptData, std::move(message));
}

}  // namespace

PickleId PickleStack::top() const {
  if (stack_.size() <= floor()) {
    fail_stack("the pickle takes more from its stack than there is");
  }
  return stack_.back();
}

std::vector<PickleId> PickleStack::pop_last(std::size_t count) {
  if (stack_.size() - floor() < count) {
    fail_stack("the pickle takes more from its stack than there is");
  }
  return pop_from(stack_.size() - count);
}

std::vector<PickleId> PickleStack::pop_marked() {
  if (marks_.empty()) {
    fail_stack("the pickle goes back to a mark that is not there");
  }
  const std::size_t begin = marks_.back();
  marks_.pop_back();
  return pop_from(begin);
}

void PickleStack::put(std::size_t entry) {
  if (entry > memo_.size()) {
    fail_stack(fmt::format("memo entry {} is written when there are {}", entry, memo_.size()));
  }
  if (entry == memo_.size()) {
    memo_.push_back(top());
  } else {
    memo_[entry] = top();
  }
}

void PickleStack::get(std::size_t entry) {
  if (entry >= memo_.size()) {
    fail_stack(fmt::format("memo entry {} is read when there are {}", entry, memo_.size()));
  }
  stack_.push_back(memo_[entry]);
}

std::vector<PickleId> PickleStack::pop_from(std::size_t begin) {
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(begin);
  std::vector<PickleId> result(first, stack_.end());
  stack_.erase(first, stack_.end());
  return result;
}

}  // namespace energon
