// XXH3-64 (https://github.com/Cyan4973/xxHash), seed 0: digests of samples, states and batches.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/bytes.h"

namespace energon {

std::uint64_t xxh3_64(ByteView bytes);

/// The same digest, computed from bytes in pieces. Not thread-safe.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(const Xxh3Stream&) = delete;
  Xxh3Stream& operator=(const Xxh3Stream&) = delete;

  void update(ByteView bytes);
  /// Feeds the length of `bytes` (u64, little-endian) and then the bytes, so that ("ab","c") and
  /// ("a","bc") differ.
  void update_field(ByteView bytes);
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Sixteen lower-case hexadecimal digits.
std::string to_hex(std::uint64_t value);

}  // namespace energon
