// Batches from functions that cannot be saved.
//
// Each epoch has a generator of its own. The position is a number of batches; to continue from one,
// so many are drawn and dropped, which takes as long as it took the first time. That is said once,
// in warnings().

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "energon/distributed/batch_source.h"

namespace energon {

/// The next batch; nothing at the end of the epoch, after which it is not called again.
using EpochGenerator = std::function<std::optional<Sample>()>;
/// Makes the generator of an epoch, at the epoch's first batch or the first after a restore. It
/// must give the same batches each time.
using GeneratorFactory = std::function<EpochGenerator()>;

/// For one thread at a time.
class StatelessSource final : public BatchSource {
 public:
  /// Calls nothing yet.
  explicit StatelessSource(GeneratorFactory make_generator);

  /// Throws what the functions throw, and Error (kMismatch) if they give fewer batches than were
  /// handed out before the state that was restored.
  std::optional<Sample> next() override;
  State save_state() override;
  /// The batches are drawn and dropped at the next next().
  void restore_state(const State& state) override;
  std::vector<std::string> warnings() const override { return warnings_; }
  std::optional<std::int64_t> size() override { return std::nullopt; }
  std::int64_t epoch() const override { return epoch_; }

 private:
  EpochGenerator begin() const;

  const GeneratorFactory make_generator_;
  EpochGenerator generator_;  // of this epoch, after the batches handed out; empty: not made yet
  std::vector<std::string> warnings_;

  // Saved state.
  std::int64_t epoch_ = 0;
  std::int64_t handed_out_ = 0;  // in this epoch
};

}  // namespace energon
