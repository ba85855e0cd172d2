#include "protocols/accelerate/loader_registry.h"

#include <algorithm>
#include <utility>

namespace energon {

Adapter* LoaderRegistry::innermost() const { return loaders_.empty() ? nullptr : loaders_.back(); }

RegisteredLoader::RegisteredLoader(std::shared_ptr<Adapter> source, LoaderRegistry& registry)
    : ForwardingAdapter(std::move(source)), registry_(registry) {}

RegisteredLoader::~RegisteredLoader() { end(); }

void RegisteredLoader::begin() {
  std::vector<RegisteredLoader*>& loaders = registry_.loaders_;
  if (std::find(loaders.begin(), loaders.end(), this) == loaders.end()) {
    loaders.push_back(this);
  }
}

void RegisteredLoader::end() { std::erase(registry_.loaders_, this); }

std::optional<Sample> RegisteredLoader::next() {
  std::optional<Sample> batch = source_->next();
  batch ? begin() : end();
  return batch;
}

std::int64_t RegisteredLoader::skip(std::int64_t count) {
  const std::int64_t skipped = source_->skip(count);
  skipped == count ? begin() : end();
  return skipped;
}

void RegisteredLoader::restore_state_rank(const SavableDataLoaderState& state) {
  source_->restore_state_rank(state);
  end();
}

}  // namespace energon
