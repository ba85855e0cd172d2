// Helpers for the output of pipelines and loaders, in the form of Energon's own tests: keys,
// counts, lists.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/loader/savable_data_loader.h"
#include "energon/order/worker_config.h"
#include "energon/stage/dataset.h"

namespace energon::testing {

using Keys = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

/// Drives one pipeline, in this process.
class Stream {
 public:
  explicit Stream(const PipelineFactory& make, const WorkerConfig& config = {}, int worker = 0)
      : dataset_(make({.config = config, .local_index = worker, .memory = memory_})) {}

  std::optional<Sample> next() { return dataset_->next(); }
  Dataset& dataset() { return *dataset_; }

  /// The items up to the end of the epoch, or `count` of them.
  std::vector<Sample> take(std::size_t count = SIZE_MAX);
  /// The text of `part` of each item.
  std::vector<std::string> texts(std::size_t count = SIZE_MAX, const std::string& part = "txt");

 private:
  HeapBufferPool memory_;
  std::unique_ptr<Dataset> dataset_;
};

/// The items of all logical shards of a job, shard by shard, up to the end of the epoch.
std::vector<Sample> take_all(const PipelineFactory& make, int world_size, int num_workers);

/// Texts of all keys in `items`, in order.
Keys keys(const std::vector<Sample>& items);
/// The number of occurrences of each item.
template <class Item>
std::map<Item, std::int64_t> counts(const std::vector<Item>& items) {
  std::map<Item, std::int64_t> result;
  for (const Item& item : items) {
    ++result[item];
  }
  return result;
}

/// Text of a field that holds bytes, or a list of them, joined by commas.
std::string text_of(const Value& value);

/// Identifies batches by restore key and digest.
std::vector<std::string> labels(SavableDataLoader& loader, std::size_t count);

/// Checks that a new loader, restored from the state after each of `saves` batches, continues like
/// the uninterrupted one for `more` batches.
void check_resumes(const PipelineFactory& make, const LoaderOptions& options,
                   const std::vector<std::size_t>& saves, std::size_t more);

}  // namespace energon::testing
