// A stage that changes nothing: the base of stages that only observe.
//
// Items, states, configs and keys are those of the inner stage, so pipelines with and without such
// a stage can restore each other's states.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "energon/stage/dataset.h"

namespace energon {

class Transparent : public Dataset {
 public:
  std::optional<Sample> next() override { return inner_->next(); }
  void next_many(std::int64_t count, std::vector<Sample>& samples) override {
    inner_->next_many(count, samples);
  }
  void next_epoch() override { inner_->next_epoch(); }
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  std::int64_t skip(std::int64_t count) override { return inner_->skip(count); }
  bool skip_makes_items() const override { return inner_->skip_makes_items(); }
  std::int64_t skip_batches(std::int64_t count, std::int64_t batch_size) override {
    return inner_->skip_batches(count, batch_size);
  }
  Sample restore_sample(const RestoreKey& key) override { return inner_->restore_sample(key); }
  void check_key(const RestoreKey& key) const override { inner_->check_key(key); }
  State save_state() const override { return inner_->save_state(); }
  Config config() const override;

 protected:
  explicit Transparent(std::unique_ptr<Dataset> inner) : inner_(std::move(inner)) {}

  Dataset& inner() { return *inner_; }

  void check_state(const State& state, std::vector<std::string>& differences) const override {
    check(*inner_, state, differences);
  }
  void apply_state(const State& state) override { apply(*inner_, state); }

 private:
  const std::unique_ptr<Dataset> inner_;
};

}  // namespace energon
