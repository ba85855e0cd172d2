// The problems of all shards that prepare() scanned, for one error. Private to io.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/error.h"
#include "io/index/sample_index.h"
#include "io/index/sample_index_writer.h"

namespace energon {

/// Not thread-safe.
class PrepareProblems {
 public:
  /// How many problems the error names; of the others it says the number.
  static constexpr std::size_t kMostNamed = 50;

  /// A problem of a whole shard, called `name`. Requires: shards come in order.
  void add(std::int64_t shard, std::string_view name, std::string_view text);
  /// What made a shard unreadable. Rethrows errors that are not the shard's fault: no space, no
  /// permission.
  void add(std::int64_t shard, std::string_view name, const Error& error);
  /// Keys that occur twice; `names[i]` is the shard with tar_file_id i.
  void add(const RepeatedKeys& keys, const std::vector<std::string>& names);

  bool any() const { return count_ > 0; }
  /// Throws Error (kCorruptData) that lists the problems in the order of the samples. Requires:
  /// any().
  [[noreturn]] void raise(const std::string& path) const;

 private:
  struct Earlier {
    bool operator()(const SamplePosition& a, const SamplePosition& b) const {
      return std::pair(a.tar_file_id, a.sample_index) < std::pair(b.tar_file_id, b.sample_index);
    }
  };

  std::size_t count_ = 0;
  std::map<SamplePosition, std::string, Earlier> named_;
};

}  // namespace energon
