#include "energon/loader/loader_config.h"

#include <nlohmann/json.hpp>

#include "energon/sample/buffer_allocator.h"

namespace energon {

Config loader_config(std::string_view type, const LoaderOptions& options,
                     const Config& stream_config) {
  Config config = {{"type", type}, {"prefetch_factor", nullptr}, {"stream", stream_config}};
  if (options.worker_config.num_workers > 0 && options.prefetch_factor) {
    config["prefetch_factor"] = *options.prefetch_factor;
  }
  return config;
}

std::optional<std::int64_t> epoch_size(const PipelineFactory& make_pipeline,
                                       const WorkerConfig& config) {
  HeapBufferPool memory;
  std::int64_t sum = 0;
  for (int stream = 0; stream < config.stream_count(); ++stream) {
    const auto size = make_pipeline({.config = config, .stream = stream, .memory = memory})->size();
    if (!size) {
      return std::nullopt;
    }
    sum += *size;
  }
  return sum;
}

}  // namespace energon
