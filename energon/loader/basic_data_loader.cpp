#include "energon/loader/basic_data_loader.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/loader/loader_config.h"
#include "energon/loader/rank_loader.h"
#include "io/error.h"

namespace energon {

/// The statistics of the newest iteration: queried while it lives, copied when it ends.
class LatestIteration {
 public:
  void begin(const RankLoader* loader) { loader_ = loader; }
  void end(const RankLoader* loader) {
    if (loader_ == loader) {
      loader_ = nullptr;
      try {
        last_ = loader->stats();
      } catch (const Error&) {
        // A copy in a forked child, which has no statistics.
      }
    }
  }
  LoaderStatistics stats() const { return loader_ != nullptr ? loader_->stats() : last_; }

 private:
  const RankLoader* loader_ = nullptr;
  LoaderStatistics last_;
};

namespace {

LoaderOptions without_history(LoaderOptions options) {
  options.checkpoint_history = 0;
  return options;
}

}  // namespace

BatchIteration::BatchIteration(PipelineFactory make_pipeline, const LoaderOptions& options,
                               std::shared_ptr<LatestIteration> latest)
    : loader_(std::make_unique<RankLoader>("BasicDataLoader", std::move(make_pipeline),
                                           without_history(options))),
      latest_(std::move(latest)) {
  if (latest_) {
    latest_->begin(loader_.get());
  }
}

BatchIteration::BatchIteration(BatchIteration&&) noexcept = default;

BatchIteration& BatchIteration::operator=(BatchIteration&& other) noexcept {
  if (this != &other) {
    end();
    loader_ = std::move(other.loader_);
    latest_ = std::move(other.latest_);
  }
  return *this;
}

BatchIteration::~BatchIteration() { end(); }

void BatchIteration::end() {
  if (loader_ && latest_) {
    latest_->end(loader_.get());
  }
}

std::optional<Sample> BatchIteration::next() {
  const OneCaller::Call call = loader_->caller().enter("next()");
  return loader_->next();
}

LoaderStatistics BatchIteration::stats() const { return loader_->stats(); }

void BatchIteration::close() { loader_->close(); }

BasicDataLoader::BasicDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options)
    : make_pipeline_(std::move(make_pipeline)),
      options_(options),
      restorer_(std::make_unique<SampleRestorer>(make_pipeline_, options_.worker_config)),
      sizes_(std::make_unique<EpochSizes>(make_pipeline_, options_.worker_config)),
      latest_(std::make_shared<LatestIteration>()) {
  validate(options_);
}

BasicDataLoader::~BasicDataLoader() = default;

BatchIteration BasicDataLoader::iterate() const {
  return BatchIteration(make_pipeline_, options_, latest_);
}

LoaderStatistics BasicDataLoader::stats() const { return latest_->stats(); }

Sample BasicDataLoader::restore_sample(const RestoreKey& key) { return restorer_->restore(key); }

std::optional<std::int64_t> BasicDataLoader::size() const { return sizes_->of_rank(); }

Config BasicDataLoader::config() const {
  return loader_config("BasicDataLoader", options_,
                       state_config(make_pipeline_, options_.worker_config));
}

}  // namespace energon
