#include "energon/checkpoint/turns.h"

namespace energon {

std::optional<std::size_t> Turns::next() const {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < turns_.size(); ++i) {
    // Streams in a later epoch wait; the others are all in this one.
    if (turns_[i].epoch <= epoch_ && (!first || turns_[i].count < turns_[*first].count)) {
      first = i;
    }
  }
  return first;
}

}  // namespace energon
