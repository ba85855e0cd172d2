// Batches of similar samples: a criterion puts each sample into a bucket, and a full bucket becomes
// a batch.
//
// At the end of the epoch the samples left in the buckets become smaller batches, in the order in
// which the buckets were opened in this epoch, unless the remainder is dropped.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/stage/call_context.h"
#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/batching/batch.h"
#include "wrappers/buffers/combine.h"
#include "wrappers/watch/timed_stage.h"

namespace energon {

struct BatchGroup {
  std::string group;
  std::optional<std::int64_t> batch_size = std::nullopt;  ///< unset means the options' batch size
};

/// Runs in the worker. Must depend only on the sample and the context, and always return the same
/// batch size for a group. Random numbers of the context are seeded by the sample and the number of
/// batches made before, which CallContext::call() returns. A function that needs no context may
/// take only the sample.
using GroupFunction = ContextFunction<BatchGroup(const Sample& sample)>;

/// Groups by length: group i holds lengths in (bounds[i-1], bounds[i]]; the first group starts at
/// 0. For longer samples the function throws Error (kInvalidArgument), which the stage's policy
/// handles. With `max_tokens_per_batch`, batches of group i have max_tokens_per_batch / bounds[i]
/// samples. Throws Error (kInvalidArgument) unless `bounds` ascend from at least 1 and a batch of
/// each group has room for one sample.
GroupFunction by_length(LengthFunction length, std::vector<std::int64_t> bounds,
                        std::optional<std::int64_t> max_tokens_per_batch = std::nullopt);

struct GroupBatchOptions {
  GroupFunction criterion = nullptr;
  /// Batch size of groups without their own; from 1 to kMaxBatchSize. If unset, each group must
  /// have its own.
  std::optional<std::int64_t> batch_size = std::nullopt;
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  BatchFunction function = list_fields;
  /// Limit on the payload kept in all buckets together; samples beyond it are read again for their
  /// batch.
  std::uint64_t max_held_bytes = kMaxHeldBytes;
  StageOptions group_stage = {.name = "group"};  ///< around `criterion`
  StageOptions batch_stage = {.name = "batch"};  ///< around `function`
  /// If set, times `criterion` separately from the rest of the stage.
  std::shared_ptr<PipelineClock> clock = nullptr;
};

class GroupBatch final : public Dataset {
 public:
  /// Takes ownership of `inner`. Throws Error (kInvalidArgument).
  GroupBatch(std::unique_ptr<Dataset> inner, GroupBatchOptions options);

  /// Also throws Error: kInvalidArgument if a group changes its batch size or has none;
  /// kResourceExhausted for more than 2^16 groups.
  std::optional<Sample> next() override;
  void next_epoch() override;
  /// Unknown in advance.
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t skip(std::int64_t count) override { return skip_by_running(count); }
  Sample restore_sample(const RestoreKey& key) override;
  void check_key(const RestoreKey& key) const override;
  State save_state() const override;
  Config config() const override;

 private:
  struct Bucket {
    Bucket(std::string name, std::int64_t size, Dataset& inner, PayloadBudget& budget)
        : group(std::move(name)), batch_size(size), samples(inner, budget) {}
    bool is_full() const { return static_cast<std::int64_t>(samples.size()) >= batch_size; }

    const std::string group;
    const std::int64_t batch_size;
    SampleBuffer samples;
  };
  struct SavedBucket {
    std::string_view group;
    std::int64_t batch_size;
    std::string_view keys;
  };

  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  bool fill();
  std::int64_t batch_size_of(const BatchGroup& group) const;
  std::optional<BatchGroup> group_of(const Sample& sample);
  Bucket& bucket_of(const BatchGroup& group);
  Bucket& open_bucket(std::string group, std::int64_t batch_size);
  void close_buckets();
  std::optional<Sample> next_batch(Bucket& bucket);
  Sample make_batch(std::span<Sample> samples, std::int64_t number) const;
  std::string save_buckets() const;
  static std::vector<SavedBucket> decode_buckets(std::string_view saved);

  const std::unique_ptr<Dataset> inner_;
  const GroupBatchOptions options_;
  const CallResources group_resources_;
  const CallResources resources_;  // resources of `function`
  StageGuard group_guard_;
  StageGuard batch_guard_;
  const FunctionTimer group_timer_;
  PayloadBudget budget_;

  // Saved state.
  std::int64_t batches_ = 0;    // batches made so far, including failed ones
  std::deque<Bucket> buckets_;  // in the order they were opened in this epoch; may be empty

  // Derived from the buckets.
  std::map<std::string_view, Bucket*> bucket_of_group_;
  Bucket* full_ = nullptr;  // its batch comes next
};

}  // namespace energon
