// A dataset whose next() runs a function of the test.

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

/// Endless samples "0", "1", …; `before_item` runs before each.
class ScriptedDataset final : public Dataset {
 public:
  explicit ScriptedDataset(std::function<void(std::int64_t item)> before_item)
      : before_item_(std::move(before_item)) {}

  std::optional<Sample> next() override {
    before_item_(index_);
    Sample sample;
    sample.keys = {std::to_string(index_)};
    sample.restore_key = RestoreKey::leaf(Stage::kWebdataset, {0, index_});
    sample.fields = {{"number", index_}, {"text", std::string(10, 'x')}};
    ++index_;
    return sample;
  }
  void next_epoch() override {}
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t skip(std::int64_t count) override {
    index_ += count;
    return count;
  }
  Sample restore_sample(const RestoreKey& /*key*/) override { return {}; }
  State save_state() const override { return {"Scripted", {{"index", index_}}, {}}; }
  Config config() const override { return {{"type", "Scripted"}}; }

 private:
  void check_state(const State&, std::vector<std::string>&) const override {}
  void apply_state(const State& state) override { index_ = state.integer("index"); }

  const std::function<void(std::int64_t item)> before_item_;
  std::int64_t index_ = 0;
};

}  // namespace energon::testing
