#include "energon/compat/indexed_source.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/order/rng.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr const char* kIndexedType = "Indexed";

State indexed_position(std::int64_t epoch, std::int64_t batches,
                       std::pair<std::string, StateValue> settings) {
  return {kIndexedType, {{"epoch", epoch}, {"batches", batches}, std::move(settings)}, {}};
}

// The batches of one epoch of the whole job.
class BatchSampler {
 public:
  BatchSampler(const IndexedOptions& options, std::int64_t epoch)
      : batch_size_(options.batch_size), drop_last_(options.drop_last) {
    if (options.shuffle_seed) {
      order_ = WorkerRng(*options.shuffle_seed + static_cast<std::uint32_t>(epoch))
                   .permutation(options.samples);
    } else {
      order_.resize(static_cast<std::size_t>(options.samples));
      std::iota(order_.begin(), order_.end(), 0);
    }
  }

  std::optional<Indexes> next() {
    const auto left = static_cast<std::int64_t>(order_.size()) - position_;
    const std::int64_t count = std::min(left, batch_size_);
    if (count == 0 || (drop_last_ && count < batch_size_)) {
      return std::nullopt;
    }
    const auto begin = order_.begin() + position_;
    position_ += count;
    return Indexes(begin, begin + count);
  }

 private:
  std::vector<std::int64_t> order_;
  std::int64_t batch_size_;
  bool drop_last_;
  std::int64_t position_ = 0;
};

}  // namespace

IndexedSource::IndexedSource(const IndexedOptions& options, FetchFunction fetch)
    : options_(options), fetch_(std::move(fetch)) {
  if (options.samples < 0 || options.samples > std::int64_t{UINT32_MAX}) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("samples is {}, it must be in [0, 2^32)", options.samples));
  }
  validate(rule());
}

ShardRule IndexedSource::rule() const {
  return {.processes = options_.processes,
          .process = options_.process,
          .batch_size = options_.batch_size,
          .split_batches = options_.split_batches,
          .even_batches = options_.even_batches && options_.processes > 1,
          .drop_last = options_.drop_last};
}

void IndexedSource::begin() {
  if (shard_) {
    return;
  }
  shard_ = std::make_unique<BatchSamplerShard>(
      [sampler = BatchSampler(options_, epoch_)]() mutable { return sampler.next(); }, rule());
  for (std::int64_t i = 0; i < handed_out_; ++i) {
    shard_->next();
  }
}

std::optional<Indexes> IndexedSource::next_indexes() {
  begin();
  std::optional<Indexes> indexes = shard_->next();
  if (indexes) {
    ++handed_out_;
  } else {
    finish();
  }
  return indexes;
}

void IndexedSource::finish() {
  shard_.reset();
  ++epoch_;
  handed_out_ = 0;
}

Sample IndexedSource::fetch(const Indexes& indexes, std::int64_t batch) const {
  Sample sample = fetch_(indexes);
  std::vector<RestoreKey> inner;
  for (const std::int64_t index : indexes) {
    inner.push_back(RestoreKey::leaf(Stage::kWebdataset, {0, index}));
  }
  sample.restore_key = RestoreKey::list(Stage::kBatch, {batch}, inner);
  return sample;
}

std::optional<Sample> IndexedSource::next() {
  const std::optional<Indexes> indexes = next_indexes();
  if (!indexes) {
    return std::nullopt;
  }
  return fetch(*indexes, handed_out_ - 1);
}

std::int64_t IndexedSource::skip(std::int64_t count) {
  std::int64_t skipped = 0;
  while (skipped < count && next_indexes()) {
    ++skipped;
  }
  return skipped;
}

// Not which process it is: ranks may share the state of one of them.
Config IndexedSource::settings() const {
  const ShardRule rule = this->rule();
  return {{"samples", options_.samples},
          {"batch_size", options_.batch_size},
          {"drop_last", options_.drop_last},
          {"shuffle_seed", options_.shuffle_seed ? Config(*options_.shuffle_seed) : Config()},
          {"processes", options_.processes},
          {"split_batches", rule.split_batches},
          {"even_batches", rule.even_batches}};
}

Config IndexedSource::common_settings() const {
  return options_.processes > 1 ? settings() : Config();
}

SavableDataLoaderState IndexedSource::save_state_rank() {
  return own_state(
      indexed_position(epoch_, handed_out_, settings_field(settings())), {epoch_, handed_out_},
      {.rank = options_.process, .world_size = options_.processes, .common_settings = settings()});
}

void IndexedSource::restore_state_rank(const SavableDataLoaderState& state) {
  const State& position = own_position_in(state, kIndexedType);
  check_settings(position, indexed_position(0, 0, settings_field({})), settings());
  const std::int64_t epoch = position.integer("epoch");
  const std::int64_t batches = position.integer("batches");
  if (epoch < 0 || batches < 0 || batches > *size()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state is at batch {} of epoch {}, but an epoch has {} batches",
                            batches, epoch, *size()));
  }
  shard_.reset();
  epoch_ = epoch;
  handed_out_ = batches;
}

std::optional<std::int64_t> IndexedSource::size() const {
  const std::int64_t rest = options_.samples % options_.batch_size;
  const std::int64_t full = options_.samples / options_.batch_size;
  if (rest == 0 || options_.drop_last) {
    return shard_size(full, options_.batch_size, rule());
  }
  return shard_size(full + 1, rest, rule());
}

void IndexedSource::set_epoch(std::int64_t epoch) {
  if (handed_out_ > 0) {
    throw Error(ErrorCode::kInvalidArgument, "set_epoch() within an epoch");
  }
  shard_.reset();
  epoch_ = epoch;
}

std::optional<std::int64_t> IndexedSource::remainder() const {
  if (options_.drop_last) {
    return std::nullopt;
  }
  return options_.samples %
         (options_.batch_size * (options_.split_batches ? 1 : options_.processes));
}

Sample IndexedSource::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kBatch, 1);
  Indexes indexes;
  for (const RestoreKey& inner : parts.inner) {
    const std::int64_t index = split_key(inner, Stage::kWebdataset, 2, 0).integers[1];
    if (index >= options_.samples) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the key {} is of sample {}, but there are {}", key.text(), index,
                              options_.samples));
    }
    indexes.push_back(index);
  }
  return fetch(indexes, parts.integers[0]);
}

}  // namespace energon
