#include "energon/sample/spare_samples.h"

#include <cstddef>
#include <utility>

namespace energon {
namespace {

constexpr std::size_t kManyFields = 64;

std::vector<Sample>& spare_samples() {
  thread_local std::vector<Sample> spare;
  return spare;
}

}  // namespace

Sample take_spare_sample() {
  std::vector<Sample>& spare = spare_samples();
  if (spare.empty()) {
    return {};
  }
  Sample sample = std::move(spare.back());
  spare.pop_back();
  return sample;
}

void keep_spare_samples(std::vector<Sample>& samples) {
  std::vector<Sample>& spare = spare_samples();
  for (Sample& sample : samples) {
    if (spare.size() >= kMostSpareSamples) {
      break;
    }
    if (sample.fields.capacity() <= kManyFields && sample.keys.size() <= 1) {
      sample.keys.clear();
      sample.restore_key = RestoreKey();
      sample.fields.clear();
      sample.sources.clear();
      sample.place.reset();
      spare.push_back(std::move(sample));
    }
  }
  samples.clear();
}

}  // namespace energon
