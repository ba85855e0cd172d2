#include "tests/wrappers/stream_fixture.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "energon/order/sharder.h"
#include "energon/order/slice_order.h"
#include "energon/order/worker_config.h"
#include "io/error.h"
#include "wrappers/orders/repeat.h"
#include "wrappers/orders/shuffle_buffer.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/stages/read_samples.h"

namespace energon::testing {

std::unique_ptr<Dataset> NumberedStream::in_order() {
  return val_pipeline({dataset_})({.memory = memory_});
}

std::unique_ptr<Dataset> NumberedStream::shuffled() {
  return train_pipeline(dataset_, {.shuffle_buffer_size = 9, .repeat = false})({.memory = memory_});
}

std::unique_ptr<Dataset> NumberedStream::two_leaves() {
  std::vector<std::unique_ptr<Order>> orders;
  for (std::uint32_t leaf = 0; leaf < 2; ++leaf) {
    orders.push_back(std::make_unique<SliceOrder>(
        slice_bounds({.shard_counts = dataset_->shard_counts(), .logical_shard_count = 1}, 0),
        std::vector<std::int64_t>{}, SliceOrderOptions{.seed = worker_seed(0, 0), .leaf = leaf}));
  }
  auto order = std::make_unique<ShuffleBuffer>(std::make_unique<Concat>(std::move(orders)), 200,
                                               worker_seed(0, 0));
  return std::make_unique<ReadSamples>(
      std::move(order), std::vector<std::shared_ptr<const LeafDataset>>{dataset_, dataset_},
      memory_);
}

std::int64_t number(const Sample& sample) { return std::stoll(std::string(sample.keys.at(0))); }

std::vector<std::vector<std::int64_t>> epoch_numbers(Dataset& stream) {
  std::vector<std::vector<std::int64_t>> result;
  while (const auto item = stream.next()) {
    result.push_back(numbers(*item));
  }
  return result;
}

Config FailingOnce::config() const { return inner_->config(); }

std::optional<Sample> FailingOnce::next() {
  if (left_-- == 0) {
    throw Error(ErrorCode::kIo, "the disk is gone");
  }
  return inner_->next();
}

}  // namespace energon::testing
