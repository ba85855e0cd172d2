// Applies a function to each sample.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "energon/dataset.h"
#include "energon/rng.h"

namespace energon {

/// What a map function may know besides its sample.
class MapContext {
 public:
  MapContext(std::uint32_t seed, const RestoreKey& key, std::int64_t call)
      : seed_(seed), key_(key), call_(call) {}

  /// A generator seeded by (seed, restore key): the restored sample is augmented as the first time.
  /// Made on first use.
  Mt19937& rng();
  /// How many samples the function was given before this one, on this logical shard.
  std::int64_t call() const { return call_; }

 private:
  const std::uint32_t seed_;
  const RestoreKey& key_;
  const std::int64_t call_;
  std::optional<Mt19937> rng_;
};

/// Runs in the worker. One sample in, one out; what it throws ends the stream with an Error that
/// names the sample.
using MapFunction = std::function<Sample(Sample sample, MapContext& context)>;

class Map final : public Dataset {
 public:
  /// Takes `inner`. `name` tells functions apart in config(); `seed` is the job's, not the
  /// worker's.
  Map(std::unique_ptr<Dataset> inner, std::string name, MapFunction function, std::uint32_t seed);

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  void next_epoch() override { inner_->next_epoch(); }
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  std::int64_t skip(std::int64_t count) override;
  Sample restore_sample(const RestoreKey& key) override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  Sample apply_function(Sample sample, std::int64_t call) const;

  const std::unique_ptr<Dataset> inner_;
  const std::string name_;
  const MapFunction function_;
  const std::uint32_t seed_;

  // Saved state.
  std::int64_t calls_ = 0;
};

}  // namespace energon
