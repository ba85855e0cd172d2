// A SavableDataLoader as a BatchSource.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "energon/distributed/batch_source.h"
#include "energon/loader/savable_data_loader.h"

namespace energon {

/// For one thread at a time. Throws the errors of the loader.
class LoaderSource final : public BatchSource {
 public:
  /// Shares ownership of `loader`; nothing else may draw from it. Starts no worker.
  explicit LoaderSource(std::shared_ptr<SavableDataLoader> loader);

  std::optional<Sample> next() override;
  /// The loader's own state (save_state_rank()), encoded.
  State save_state() override;
  /// Stops the workers first.
  void restore_state(const State& state) override;
  void stop() override { loader_->stop(); }
  std::optional<std::int64_t> size() override { return loader_->size(); }
  std::int64_t epoch() const override { return epoch_; }
  /// The configuration of the loader without its rank; null for a job of one rank.
  Config common_settings() override;
  Sample restore_sample(const RestoreKey& key) override { return loader_->restore_sample(key); }

  SavableDataLoader& loader() { return *loader_; }

 private:
  const std::shared_ptr<SavableDataLoader> loader_;
  std::int64_t epoch_ = 0;
};

}  // namespace energon
