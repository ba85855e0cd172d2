#include "energon/loader/loader_config.h"

#include <nlohmann/json.hpp>

#include "energon/buffer_allocator.h"

namespace energon {

Config loader_config(std::string_view type, const LoaderOptions& options,
                     const Config& stream_config) {
  Config config = {{"type", type}, {"prefetch_factor", nullptr}, {"stream", stream_config}};
  if (options.worker_config.num_workers > 0) {
    config["prefetch_factor"] = options.prefetch_factor;
  }
  return config;
}

std::optional<std::int64_t> epoch_size(const PipelineFactory& make_pipeline,
                                       const WorkerConfig& config) {
  HeapBufferPool memory;
  std::int64_t sum = 0;
  for (int worker = 0; worker < config.pipelines_per_rank(); ++worker) {
    const auto size = make_pipeline({.config = config, .worker = worker, .memory = memory})->size();
    if (!size) {
      return std::nullopt;
    }
    sum += *size;
  }
  return sum;
}

}  // namespace energon
