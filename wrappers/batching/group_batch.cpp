#include "wrappers/batching/group_batch.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/byte_codec.h"
#include "io/error.h"
#include "wrappers/buffers/combine.h"

namespace energon {
namespace {

// More groups mean that the criterion does not group.
constexpr std::size_t kMaxGroups = std::size_t{1} << 16;

void check_batch_size(std::int64_t batch_size, std::string_view whose) {
  if (batch_size < 1 || batch_size > kMaxBatchSize) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("batch size {} is {}, expected 1 to {}",
                                                         whose, batch_size, kMaxBatchSize));
  }
}

}  // namespace

GroupFunction by_length(LengthFunction length, std::vector<std::int64_t> bounds,
                        std::optional<std::int64_t> max_tokens_per_batch) {
  if (!length || bounds.empty() || bounds.front() < 1 ||
      std::ranges::adjacent_find(bounds, std::greater_equal()) != bounds.end()) {
    throw Error(ErrorCode::kInvalidArgument,
                "groups by length need a length function and bounds that ascend from at least 1");
  }
  if (max_tokens_per_batch && *max_tokens_per_batch < bounds.back()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("max_tokens_per_batch is {}, less than a single sample of length {}",
                            *max_tokens_per_batch, bounds.back()));
  }
  return [length = std::move(length), bounds = std::move(bounds),
          max_tokens_per_batch](const Sample& sample) -> BatchGroup {
    const std::int64_t tokens = length(sample);
    const auto bound = std::ranges::lower_bound(bounds, tokens);
    if (tokens < 0 || bound == bounds.end()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("the sample has length {}, but groups cover 0 to {}", tokens, bounds.back()));
    }
    BatchGroup group{.group = fmt::format("up to {}", *bound)};
    if (max_tokens_per_batch) {
      group.batch_size = std::min(*max_tokens_per_batch / *bound, kMaxBatchSize);
    }
    return group;
  };
}

GroupBatch::GroupBatch(std::unique_ptr<Dataset> inner, GroupBatchOptions options)
    : inner_(std::move(inner)),
      options_(std::move(options)),
      group_resources_(options_.group_stage.resources()),
      resources_(options_.batch_stage.resources()),
      group_guard_(options_.group_stage),
      batch_guard_(options_.batch_stage),
      group_timer_(options_.clock, options_.group_stage),
      budget_{options_.max_held_bytes} {
  if (!options_.criterion || !options_.function) {
    throw Error(ErrorCode::kInvalidArgument,
                "a group batch needs a criterion and a batch function");
  }
  if (options_.batch_size) {
    check_batch_size(*options_.batch_size, "of the options");
  }
}

std::optional<Sample> GroupBatch::next() {
  while (fill()) {
    if (auto batch = next_batch(*full_)) {
      return batch;
    }
  }
  if (options_.remainder == BatchOptions::Remainder::kSmallerBatch) {
    for (Bucket& bucket : buckets_) {
      if (bucket.samples.empty()) {
        continue;
      }
      if (auto batch = next_batch(bucket)) {
        return batch;
      }
    }
  }
  close_buckets();
  return std::nullopt;
}

// Takes samples until a bucket is full. Returns false if the inner epoch is over.
bool GroupBatch::fill() {
  while (full_ == nullptr) {
    std::optional<Sample> sample = inner_->next();
    if (!sample) {
      return false;
    }
    const std::optional<BatchGroup> group = group_of(*sample);
    if (group) {
      Bucket& bucket = bucket_of(*group);
      bucket.samples.push_back(std::move(*sample));
      full_ = bucket.is_full() ? &bucket : nullptr;
    }
  }
  return true;
}

// Nullopt if the criterion failed and the sample is skipped.
std::optional<BatchGroup> GroupBatch::group_of(const Sample& sample) {
  const StageGuard::Work work = group_guard_.work_on({&sample, 1});
  // The number of batches is saved, so a restored stream draws the same numbers.
  const RestoreKey key = RestoreKey::around(Stage::kGroupBatch, {batches_}, sample.restore_key);
  CallContext context(group_resources_, key, batches_);
  return group_guard_.run(
      [&] { return group_timer_([&] { return options_.criterion(sample, context); }); },
      [&] { return failed_samples(sample); });
}

std::int64_t GroupBatch::batch_size_of(const BatchGroup& group) const {
  if (!group.batch_size && !options_.batch_size) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("stage '{}' returns group '{}' without a batch size, and batch_size is "
                            "not set: set either",
                            group_guard_.name(), printable(group.group)));
  }
  return group.batch_size ? *group.batch_size : *options_.batch_size;
}

GroupBatch::Bucket& GroupBatch::bucket_of(const BatchGroup& group) {
  const std::int64_t batch_size = batch_size_of(group);
  const auto found = bucket_of_group_.find(group.group);
  if (found == bucket_of_group_.end()) {
    check_batch_size(batch_size, fmt::format("of group '{}'", printable(group.group)));
    if (buckets_.size() >= kMaxGroups) {
      throw Error(
          ErrorCode::kResourceExhausted,
          fmt::format("the criterion of stage '{}' returns more than {} groups; the last is "
                      "'{}'",
                      group_guard_.name(), kMaxGroups, printable(group.group)));
    }
    return open_bucket(group.group, batch_size);
  }
  if (found->second->batch_size != batch_size) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "group '{}' changes its batch size from {} to {}: a group must have a fixed one",
            printable(group.group), found->second->batch_size, batch_size));
  }
  return *found->second;
}

