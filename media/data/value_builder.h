// Builds a Value from the events of a reader of JSON, MessagePack or CBOR. Internal to media/data.
//
// Refuses nesting above the limit, and values that take much more memory than their encoded form
// may: a list of ones takes two bytes an element in JSON and tens of bytes here.

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

/// A name that comes twice keeps its first place and its last value, as in Python's dict. Takes
/// O(n log n).
void keep_last_of_each_name(Mapping& mapping);

/// The bytes for nlohmann's readers; counts in `read` how far they have come.
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

/// Events come in the order of the encoded data, and as many end() as begin_...(): the reader sees
/// to it. Not thread-safe.
class ValueBuilder {
 public:
  /// `place` says where the reader is, for messages: "byte 17". Both must outlive the builder.
  ValueBuilder(const DecodeLimits& limits, const std::function<std::string()>& place)
      : limits_(limits), place_(place) {}

  // The following throw Error (kResourceExhausted) above a limit.

  void add(Value value);
  /// Throws Error (kUnsupported) if the number is above int64.
  void add_unsigned(std::uint64_t value);
  void begin_list() { begin(List()); }
  void begin_mapping() { begin(Mapping()); }
  /// The name of the next value. Requires: a mapping is open and the last name has its value.
  void name(std::string name);
  /// Closes the list or mapping that was opened last.
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
  std::vector<std::string> names_;  // one for each open mapping that waits for a value
  Value root_ = Null();
  std::uint64_t bytes_ = 0;
};

}  // namespace energon
