// Selects one process's elements of a stream that all processes read.
//
// Fills a buffer with one batch per process (or one batch for all, if batches are split) and yields
// this process's slice of the buffer. The last buffer is padded from the first one, or dropped. The
// rules are those of accelerate's IterableDatasetShard. A SavableDataLoader does not need this
// class: with its WorkerConfig, each rank reads only its own share.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "protocols/indexed_source.h"

namespace energon {

/// Not thread-safe. Ignores even_batches in the rule: the end is always padded or dropped.
template <class Element>
class IterableShard {
 public:
  using NextElement = std::function<std::optional<Element>()>;

  /// Draws nothing yet. Throws Error (kInvalidArgument); the rule needs a batch_size.
  IterableShard(NextElement next_element, ShardRule rule)
      : next_element_(std::move(next_element)), rule_(rule) {
    rule_.split_batches = true;  // the buffer is one batch that is split
    if (rule.batch_size && !rule.split_batches) {
      rule_.batch_size = *rule.batch_size * rule.processes;
    }
    validate(rule_);
  }

  /// The next element of this process; nullopt at the end and from then on.
  std::optional<Element> next() {
    if (position_ == end_ && !fill()) {
      return std::nullopt;
    }
    return buffer_[position_++];
  }

 private:
  bool fill() {
    const auto capacity = static_cast<std::size_t>(*rule_.batch_size);
    buffer_.clear();
    while (!ended_ && buffer_.size() < capacity) {
      if (std::optional<Element> element = next_element_()) {
        buffer_.push_back(std::move(*element));
      } else {
        ended_ = true;
      }
    }
    position_ = end_ = 0;
    if (buffer_.empty() || (buffer_.size() < capacity && rule_.drop_last)) {
      return false;
    }
    if (first_.empty() && !rule_.drop_last) {
      first_ = buffer_;
    }
    for (std::size_t used = 0; buffer_.size() < capacity; ++used) {
      buffer_.push_back(first_[used % first_.size()]);
    }
    const std::size_t part = capacity / static_cast<std::size_t>(rule_.processes);
    position_ = part * static_cast<std::size_t>(rule_.process);
    end_ = position_ + part;
    return true;
  }

  const NextElement next_element_;
  ShardRule rule_;

  std::vector<Element> first_;   // the first buffer of the stream
  std::vector<Element> buffer_;  // for all processes
  std::size_t position_ = 0;     // in the slice [position_, end_) of this process
  std::size_t end_ = 0;
  bool ended_ = false;
};

}  // namespace energon
