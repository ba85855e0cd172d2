// Batches of samples of a kind: a criterion puts each sample into a bucket, and a bucket that is
// full becomes a batch.
//
// At the end of the epoch what is left in the buckets becomes smaller batches, in the order in
// which the buckets were opened in this epoch.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/batching/batch.h"
#include "wrappers/held/combine.h"
#include "wrappers/held/sample_buffer.h"
#include "wrappers/watch/function_timer.h"

namespace energon {

struct BatchGroup {
  std::string group;
  std::optional<std::int64_t> batch_size = std::nullopt;  ///< absent: that of the options
};

/// Runs in the worker. The same sample must get the same group, and a group the same batch size.
using GroupFunction = std::function<BatchGroup(const Sample& sample)>;

/// Groups by length: group i has the lengths in (bounds[i-1], bounds[i]], the first those from 0.
/// Longer samples are an Error (kInvalidArgument), hence up to the policy. With
/// `max_tokens_per_batch`, batches of group i have max_tokens_per_batch / bounds[i] samples.
/// `bounds` ascend from at least 1; throws Error (kInvalidArgument) if not, or if not even one
/// sample of a group is allowed in a batch.
GroupFunction by_length(LengthFunction length, std::vector<std::int64_t> bounds,
                        std::optional<std::int64_t> max_tokens_per_batch = std::nullopt);

struct GroupBatchOptions {
  GroupFunction criterion = nullptr;
  /// Of groups that have no own; from 1 to kMaxBatchSize. Absent: each group must have its own.
  std::optional<std::int64_t> batch_size = std::nullopt;
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  BatchFunction function = list_fields;
  /// Payload kept in all buckets together; samples beyond are read again for their batch.
  std::uint64_t max_held_bytes = kMaxHeldBytes;
  StageOptions group_stage = {.name = "group"};  ///< around `criterion`
  StageOptions batch_stage = {.name = "batch"};  ///< around `function`
  /// Times `criterion` apart from the rest, if given.
  std::shared_ptr<PipelineClock> clock = nullptr;
};

class GroupBatch final : public Dataset {
 public:
  /// Takes `inner`. Throws Error (kInvalidArgument).
  GroupBatch(std::unique_ptr<Dataset> inner, GroupBatchOptions options);

  /// Also throws Error if a group changes its batch size, or nobody gives it one
  /// (kInvalidArgument), or for more than 2^16 groups (kResourceExhausted).
  std::optional<Sample> next() override;
  void next_epoch() override;
  /// Not known beforehand.
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
  StageGuard group_guard_;
  StageGuard batch_guard_;
  const FunctionTimer group_timer_;
  PayloadBudget budget_;

  // Saved state.
  std::int64_t batches_ = 0;    // made ever, those that failed included
  std::deque<Bucket> buckets_;  // opened in this epoch, in that order; may be empty

  // Follow from the buckets.
  std::map<std::string_view, Bucket*> bucket_of_group_;
  Bucket* full_ = nullptr;  // whose batch comes next
};

}  // namespace energon
