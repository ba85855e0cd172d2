#include "wrappers/recipe/pass_length.h"

#include <algorithm>

namespace energon {
namespace {

// If this many whole passes over the data gave nothing, nothing usable is expected: the probability
// that random draws missed a given sample in all of them is below 1e-10.
constexpr double kUselessPasses = 25;

}  // namespace

void PassLength::add(const Order& order, const PipelineLeaf& leaf, const ShuffleOverEpochs& shuffle,
                     Mixing mixing) {
  auto samples = static_cast<double>(order.samples_per_pass().value_or(0));
  if (samples == 0) {
    return;
  }
  if (shuffle.mode == ShuffleOverEpochs::Mode::kEpochs) {
    samples *= static_cast<double>(shuffle.epochs);
  }
  if (mixing == Mixing::kWeighted) {
    weights_ += leaf.weight;
    longest_ = std::max(longest_, samples / leaf.weight);
  } else {
    sum_ += samples * leaf.repetitions;
    rounds_ = std::max(rounds_, 1 / leaf.repetitions);
  }
}

std::int64_t PassLength::most_left_out(std::int64_t shuffle_buffer_size) const {
  const double pass = sum_ * rounds_ + longest_ * weights_;
  const double samples = kUselessPasses * (pass + static_cast<double>(shuffle_buffer_size) + 1);
  return samples < 1e15 ? static_cast<std::int64_t>(samples) : 0;
}

}  // namespace energon
