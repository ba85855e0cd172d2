// Builds a Value from the events of a JSON, MessagePack or CBOR reader. Internal to media/data.
//
// Enforces the limits on nesting and on memory: a list of ones takes two bytes per element in JSON
// and tens of bytes here.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "energon/sample/sample.h"
#include "media/decode_limits.h"

namespace energon {

/// Removes duplicate names: each keeps its first position and its last value, as in Python's dict.
/// Takes O(n log n).
void keep_last_of_each_name(Mapping& mapping);

/// Iterates over bytes for nlohmann's readers, and counts in `read` the bytes they have consumed.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* read) : at_(at), read_(read) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*read_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* read_;
};

/// Requires: events arrive in the order of the encoded data, with one end() per begin_...(). Not
/// thread-safe.
class ValueBuilder {
 public:
  /// `place` returns the position of the reader for messages, such as "byte 17". Both must outlive
  /// the builder.
  ValueBuilder(const DecodeLimits& limits, const std::function<std::string()>& place)
      : limits_(limits), place_(place) {}

  // The following throw Error (kResourceExhausted) above a limit.

  void add(Value value);
  /// Throws Error (kUnsupported) if the number exceeds int64.
  void add_unsigned(std::uint64_t value);
  void begin_list() { begin(List()); }
  void begin_mapping() { begin(Mapping()); }
  /// The name of the next value. Requires: a mapping is open and the last name has its value.
  void name(std::string name);
  /// Closes the last open list or mapping.
  void end();

  /// The whole value. Requires: all lists and mappings are closed.
  Value take() { return std::move(root_); }

 private:
  void begin(Value container);
  void put(Value value);
  void charge(std::uint64_t bytes);

  const DecodeLimits& limits_;
  const std::function<std::string()>& place_;
  std::vector<Value> open_;
  std::vector<std::string> names_;  // one per open mapping that waits for a value
  Value root_ = Null();
  std::uint64_t bytes_ = 0;
};

}  // namespace energon
