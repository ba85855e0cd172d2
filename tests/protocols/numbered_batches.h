// Batches of numbers, their sources, and their text forms.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/distributed/comm.h"
#include "protocols/accelerate/adapter.h"
#include "protocols/indexed_source.h"

namespace energon::testing {

/// A batch of the samples with these numbers: an int64 tensor `number` of shape (n, 1), a list
/// `text`, and a field `kind` of the batch as a whole. The keys are the numbers.
Sample numbered_batch(std::span<const std::int64_t> numbers);

/// `count` numbers in batches of `batch_size`, not sharded.
std::shared_ptr<IndexedSource> numbered_source(std::int64_t count, std::int64_t batch_size,
                                               bool drop_last = false);

/// The numbers of a batch, as "[0,1,2]". Throws if tensor, list and keys do not agree.
std::string show(const Sample& batch);

/// The rest of the epoch, as "[0,1] [2,3]"; at most `limit` batches, and then no end is drawn.
std::string take(BatchSource& source, std::size_t limit = SIZE_MAX);

/// A source that a test controls.
class ScriptedSource final : public BatchSource {
 public:
  explicit ScriptedSource(std::function<std::optional<Sample>(std::int64_t call)> next)
      : next_(std::move(next)) {}
  std::optional<Sample> next() override { return next_(calls_++); }
  SavableDataLoaderState save_state_rank() override {
    return source_state({"Scripted", {{"calls", calls_}}, {}}, {});
  }
  void restore_state_rank(const SavableDataLoaderState& state) override {
    calls_ = source_position_in(state, "Scripted").integer("calls");
  }
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t epoch() const override { return 0; }
  std::int64_t calls() const { return calls_; }

 private:
  const std::function<std::optional<Sample>(std::int64_t call)> next_;
  std::int64_t calls_ = 0;
};

}  // namespace energon::testing
