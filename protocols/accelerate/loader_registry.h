// The loaders being iterated: a stack, because loops nest (a validation within training). Like
// accelerate's GradientState.active_dataloader.
//
// Code that accumulates gradients or gathers metrics can query whether this batch ends the epoch of
// the innermost loader, without a reference to that loader. There is no global registry.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "protocols/accelerate/adapter.h"

namespace energon {

class RegisteredLoader;

/// For one thread at a time.
class LoaderRegistry {
 public:
  LoaderRegistry() = default;
  LoaderRegistry(const LoaderRegistry&) = delete;
  LoaderRegistry& operator=(const LoaderRegistry&) = delete;

  /// The loader whose iteration started last and has not ended; null if there is none.
  Adapter* innermost() const;
  std::size_t size() const { return loaders_.size(); }

 private:
  friend class RegisteredLoader;
  std::vector<RegisteredLoader*> loaders_;
};

/// An adapter that is on a registry from its first batch until the epoch ends, end() is called, a
/// state is restored or the adapter is destroyed. Forwards everything else to its source. For one
/// thread at a time.
class RegisteredLoader final : public ForwardingAdapter<Adapter> {
 public:
  /// Shares ownership of `source`; borrows `registry`, which must outlive this.
  RegisteredLoader(std::shared_ptr<Adapter> source, LoaderRegistry& registry);
  ~RegisteredLoader() override;

  std::optional<Sample> next() override;
  std::int64_t skip(std::int64_t count) override;
  /// Removes the loader from the registry after a loop that was left early; the position stays.
  /// Idempotent.
  void end();

  SavableDataLoaderState save_state_rank() override { return source_->save_state_rank(); }
  void restore_state_rank(const SavableDataLoaderState& state) override;
  bool end_of_dataloader() override { return source_->end_of_dataloader(); }

 private:
  void begin();

  LoaderRegistry& registry_;
};

/// Ends a loader's iteration at the end of a scope:
///
///   const Iteration iteration(loader);
///   while (auto batch = loader.next()) { … }
class Iteration {
 public:
  /// Borrows `loader`, which must outlive this.
  explicit Iteration(RegisteredLoader& loader) : loader_(loader) {}
  ~Iteration() { loader_.end(); }
  Iteration(const Iteration&) = delete;
  Iteration& operator=(const Iteration&) = delete;

 private:
  RegisteredLoader& loader_;
};

/// Trims the elements gathered from all ranks for one batch (rank by rank, in order). For the last
/// batch of an epoch, removes the padding. For other batches, or if the remainder is not known,
/// does nothing.
template <class Element>
void trim_gathered(std::vector<Element>& gathered, Adapter& loader) {
  if (!loader.end_of_dataloader()) {
    return;
  }
  const std::optional<std::int64_t> remainder = loader.remainder();
  if (remainder && *remainder > 0 && static_cast<std::size_t>(*remainder) < gathered.size()) {
    gathered.resize(static_cast<std::size_t>(*remainder));
  }
}

}  // namespace energon
