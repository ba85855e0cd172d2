// Draws a fuzz target's options from the first bytes of its input. A file with these bytes
// prepended is a seed; tests/fuzz/make_seeds.py prepends them.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "io/bytes.h"

namespace energon::fuzz {

/// One byte for each draw, so that libFuzzer can change one option alone. Draws past the last byte
/// return 0.
class Choices {
 public:
  static constexpr std::size_t kBytes = 8;

  Choices(const std::uint8_t* data, std::size_t size)
      : bytes_(data, std::min(size, kBytes)),
        rest_(std::as_bytes(std::span(data, size).subspan(bytes_.size()))) {}

  std::size_t byte() { return next_ < bytes_.size() ? bytes_[next_++] : 0; }
  /// In [0, count).
  std::size_t below(std::size_t count) { return byte() % count; }
  bool yes() { return below(2) == 1; }

  /// The input after these bytes.
  ByteView rest() const { return rest_; }

 private:
  std::span<const std::uint8_t> bytes_;
  ByteView rest_;
  std::size_t next_ = 0;
};

}  // namespace energon::fuzz
