#include "energon/loader/basic_data_loader.h"

#include <utility>

#include "energon/loader/loader_config.h"
#include "energon/loader/rank_stream.h"
#include "energon/loader/sample_restorer.h"
#include "energon/loader/state_check.h"

namespace energon {

BatchIteration::BatchIteration(PipelineFactory make_pipeline, const LoaderOptions& options)
    : stream_(std::make_unique<RankStream>("BasicDataLoader", std::move(make_pipeline), options)) {}
BatchIteration::BatchIteration(BatchIteration&&) noexcept = default;
BatchIteration& BatchIteration::operator=(BatchIteration&&) noexcept = default;
BatchIteration::~BatchIteration() = default;

std::optional<Sample> BatchIteration::next() { return stream_->next(); }

BasicDataLoader::BasicDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options)
    : make_pipeline_(std::move(make_pipeline)),
      options_(options),
      restorer_(std::make_unique<SampleRestorer>(make_pipeline_, options_.worker_config)) {
  validate(options_);
}

BasicDataLoader::~BasicDataLoader() = default;

BatchIteration BasicDataLoader::iterate() const { return BatchIteration(make_pipeline_, options_); }

Sample BasicDataLoader::restore_sample(const RestoreKey& key) { return restorer_->restore(key); }

std::optional<std::int64_t> BasicDataLoader::size() const {
  return epoch_size(make_pipeline_, options_.worker_config);
}

Config BasicDataLoader::config() const {
  return loader_config("BasicDataLoader", options_,
                       state_config(make_pipeline_, options_.worker_config));
}

}  // namespace energon
