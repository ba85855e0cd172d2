// What all adapters are: a source of batches that knows when the epoch ends, and a loader that can
// be found while it is iterated.

#pragma once

#include <cstdint>
#include <optional>

#include "energon/distributed/batch_source.h"
#include "energon/distributed/loader_registry.h"

namespace energon {

/// For one thread at a time.
class Adapter : public BatchSource, public ActiveLoader {
 public:
  /// True if the batch handed out last is the last of the epoch. May draw the next batch; a failure
  /// of that one is kept for next().
  bool end_of_dataloader() override = 0;
  std::optional<std::int64_t> remainder() const override = 0;

  /// Takes the adapter off its registry, after a loop that was left early; the position stays. At
  /// the end of an epoch, and for the adapter's end, it happens by itself. Again does nothing.
  virtual void end() = 0;
};

/// Ends an adapter's iteration when the scope of a loop is left:
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
