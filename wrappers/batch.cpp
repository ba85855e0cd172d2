#include "wrappers/batch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "wrappers/combine.h"

namespace energon {

// Larger ones are mistakes that would end in the system's memory.
static constexpr std::int64_t kMaxBatchSize = std::int64_t{1} << 24;

Mapping list_fields(std::span<Sample> samples) {
  Mapping fields;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t k = 0; k < samples[i].fields.size(); ++k) {
      auto& [name, value] = samples[i].fields[k];
      // Samples of one shard mostly have the same parts in the same order, so look at the same
      // place first.
      auto field =
          k < fields.size() && fields[k].first == name
              ? fields.begin() + static_cast<std::ptrdiff_t>(k)
              : std::find_if(fields.begin(), fields.end(),
                             [&name = name](const auto& entry) { return entry.first == name; });
      if (field == fields.end()) {
        fields.emplace_back(name, List());
        field = fields.end() - 1;
        std::get<List>(field->second.base()).reserve(samples.size());
      }
      auto& list = std::get<List>(field->second.base());
      if (list.size() != i) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("part '{}' is missing in sample '{}' of the batch; give Batch a "
                                "function that knows "
                                "what to do, or exclude the sample",
                                printable(name), printable(samples[list.size()].keys.at(0))));
      }
      list.push_back(std::move(value));
    }
  }
  for (const auto& [name, value] : fields) {
    if (const std::size_t count = std::get<List>(value.base()).size(); count != samples.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("part '{}' is missing in sample '{}' of the batch; give Batch a "
                              "function that knows what "
                              "to do, or exclude the sample",
                              printable(name), printable(samples[count].keys.at(0))));
    }
  }
  return fields;
}

Batch::Batch(std::unique_ptr<Dataset> inner, BatchOptions options)
    : inner_(std::move(inner)), options_(std::move(options)), guard_(options_.stage) {
  if (options_.batch_size < 1 || options_.batch_size > kMaxBatchSize) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("batch size is {}, it must be from 1 to {}", options_.batch_size,
                            kMaxBatchSize));
  }
}

std::optional<Sample> Batch::next() {
  while (true) {
    samples_.clear();
    inner_->next_many(options_.batch_size, samples_);
    const bool full = static_cast<std::int64_t>(samples_.size()) == options_.batch_size;
    if (samples_.empty() || (!full && options_.remainder == BatchOptions::Remainder::kDrop)) {
      samples_.clear();
      return std::nullopt;
    }
    const std::int64_t number = batches_++;
    if (auto batch = guard_.run([&] { return make_batch(samples_, number); },
                                [this] { return failed_samples(samples_); })) {
      samples_.clear();
      return batch;
    }
  }
}

Sample Batch::make_batch(std::span<Sample> samples, std::int64_t number) const {
  Sample batch;
  batch.restore_key = RestoreKey::list(Stage::kBatch, {number}, restore_keys(samples));
  batch.fields = options_.function(samples);
  move_origins(samples, batch);
  return batch;
}

std::optional<std::int64_t> Batch::size() const {
  const auto samples = inner_->size();
  if (!samples) {
    return std::nullopt;
  }
  const bool drop = options_.remainder == BatchOptions::Remainder::kDrop;
  return (*samples + (drop ? 0 : options_.batch_size - 1)) / options_.batch_size;
}

std::int64_t Batch::skip(std::int64_t count) {
  const std::int64_t samples = inner_->skip(count * options_.batch_size);
  const bool drop = options_.remainder == BatchOptions::Remainder::kDrop;
  const std::int64_t skipped =
      (samples + (drop ? 0 : options_.batch_size - 1)) / options_.batch_size;
  batches_ += skipped;
  return skipped;
}

Sample Batch::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kBatch, 1, -1);
  std::vector<Sample> samples;
  for (const RestoreKey& inner : parts.inner) {
    samples.push_back(inner_->restore_sample(inner));
  }
  return make_batch(samples, parts.integers[0]);
}

State Batch::save_state() const {
  return {"Batch", {{"batches", batches_}}, {inner_->save_state()}};
}

void Batch::check_state(const State& state, std::vector<std::string>& differences) const {
  if (state.integer("batches") < 0) {
    differences.push_back(fmt::format("Batch: {} batches", state.integer("batches")));
  }
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

}  // namespace energon
