#include "energon/process/patience.h"

#include <algorithm>

namespace energon {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kLongestTimeout = std::chrono::hours(24 * 365 * 100);  // in nanoseconds
constexpr nanoseconds kLongestLook = std::chrono::seconds(1);

}  // namespace

Patience::Patience(milliseconds timeout)
    : timeout_(std::clamp(timeout, milliseconds(0), kLongestTimeout)),
      longest_look_(std::min<nanoseconds>(timeout_ / 8, kLongestLook)),
      left_(timeout_) {}

Deadline Patience::look() {
  begin_ = std::chrono::steady_clock::now();
  length_ = std::min(left_, longest_look_);
  return begin_ + length_;
}

bool Patience::is_over() {
  const nanoseconds waited = std::chrono::steady_clock::now() - begin_;
  left_ -= std::min(waited, 2 * length_);
  return left_ <= nanoseconds::zero();
}

}  // namespace energon
