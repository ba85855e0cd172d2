#include "wrappers/batching/batch.h"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "wrappers/buffers/combine.h"
#include "wrappers/stages/iter_map.h"

namespace energon {

// --- Batch ---

Sample call_batch(const BatchFunction& function, std::span<Sample> samples, RestoreKey key,
                  const CallResources& resources, std::int64_t number) {
  for (const Sample& sample : samples) {
    check_made(sample);
  }
  Sample batch;
  batch.restore_key = std::move(key);
  CallContext context(resources, batch.restore_key, number);
  batch.fields = function(samples, context);
  check_fields_of(samples, batch.fields);
  move_origins(samples, batch);
  check_made(batch);
  return batch;
}

Batch::Batch(std::unique_ptr<Dataset> inner, BatchOptions options)
    : inner_(std::move(inner)),
      options_(std::move(options)),
      resources_(options_.stage.resources()),
      guard_(options_.stage) {
  if (!options_.function) {
    throw Error(ErrorCode::kInvalidArgument, "a batch needs a batch function");
  }
  if (options_.batch_size < 1 || options_.batch_size > kMaxBatchSize) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("batch size is {}, it must be from 1 to {}", options_.batch_size,
                            kMaxBatchSize));
  }
}

std::optional<Sample> Batch::next() {
  while (true) {
    keep_spare_samples(samples_);
    inner_->next_many(options_.batch_size, samples_);
    const bool full = static_cast<std::int64_t>(samples_.size()) == options_.batch_size;
    if (samples_.empty() || (!full && options_.remainder == BatchOptions::Remainder::kDrop)) {
      samples_.clear();
      return std::nullopt;
    }
    const std::int64_t number = batches_++;
    const StageGuard::Work work = guard_.work_on(samples_);
    if (auto batch = guard_.run([&] { return make_batch(samples_, number); },
                                [this] { return failed_samples(samples_); })) {
      keep_spare_samples(samples_);
      return batch;
    }
  }
}

Sample Batch::make_batch(std::span<Sample> samples, std::int64_t number) const {
  return call_batch(options_.function, samples, key_of_list(Stage::kBatch, {number}, samples),
                    resources_, number);
}

std::optional<std::int64_t> Batch::size() const {
  const auto samples = inner_->size();
  if (!samples) {
    return std::nullopt;
  }
  const bool drop = options_.remainder == BatchOptions::Remainder::kDrop;
  return (*samples + (drop ? 0 : options_.batch_size - 1)) / options_.batch_size;
}

std::int64_t Batch::skip_batches(std::int64_t count, std::int64_t batch_size) {
  const std::int64_t most = count > INT64_MAX / batch_size ? INT64_MAX : count * batch_size;
  const std::int64_t samples = inner_->skip(most);
  const bool drop = options_.remainder == BatchOptions::Remainder::kDrop;
  const std::int64_t skipped = (samples + (drop ? 0 : batch_size - 1)) / batch_size;
  batches_ += skipped;
  return skipped;
}

Sample Batch::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kBatch, 1);
  std::vector<Sample> samples = restore_samples(*inner_, parts.inner);
  const StageGuard::Work work = guard_.work_on(samples);
  return make_batch(samples, parts.integers[0]);
}

void Batch::check_key(const RestoreKey& key) const {
  for (const RestoreKey& inner : split_key(key, Stage::kBatch, 1).inner) {
    inner_->check_key(inner);
  }
}

State Batch::save_state() const {
  return {"Batch", {{"batches", batches_}}, {inner_->save_state()}};
}

void Batch::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"batches"}, differences);
  check(*inner_, state.children[0], differences);
}

void Batch::apply_state(const State& state) {
  batches_ = state.integer("batches");
  apply(*inner_, state.children[0]);
}

Config Batch::config() const {
  return {{"type", "Batch"},
          {"batch_size", options_.batch_size},
          {"remainder",
           options_.remainder == BatchOptions::Remainder::kDrop ? "drop" : "smaller batch"},
          {"inner", inner_->config()}};
}

// --- Several batches from one group ---

namespace {

/// The samples of one group and the generator over them.
struct Group {
  std::vector<Sample> samples;
  FieldsGenerator next;
};

std::vector<Sample> pull_group(const Pull& pull, std::int64_t batch_size) {
  std::vector<Sample> samples;
  while (static_cast<std::int64_t>(samples.size()) < batch_size) {
    std::optional<Sample> sample = pull();
    if (!sample) {
      break;
    }
    samples.push_back(std::move(*sample));
  }
  return samples;
}

SampleGenerator batches_of(std::vector<Sample> samples, const BatchGenerator& function,
                           CallContext& context) {
  for (const Sample& sample : samples) {
    check_made(sample);
  }
  const auto group = std::make_shared<Group>();
  group->samples = std::move(samples);
  group->next = function(group->samples, context);
  return [group]() -> std::optional<Sample> {
    std::optional<Mapping> fields = group->next ? group->next() : std::nullopt;
    if (!fields) {
      return std::nullopt;
    }
    Sample batch;
    batch.fields = std::move(*fields);
    return batch;
  };
}

}  // namespace

std::unique_ptr<Dataset> generated_batches(std::unique_ptr<Dataset> inner,
                                           GeneratedBatchOptions options) {
  if (!options.function) {
    throw Error(ErrorCode::kInvalidArgument, "a batch needs a batch function");
  }
  if (options.batch_size < 1 || options.batch_size > kMaxBatchSize) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("batch size is {}, it must be from 1 to {}", options.batch_size,
                            kMaxBatchSize));
  }
  const std::int64_t batch_size = options.batch_size;
  const bool drops = options.remainder == BatchOptions::Remainder::kDrop;
  const auto make_batches = [function = std::move(options.function), batch_size, drops](
                                const Pull& pull, CallContext& context) -> SampleGenerator {
    std::vector<Sample> samples = pull_group(pull, batch_size);
    const bool is_full = static_cast<std::int64_t>(samples.size()) == batch_size;
    if (samples.empty() || (drops && !is_full)) {
      return nullptr;
    }
    return batches_of(std::move(samples), function, context);
  };
  return std::make_unique<IterMap>(
      std::move(inner),
      IterMapOptions{.function = make_batches,
                     .max_samples_per_call = batch_size,
                     .settings = Config{{"batch_size", batch_size},
                                        {"remainder", drops ? "drop" : "smaller batch"}}
                                     .dump(),
                     .stage = std::move(options.stage)});
}

}  // namespace energon
