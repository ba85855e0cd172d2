#include "wrappers/recipe/epoch_length.h"

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/sample/buffer_allocator.h"

namespace energon {
namespace {

std::int64_t length_of(const Config& config);

// int(length * repetitions), as in Python; a pass if `repetitions` is null.
std::int64_t repeated(std::int64_t length, const Config& repetitions) {
  return repetitions.is_null()
             ? length
             : static_cast<std::int64_t>(static_cast<double>(length) * repetitions.get<double>());
}

std::int64_t batches_of(std::int64_t samples, const Config& batches) {
  const auto size = batches.at("batch_size").get<std::int64_t>();
  const bool keeps_rest = batches.at("remainder") != "drop";
  return samples / size + (keeps_rest && samples % size != 0 ? 1 : 0);
}

// The parts of a blend have a weight each.
std::int64_t sum_of(const Config& parts) {
  std::int64_t sum = 0;
  for (const Config& part : parts) {
    sum += length_of(part.contains("order") ? part.at("order") : part);
  }
  return sum;
}

// The length of the stage or order with this configuration.
std::int64_t length_of(const Config& config) {
  const auto& type = config.at("type").get_ref<const std::string&>();
  if (type == "SliceOrder") {
    return config.at("samples").get<std::int64_t>();
  }
  if (type == "ReadSamples") {
    return length_of(config.at("order"));
  }
  if (type == "Epochize" || type == "Limit") {
    return config.at("length").get<std::int64_t>();
  }
  const Config& inner = config.at("inner");
  if (inner.is_array()) {
    return sum_of(inner);
  }
  const std::int64_t length = length_of(inner);
  if (type == "Repeat" || type == "RepeatEpochs") {
    return repeated(length, config.at("repetitions"));
  }
  if (type == "Batch") {
    return batches_of(length, config);
  }
  if (type == "IterMap" && config.contains("settings")) {  // generated_batches()
    return batches_of(length, config.at("settings"));
  }
  return length;
}

}  // namespace

std::int64_t nominal_length(const Dataset& pipeline) { return length_of(pipeline.config()); }

EpochLength epoch_length(const PipelineFactory& make_pipeline, const WorkerConfig& config) {
  HeapBufferPool memory;
  const auto readers = make_leaf_readers();
  EpochLength length{.exact = 0};
  std::int64_t without_limit = 0;
  bool is_limited = false;
  for (int local_index = 0; local_index < config.logical_shards_per_rank(); ++local_index) {
    const auto pipeline = make_pipeline(
        {.config = config, .local_index = local_index, .memory = memory, .readers = readers});
    const std::optional<std::int64_t> size = pipeline->size();
    length.exact = size && length.exact ? std::optional(*length.exact + *size) : std::nullopt;
    const Config shard = pipeline->config();
    length.nominal += length_of(shard);
    is_limited = shard.at("type") == "Limit";
    without_limit += is_limited ? length_of(shard.at("inner")) : 0;
  }
  if (is_limited) {  // as in Energon, only an outermost limit sees that there is less data
    length.nominal = std::min(length.nominal, without_limit);
  }
  return length;
}

}  // namespace energon
