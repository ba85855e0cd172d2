#include "bench/support/consumer.h"

#include <cstring>

#include "io/hash.h"

namespace energon::bench {
namespace {

constexpr std::size_t kCacheLine = 64;

std::uint64_t touch_lines(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + sizeof(sum) <= bytes.size(); at += kCacheLine) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    sum += word;
  }
  return sum;
}

}  // namespace

std::string_view suffix(Consumer consumer) {
  switch (consumer) {
    case Consumer::kDrops:
      return "";
    case Consumer::kTouches:
      return ", touched";
    case Consumer::kHashes:
      return ", hashed";
  }
  return "";
}

std::uint64_t consume(Consumer consumer, std::span<const std::byte> bytes) {
  switch (consumer) {
    case Consumer::kDrops:
      return 0;
    case Consumer::kTouches:
      return touch_lines(bytes);
    case Consumer::kHashes:
      return xxh3_64(bytes);
  }
  return 0;
}

void keep(std::uint64_t value) { asm volatile("" : : "r"(value) : "memory"); }

}  // namespace energon::bench
