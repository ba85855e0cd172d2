// The loaders that are being iterated: a stack, because loops nest (a validation within training).
//
// Code that accumulates gradients or gathers metrics can ask the innermost loader whether this
// batch ends the epoch, without having a reference to the loader. An adapter with a registry is on
// it from the first batch of an epoch until the epoch ends, end() is called or the adapter is
// destroyed.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace energon {

/// The questions that a loader answers while it is iterated.
class ActiveLoader {
 public:
  virtual ~ActiveLoader() = default;

  /// True if the batch handed out last is the last of the epoch.
  virtual bool end_of_dataloader() = 0;
  /// Same as BatchSource::remainder().
  virtual std::optional<std::int64_t> remainder() const = 0;
};

/// For one thread at a time.
class LoaderRegistry {
 public:
  LoaderRegistry() = default;
  LoaderRegistry(const LoaderRegistry&) = delete;
  LoaderRegistry& operator=(const LoaderRegistry&) = delete;

  /// The loader whose iteration started last and has not ended; null if there is none.
  ActiveLoader* innermost() const { return loaders_.empty() ? nullptr : loaders_.back(); }
  std::size_t size() const { return loaders_.size(); }

 private:
  friend class Registration;
  std::vector<ActiveLoader*> loaders_;
};

/// Keeps a loader on a registry for the lifetime of this object. A moved-from object is empty.
class Registration {
 public:
  Registration() = default;
  /// Borrows both, which must outlive this. With a null registry it does nothing.
  Registration(LoaderRegistry* registry, ActiveLoader& loader);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration() { reset(); }

  bool active() const { return loader_ != nullptr; }
  /// Removes the loader from the registry, at any place in the stack. Idempotent.
  void reset();

 private:
  LoaderRegistry* registry_ = nullptr;
  ActiveLoader* loader_ = nullptr;
};

/// Call it with the elements gathered from all ranks for one batch (rank by rank, in order). For
/// the last batch of an epoch, removes the repeats that fill up the end. For other batches, or if
/// the remainder is not known, does nothing.
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
