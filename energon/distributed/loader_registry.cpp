#include "energon/distributed/loader_registry.h"

#include <algorithm>
#include <utility>

namespace energon {

Registration::Registration(LoaderRegistry* registry, ActiveLoader& loader)
    : registry_(registry), loader_(&loader) {
  if (registry_ != nullptr) {
    registry_->loaders_.push_back(loader_);
  }
}

Registration::Registration(Registration&& other) noexcept
    : registry_(std::exchange(other.registry_, nullptr)),
      loader_(std::exchange(other.loader_, nullptr)) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  LoaderRegistry* const registry = std::exchange(other.registry_, nullptr);
  ActiveLoader* const loader = std::exchange(other.loader_, nullptr);
  reset();
  registry_ = registry;
  loader_ = loader;
  return *this;
}

void Registration::reset() {
  LoaderRegistry* const registry = std::exchange(registry_, nullptr);
  ActiveLoader* const loader = std::exchange(loader_, nullptr);
  if (registry == nullptr) {
    return;
  }
  auto& loaders = registry->loaders_;
  const auto place = std::find(loaders.rbegin(), loaders.rend(), loader);
  if (place != loaders.rend()) {
    loaders.erase(std::next(place).base());
  }
}

}  // namespace energon
