#include "energon/loader/turns.h"

#include <tuple>

namespace energon {

std::optional<std::size_t> Turns::next() const {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < turns_.size(); ++i) {
    if (turns_[i].epoch <= epoch_ &&
        (!first || std::tie(turns_[i].epoch, turns_[i].count) <
                       std::tie(turns_[*first].epoch, turns_[*first].count))) {
      first = i;
    }
  }
  return first;
}

}  // namespace energon
