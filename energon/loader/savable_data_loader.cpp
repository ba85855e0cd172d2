#include "energon/loader/savable_data_loader.h"

#include <utility>

#include "energon/loader/loader_config.h"
#include "energon/loader/rank_stream.h"
#include "energon/loader/sample_restorer.h"

namespace energon {

class SavableDataLoader::Parts {
 public:
  Parts(PipelineFactory make_pipeline, const LoaderOptions& options)
      : make_pipeline_(std::move(make_pipeline)),
        options_(options),
        stream_("SavableDataLoader", make_pipeline_, options_),
        restorer_(make_pipeline_, options_.worker_config) {}

  const PipelineFactory& make_pipeline() const { return make_pipeline_; }
  const LoaderOptions& options() const { return options_; }
  RankStream& stream() { return stream_; }
  SampleRestorer& restorer() { return restorer_; }

 private:
  const PipelineFactory make_pipeline_;
  const LoaderOptions options_;
  RankStream stream_;
  SampleRestorer restorer_;
};

SavableDataLoader::SavableDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options)
    : parts_(std::make_unique<Parts>(std::move(make_pipeline), options)) {}

SavableDataLoader::~SavableDataLoader() = default;

std::optional<Sample> SavableDataLoader::next() { return parts_->stream().next(); }

const std::optional<BatchPlace>& SavableDataLoader::last_place() const {
  return parts_->stream().last_place();
}

SavableDataLoaderState SavableDataLoader::save_state_rank() {
  return parts_->stream().save_state();
}

void SavableDataLoader::restore_state_rank(const SavableDataLoaderState& state) {
  parts_->stream().restore_state(state);
}

void SavableDataLoader::stop() { parts_->stream().stop(); }

Sample SavableDataLoader::restore_sample(const RestoreKey& key) {
  return parts_->restorer().restore(key);
}

std::optional<std::int64_t> SavableDataLoader::size() {
  return epoch_size(parts_->make_pipeline(), parts_->options().worker_config);
}

Config SavableDataLoader::config() {
  return loader_config("SavableDataLoader", parts_->options(), parts_->stream().config());
}

LoaderStatistics SavableDataLoader::stats() const { return parts_->stream().stats(); }

std::vector<int> SavableDataLoader::worker_pids() const { return parts_->stream().worker_pids(); }

}  // namespace energon
