#include "energon/worker/kept_position.h"

#include <chrono>

namespace energon {

using Clock = std::chrono::steady_clock;

void KeptPosition::keep(const PositionedDataset& stream) {
  const Clock::time_point begin = Clock::now();
  const SavableDatasetCheckpoint checkpoint = stream.checkpoint();
  kept_.clear();
  encode_checkpoint(kept_, checkpoint);
  interval_.stored(checkpoint.index, kept_.bytes().size(), Clock::now() - begin);
}

SavableDatasetCheckpoint KeptPosition::after(std::int64_t delivered) const {
  SavableDatasetCheckpoint position;
  if (kept_.bytes().empty()) {
    position = start_;
  } else {
    ByteReader reader(kept_.bytes(), "a kept position");
    position = decode_checkpoint(reader);
  }
  position.offset = delivered - position.index;
  return position;
}

}  // namespace energon
