#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

PipelineData::PipelineData(std::vector<std::shared_ptr<const LeafDataset>> datasets) {
  for (auto& dataset : datasets) {
    const std::int64_t length = dataset->sample_count();
    leaves.push_back({.dataset = std::move(dataset), .length = length});
  }
}

}  // namespace energon
