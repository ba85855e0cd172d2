// Counters with one writer that anyone reads at any time: a recent value is enough, and nothing is
// ordered by them. A load and a store are cheaper than an atomic add.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace energon {

inline std::uint64_t load_relaxed(const std::atomic<std::uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

/// Requires: no other thread writes `counter`.
inline void add_relaxed(std::atomic<std::uint64_t>& counter, std::uint64_t more) {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

/// The same, in nanoseconds.
inline void add_relaxed(std::atomic<std::uint64_t>& counter, std::chrono::nanoseconds time) {
  add_relaxed(counter, static_cast<std::uint64_t>(time.count()));
}

}  // namespace energon
