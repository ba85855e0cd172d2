#include "energon/stage/call_context.h"

#include <cmath>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

thread_local std::optional<std::int64_t> item_number;

}  // namespace

ItemNumber::ItemNumber(std::int64_t number) : outer_(item_number) { item_number = number; }
ItemNumber::~ItemNumber() { item_number = outer_; }
std::optional<std::int64_t> ItemNumber::current() { return item_number; }

CallRng& CallContext::rng() {
  if (!rng_) {
    Xxh3Stream stream;
    stream.update(std::as_bytes(std::span(&resources_.seed, 1)));
    stream.update(as_bytes(key_.bytes()));
    rng_.emplace(static_cast<std::uint32_t>(stream.digest()));
  }
  return *rng_;
}

BufferAllocator& CallContext::memory() const {
  return resources_.memory ? *resources_.memory : heap_memory();
}

std::uint64_t CallRng::next_64() {
  const std::uint64_t high = generator_();
  return high << 32U | generator_();
}

double CallRng::uniform() { return static_cast<double>(next_64() >> 11U) * 0x1p-53; }

double CallRng::uniform(double low, double high) {
  if (!std::isfinite(low) || !std::isfinite(high) || !(low < high)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("uniform({}, {}): expected two finite numbers, the lower one first",
                            low, high));
  }
  const double drawn = low + (high - low) * uniform();
  return drawn < high ? drawn : low;  // rounding can yield `high`
}

std::int64_t CallRng::integer(std::int64_t n) {
  if (n <= 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("integer({}): the range [0, {}) is empty", n, n));
  }
  const auto count = static_cast<std::uint64_t>(n);
  const std::uint64_t uneven = -count % count;  // 2^64 mod n: this many values must be rejected
  std::uint64_t drawn = next_64();
  while (drawn < uneven) {
    drawn = next_64();
  }
  return static_cast<std::int64_t>(drawn % count);
}

bool CallRng::chance(double p) {
  if (!(p >= 0 && p <= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("chance({}): expected a probability in [0, 1]", p));
  }
  return uniform() < p;
}

std::int64_t CallRng::seed() { return static_cast<std::int64_t>(next_64() >> 1U); }

}  // namespace energon
