// The base of all adapters: a batch source that knows when the epoch ends, and that a
// LoaderRegistry can list while it is iterated.

#pragma once

#include <cstdint>
#include <optional>

#include "energon/distributed/batch_source.h"
#include "energon/distributed/loader_registry.h"

namespace energon {

/// For one thread at a time.
class Adapter : public BatchSource, public ActiveLoader {
 public:
  /// True if the batch handed out last is the last of the epoch. May draw the next batch; if that
  /// fails, next() throws the error.
  bool end_of_dataloader() override = 0;
  std::optional<std::int64_t> remainder() const override = 0;

  /// Takes the adapter off its registry after a loop that was left early; the position stays. The
  /// end of an epoch and the destructor do this automatically. Idempotent.
  virtual void end() = 0;
};

/// Ends an adapter's iteration at the end of a scope:
///
///   const Iteration iteration(adapter);
///   while (auto batch = adapter.next()) { … }
class Iteration {
 public:
  /// Borrows `adapter`, which must outlive this.
  explicit Iteration(Adapter& adapter) : adapter_(adapter) {}
  ~Iteration() { adapter_.end(); }
  Iteration(const Iteration&) = delete;
  Iteration& operator=(const Iteration&) = delete;

 private:
  Adapter& adapter_;
};

}  // namespace energon
