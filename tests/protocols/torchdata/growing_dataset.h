// A user's dataset without files, whose state becomes longer with each sample.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/stage/dataset.h"

namespace energon::testing {

/// Samples with the keys "<epoch>/<name>/<number>"; the state lists the numbers of this epoch.
class GrowingDataset final : public Dataset {
 public:
  /// `before_item` runs before a sample is made, but not when one is skipped.
  GrowingDataset(std::string name, std::int64_t size,
                 std::function<void(std::int64_t item)> before_item = {})
      : name_(std::move(name)), size_(size), before_item_(std::move(before_item)) {}

  std::optional<Sample> next() override {
    if (at_end()) {
      return std::nullopt;
    }
    if (before_item_) {
      before_item_(std::ssize(seen_));
    }
    Sample sample;
    sample.keys = {std::to_string(epoch_) + "/" + name_ + "/" + std::to_string(seen_.size())};
    sample.restore_key = RestoreKey::leaf(Stage::kWebdataset, {0, std::ssize(seen_)});
    seen_.push_back(std::ssize(seen_));
    return sample;
  }
  void next_epoch() override {
    ++epoch_;
    seen_.clear();
  }
  std::optional<std::int64_t> size() const override { return size_; }
  std::int64_t skip(std::int64_t count) override {
    std::int64_t skipped = 0;
    for (; skipped < count && !at_end(); ++skipped) {
      seen_.push_back(std::ssize(seen_));
    }
    return skipped;
  }
  Sample restore_sample(const RestoreKey& /*key*/) override { return {}; }
  State save_state() const override {
    return {"Growing", {{"epoch", epoch_}, {"seen", seen_}}, {}};
  }
  Config config() const override { return {{"type", "Growing"}}; }

 private:
  bool at_end() const { return std::ssize(seen_) == size_; }
  void check_state(const State&, std::vector<std::string>&) const override {}
  void apply_state(const State& state) override {
    epoch_ = state.integer("epoch");
    seen_ = state.integers("seen");
  }

  const std::string name_;
  const std::int64_t size_;
  const std::function<void(std::int64_t item)> before_item_;
  std::int64_t epoch_ = 0;
  std::vector<std::int64_t> seen_;
};

}  // namespace energon::testing
