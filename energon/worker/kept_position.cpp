#include "energon/worker/kept_position.h"

#include <chrono>

namespace energon {

using Clock = std::chrono::steady_clock;

void KeptPosition::keep(const PositionedDataset& stream) {
  const Clock::time_point begin = Clock::now();
  const SavableDatasetCheckpoint checkpoint = stream.checkpoint();
  const std::uint64_t bytes = history_.add(stream_, checkpoint);
  interval_.stored(checkpoint.index, bytes, Clock::now() - begin);
}

}  // namespace energon
