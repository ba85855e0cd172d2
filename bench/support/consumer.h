// What the consumer of a benchmark does with the bytes that it gets.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace energon::bench {

enum class Consumer {
  kDrops,    ///< nothing: the bytes stay in memory, ready to be read
  kTouches,  ///< reads one word of each cache line
  kHashes,   ///< hashes every byte with XXH3
};

/// ", touched" and so on, for the name of a variant.
std::string_view suffix(Consumer consumer);

/// Consumes `bytes`. The result depends on all that was read, so that no compiler leaves it out.
std::uint64_t consume(Consumer consumer, std::span<const std::byte> bytes);

/// Prevents the compiler from optimising away an otherwise unused value.
void keep(std::uint64_t value);

}  // namespace energon::bench
