// Which loaders are being iterated: a stack, because loops nest (a validation within training).
//
// Whoever accumulates gradients or gathers metrics asks the innermost loader whether the epoch ends
// with this batch, without being handed the loader. An adapter that was given a registry is on it
// from the first batch of an epoch until its end, end(), or its destruction.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace energon {

/// What can be asked of a loader that is being iterated.
class ActiveLoader {
 public:
  virtual ~ActiveLoader() = default;

  /// True if the batch handed out last is the last of the epoch.
  virtual bool end_of_dataloader() = 0;
  /// As BatchSource::remainder().
  virtual std::optional<std::int64_t> remainder() const = 0;
};

/// For one thread at a time.
class LoaderRegistry {
 public:
  LoaderRegistry() = default;
  LoaderRegistry(const LoaderRegistry&) = delete;
  LoaderRegistry& operator=(const LoaderRegistry&) = delete;

  /// The loader that began last and has not ended; null if there is none.
  ActiveLoader* innermost() const { return loaders_.empty() ? nullptr : loaders_.back(); }
  std::size_t size() const { return loaders_.size(); }

 private:
  friend class Registration;
  std::vector<ActiveLoader*> loaders_;
};

/// Keeps a loader on a registry for as long as it lives. Moved-from is empty.
class Registration {
 public:
  Registration() = default;
  /// Borrows both; they must outlive this. Without a registry it does nothing.
  Registration(LoaderRegistry* registry, ActiveLoader& loader);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration() { reset(); }

  bool active() const { return loader_ != nullptr; }
  /// Takes the loader off, wherever in the stack it is; again does nothing.
  void reset();

 private:
  LoaderRegistry* registry_ = nullptr;
  ActiveLoader* loader_ = nullptr;
};

/// Cuts what all ranks gave of the last batch of an epoch (rank by rank, in order) to the samples
/// that are no filling. At any other batch, or where the remainder is not known, it stays whole.
template <class Element>
void trim_gathered(std::vector<Element>& gathered, ActiveLoader& loader) {
  if (!loader.end_of_dataloader()) {
    return;
  }
  const std::optional<std::int64_t> remainder = loader.remainder();
  if (remainder && *remainder > 0 && static_cast<std::size_t>(*remainder) < gathered.size()) {
    gathered.resize(static_cast<std::size_t>(*remainder));
  }
}

}  // namespace energon
