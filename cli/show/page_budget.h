// What a page may still hold, so that it stays small enough for a browser.

#pragma once

#include <cstdint>
#include <string_view>

namespace energon::cli {

/// What stands for content that take() refused.
inline constexpr std::string_view kPageIsFull =
    "<p class=\"note\">Not shown: the page is full.</p>";

/// Not thread-safe.
class PageBudget {
 public:
  explicit PageBudget(std::uint64_t bytes) : left_(bytes) {}

  /// Takes `bytes` of what is left. False if that is less; then nothing is taken.
  bool take(std::uint64_t bytes) {
    if (bytes > left_) {
      ++refused_;
      return false;
    }
    left_ -= bytes;
    return true;
  }

  std::uint64_t left() const { return left_; }
  /// How often take() was false.
  std::int64_t refused() const { return refused_; }

 private:
  std::uint64_t left_;
  std::int64_t refused_ = 0;
};

}  // namespace energon::cli
