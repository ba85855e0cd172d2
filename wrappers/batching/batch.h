// Makes one batch, or any number of them, from each group of a fixed number of samples.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "energon/stage/call_context.h"
#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/batching/batch_functions.h"

namespace energon {

/// Maximum batch size. Larger ones are errors: they must be mistakes and would exhaust the memory.
inline constexpr std::int64_t kMaxBatchSize = std::int64_t{1} << 24;

/// The batch `number` that `function` makes from `samples`, with the restore key `key`. Throws
/// Error (kInvalidArgument) if a sample or the batch has duplicate fields, and whatever `function`
/// throws.
Sample call_batch(const BatchFunction& function, std::span<Sample> samples, RestoreKey key,
                  const CallResources& resources, std::int64_t number);

struct BatchOptions {
  std::int64_t batch_size = 1;  ///< in samples; from 1 to kMaxBatchSize
  /// How to treat the samples at the end of an epoch that do not fill a batch.
  enum class Remainder : std::uint8_t { kSmallerBatch, kDrop };
  Remainder remainder = Remainder::kSmallerBatch;
  BatchFunction function = list_fields;
  StageOptions stage = {.name = "batch"};
};

/// Makes batches of a fixed number of samples.
class Batch final : public Dataset {
 public:
  /// Takes ownership of `inner`. Throws Error (kInvalidArgument).
  Batch(std::unique_ptr<Dataset> inner, BatchOptions options);

  std::optional<Sample> next() override;
  void next_epoch() override { inner_->next_epoch(); }
  std::optional<std::int64_t> size() const override;
  std::int64_t skip(std::int64_t count) override {
    return skip_batches(count, options_.batch_size);
  }
  bool skip_makes_items() const override { return inner_->skip_makes_items(); }
  std::int64_t skip_batches(std::int64_t count, std::int64_t batch_size) override;
  Sample restore_sample(const RestoreKey& key) override;
  void check_key(const RestoreKey& key) const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  Sample make_batch(std::span<Sample> samples, std::int64_t number) const;

  const std::unique_ptr<Dataset> inner_;
  const BatchOptions options_;
  const CallResources resources_;
  StageGuard guard_;

  std::vector<Sample> samples_;  // samples of the current batch; empty between calls

  // Saved state.
  std::int64_t batches_ = 0;  // batches made so far, including failed ones
};

// --- Several batches from one group ---
//
// Batch makes one batch from each group. A generator makes several, each on request, like an
// Energon batch function that yields. A state saved in the middle of a group has the keys of the
// group's samples and the number of batches made so far.

/// Returns the fields of the next batch, or nullopt after the last one. An empty function makes no
/// batches.
using FieldsGenerator = std::function<std::optional<Mapping>()>;

/// Runs in the worker. `samples` and `context` live as long as the generator. The random numbers
/// belong to the call, not to each batch. Each batch has the keys and sources of all samples.
using BatchGenerator =
    std::function<FieldsGenerator(std::span<Sample> samples, CallContext& context)>;

/// A batch function: one that makes a single batch, or one that makes any number.
using BatchStage = std::variant<BatchFunction, BatchGenerator>;

struct GeneratedBatchOptions {
  std::int64_t batch_size = 1;  ///< samples in a group; from 1 to kMaxBatchSize
  /// How to treat the samples at the end of an epoch that do not fill a group.
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  BatchGenerator function = nullptr;
  StageOptions stage = {.name = "batch"};
};

/// Takes ownership of `inner`. The stage is an IterMap: a batch has the key IterMap(group,
/// batch)[samples]. If the generator throws, the samples of its group are skipped. Throws Error
/// (kInvalidArgument).
std::unique_ptr<Dataset> generated_batches(std::unique_ptr<Dataset> inner,
                                           GeneratedBatchOptions options);

}  // namespace energon
