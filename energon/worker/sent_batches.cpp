#include "energon/worker/sent_batches.h"

namespace energon {

void SentBatches::add(std::uint64_t unit, std::size_t stream, std::uint64_t index) {
  sent_.push_back({unit, stream, index});
}

void SentBatches::taken(std::uint64_t count) {
  while (!sent_.empty() && sent_.front().unit < count) {
    sent_.pop_front();
  }
}

std::uint64_t SentBatches::units_until(std::size_t stream, std::uint64_t count) const {
  std::uint64_t units = 0;
  for (const Sent& sent : sent_) {
    if (sent.stream != stream) {
      continue;
    }
    if (sent.index >= count) {
      break;
    }
    units = sent.unit + 1;
  }
  return units;
}

}  // namespace energon
