#include "energon/worker/kept_position.h"

namespace energon {

void KeptPosition::keep(const SavableDatasetCheckpoint& checkpoint) {
  interval_.stored(checkpoint.index, history_.add(stream_, checkpoint));
}

}  // namespace energon
