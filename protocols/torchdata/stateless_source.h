// Batches from functions whose state cannot be saved.
//
// Each epoch has its own generator. The position is a number of batches. To continue from a
// position, that many batches are drawn and dropped, which takes as long as the first time;
// warnings() reports this once.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "energon/loader/batch_source.h"

namespace energon {

/// The next batch; nullopt at the end of the epoch, after which the generator is not called again.
using EpochGenerator = std::function<std::optional<Sample>()>;
/// Makes the generator of an epoch; called at the epoch's first batch and at the first batch after
/// a restore. The generator must return the same batches each time.
using GeneratorFactory = std::function<EpochGenerator()>;

/// For one thread at a time.
class StatelessSource final : public BatchSource {
 public:
  /// Does not call `make_generator` yet. `rank` of `world_size` is in saved states; the generators
  /// divide the data.
  explicit StatelessSource(GeneratorFactory make_generator, int rank = 0, int world_size = 1);

  /// Throws what the functions throw, and Error (kMismatch) if the generator ends before the
  /// restored position.
  std::optional<Sample> next() override;
  SavableDataLoaderState save_state_rank() override;
  /// The next call of next() draws and drops the batches.
  void restore_state_rank(const SavableDataLoaderState& state) override;
  std::vector<std::string> warnings() const override { return warnings_; }
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t epoch() const override { return epoch_; }

 private:
  EpochGenerator begin() const;

  const GeneratorFactory make_generator_;
  const int rank_;
  const int world_size_;
  EpochGenerator generator_;  // of this epoch, at the position, if made already
  std::vector<std::string> warnings_;

  // Saved state.
  std::int64_t epoch_ = 0;
  std::int64_t handed_out_ = 0;  // in this epoch
};

}  // namespace energon