GroupBatch::Bucket& GroupBatch::open_bucket(std::string group, std::int64_t batch_size) {
  Bucket& bucket = buckets_.emplace_back(std::move(group), batch_size, *inner_, budget_);
  bucket_of_group_.emplace(bucket.group, &bucket);
  return bucket;
}

void GroupBatch::close_buckets() {
  full_ = nullptr;
  bucket_of_group_.clear();
  buckets_.clear();
}

// Nullopt if the batch function failed and the samples are skipped.
std::optional<Sample> GroupBatch::next_batch(Bucket& bucket) {
  std::vector<Sample> samples = bucket.samples.take_front(bucket.samples.size());
  full_ = nullptr;
  const std::int64_t number = batches_++;
  const StageGuard::Work work = batch_guard_.work_on(samples);
  return batch_guard_.run([&] { return make_batch(samples, number); },
                          [&] { return failed_samples(samples); });
}

Sample GroupBatch::make_batch(std::span<Sample> samples, std::int64_t number) const {
  return call_batch(options_.function, samples, key_of_list(Stage::kGroupBatch, {number}, samples),
                    resources_, number);
}

void GroupBatch::next_epoch() {
  close_buckets();
  inner_->next_epoch();
}

Sample GroupBatch::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kGroupBatch, 1);
  std::vector<Sample> samples = restore_samples(*inner_, parts.inner);
  const StageGuard::Work work = batch_guard_.work_on(samples);
  return make_batch(samples, parts.integers[0]);
}

// u32 count, then for each bucket its group (text), batch size (i64) and keys (text).
std::string GroupBatch::save_buckets() const {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(buckets_.size()));
  for (const Bucket& bucket : buckets_) {
    writer.text(bucket.group);
    writer.i64(bucket.batch_size);
    writer.text(bucket.samples.save());
  }
  return writer.take();
}

// Throws Error (kCorruptData).
std::vector<GroupBatch::SavedBucket> GroupBatch::decode_buckets(std::string_view saved) {
  ByteReader reader(saved, "the list of saved groups");
  std::vector<SavedBucket> buckets(reader.count(16));
  if (buckets.size() > kMaxGroups) {
    reader.fail(fmt::format("{} groups, at most {} can be", buckets.size(), kMaxGroups));
  }
  std::set<std::string_view> groups;
  bool has_full = false;
  for (SavedBucket& bucket : buckets) {
    bucket.group = reader.text();
    bucket.batch_size = reader.i64();
    bucket.keys = reader.text();
    if (!groups.insert(bucket.group).second) {
      reader.fail(fmt::format("group '{}' comes twice", printable(bucket.group)));
    }
    const std::size_t samples = decode_keys(bucket.keys).size();
    if (bucket.batch_size < 1 || bucket.batch_size > kMaxBatchSize ||
        samples > static_cast<std::size_t>(bucket.batch_size)) {
      reader.fail(fmt::format("group '{}' waits with {} samples for a batch of {}",
                              printable(bucket.group), samples, bucket.batch_size));
    }
    const bool is_full = samples == static_cast<std::size_t>(bucket.batch_size);
    if (is_full && has_full) {
      reader.fail("two groups are full");  // the first one became a batch before the second was
    }
    has_full = has_full || is_full;
  }
  reader.finish();
  return buckets;
}

void GroupBatch::check_key(const RestoreKey& key) const {
  for (const RestoreKey& inner : split_key(key, Stage::kGroupBatch, 1).inner) {
    inner_->check_key(inner);
  }
}

State GroupBatch::save_state() const {
  return {
      "GroupBatch", {{"batches", batches_}, {"buckets", save_buckets()}}, {inner_->save_state()}};
}

void GroupBatch::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"batches"}, differences);
  try {
    for (const SavedBucket& bucket : decode_buckets(state.bytes("buckets"))) {
      decode_keys(bucket.keys, *inner_);
    }
  } catch (const Error& error) {
    differences.push_back("GroupBatch: " + error.message());
  }
  check(*inner_, state.children[0], differences);
}

void GroupBatch::apply_state(const State& state) {
  close_buckets();
  batches_ = state.integer("batches");
  for (const SavedBucket& saved : decode_buckets(state.bytes("buckets"))) {
    Bucket& bucket = open_bucket(std::string(saved.group), saved.batch_size);
    bucket.samples.restore(saved.keys);
    full_ = bucket.is_full() ? &bucket : full_;
  }
  apply(*inner_, state.children[0]);
}

Config GroupBatch::config() const {
  return {
      {"type", "GroupBatch"},
      {"batch_size", options_.batch_size.value_or(1)},  // the same as before sizes became optional
      {"remainder",
       options_.remainder == BatchOptions::Remainder::kDrop ? "drop" : "smaller batch"},
      {"inner", inner_->config()}};
}

}  // namespace energon
