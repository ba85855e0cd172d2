#include "wrappers/read_samples.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

ReadSamples::ReadSamples(std::unique_ptr<Order> order,
                         std::vector<std::shared_ptr<const Webdataset>> leaves,
                         BufferAllocator& allocator)
    : order_(std::move(order)), allocator_(allocator) {
  leaves_.reserve(leaves.size());
  for (auto& leaf : leaves) {
    leaves_.emplace_back(std::move(leaf));
  }
}

std::optional<Sample> ReadSamples::next() {
  std::vector<Sample> samples;
  next_many(1, samples);
  return samples.empty() ? std::nullopt : std::optional(std::move(samples.front()));
}

void ReadSamples::next_many(std::int64_t count, std::vector<Sample>& samples) {
  // References of one leaf that follow each other are read together.
  std::uint32_t leaf = 0;
  indexes_.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto ref = order_->next();
    if (!ref) {
      break;
    }
    if (ref->leaf != leaf) {
      read(leaf, samples);
      leaf = ref->leaf;
    }
    indexes_.push_back(ref->index);
  }
  read(leaf, samples);
}

void ReadSamples::read(std::uint32_t leaf, std::vector<Sample>& samples) {
  if (indexes_.empty()) {
    return;
  }
  if (leaf >= leaves_.size()) {
    throw Error(ErrorCode::kInternal,
                fmt::format("reference to leaf {} of {}", leaf, leaves_.size()));
  }
  const std::size_t first = samples.size();
  leaves_[leaf].read(indexes_, allocator_, samples);
  for (std::size_t i = 0; i < indexes_.size(); ++i) {
    samples[first + i].restore_key = RestoreKey::leaf(Stage::kWebdataset, {leaf, indexes_[i]});
  }
  indexes_.clear();
}

Sample ReadSamples::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kWebdataset, 2, 0);
  const std::int64_t leaf = parts.integers[0];
  if (leaf >= static_cast<std::int64_t>(leaves_.size())) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("restore key '{}' names leaf {}, the pipeline has {}", key.text(), leaf,
                            leaves_.size()));
  }
  std::vector<Sample> samples;
  leaves_[static_cast<std::size_t>(leaf)].read({&parts.integers[1], 1}, allocator_, samples);
  samples.front().restore_key = key;
  return std::move(samples.front());
}

State ReadSamples::save_state() const { return {"ReadSamples", {}, {order_->save_state()}}; }

void ReadSamples::check_state(const State& state, std::vector<std::string>& differences) const {
  check(*order_, state.children[0], differences);
}

void ReadSamples::apply_state(const State& state) { apply(*order_, state.children[0]); }

Config ReadSamples::config() const {
  Config leaves = Config::array();
  for (const WebdatasetReader& leaf : leaves_) {
    leaves.push_back(leaf.dataset().config());
  }
  return {{"type", "ReadSamples"}, {"leaves", std::move(leaves)}, {"order", order_->config()}};
}

}  // namespace energon
