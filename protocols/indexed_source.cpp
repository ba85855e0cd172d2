#include "protocols/indexed_source.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/distributed/comm.h"
#include "energon/order/rng.h"
#include "io/byte_codec.h"
#include "io/error.h"

namespace energon {

// --- BatchSamplerShard ---

namespace {

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

Indexes part_of(const Indexes& batch, std::size_t part_size, std::size_t process) {
  const std::size_t begin = std::min(batch.size(), part_size * process);
  const std::size_t end = std::min(batch.size(), begin + part_size);
  return {batch.begin() + static_cast<std::ptrdiff_t>(begin),
          batch.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

void validate(const ShardRule& rule) {
  const auto fail = [](const std::string& message) {
    throw Error(ErrorCode::kInvalidArgument, message);
  };
  if (rule.processes < 1) {
    fail(fmt::format("processes is {}, but must be at least 1", rule.processes));
  }
  if (rule.process < 0 || rule.process >= rule.processes) {
    fail(fmt::format("process is {}, but must be in [0, {})", rule.process, rule.processes));
  }
  if (rule.batch_size && *rule.batch_size < 1) {
    fail(fmt::format("batch_size is {}, but must be at least 1", *rule.batch_size));
  }
  if (rule.split_batches && !rule.batch_size) {
    fail(
        "split_batches needs a batch_size: batches of variable size cannot be cut into equal "
        "parts");
  }
  if (rule.split_batches && *rule.batch_size % rule.processes != 0) {
    fail(fmt::format(
        "split_batches needs a batch_size that is a multiple of the {} processes, found {}",
        rule.processes, *rule.batch_size));
  }
}

BatchSamplerShard::BatchSamplerShard(NextBatch next_batch, const ShardRule& rule)
    : next_batch_(std::move(next_batch)), rule_(rule) {
  validate(rule);
}

std::optional<Indexes> BatchSamplerShard::next() {
  if (ended_) {
    return std::nullopt;
  }
  return rule_.split_batches ? next_part() : next_whole();
}

bool BatchSamplerShard::full(const Indexes& batch) const {
  return !rule_.batch_size || batch.size() == as_size(*rule_.batch_size);
}

std::optional<Indexes> BatchSamplerShard::draw() {
  std::optional<Indexes> batch = next_batch_();
  if (!batch) {
    return batch;
  }
  if (saw_short_batch_ || (rule_.batch_size && batch->size() > as_size(*rule_.batch_size))) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("batch_size is {}, but {}: only the last batch may be smaller; leave "
                            "batch_size out for batches of any sizes",
                            *rule_.batch_size,
                            saw_short_batch_ ? std::string("batches follow a smaller one")
                                             : fmt::format("one has {} indexes", batch->size())));
  }
  saw_short_batch_ = !full(*batch);
  return batch;
}

std::optional<Indexes> BatchSamplerShard::next_whole() {
  std::vector<Indexes> round;
  while (round.size() < static_cast<std::size_t>(rule_.processes)) {
    std::optional<Indexes> batch = draw();
    if (!batch) {
      return tail_of_round(std::move(round));
    }
    round.push_back(std::move(*batch));
  }
  if (!full(round.back())) {
    draw();  // throws if this was not the last
    return tail_of_round(std::move(round));
  }
  if (first_round_.empty() && rule_.even_batches && !rule_.drop_last) {
    first_round_ = round;
  }
  return std::move(round[static_cast<std::size_t>(rule_.process)]);
}

// Yields this process's part of the last, incomplete round.
std::optional<Indexes> BatchSamplerShard::tail_of_round(std::vector<Indexes> round) {
  ended_ = true;
  const auto process = static_cast<std::size_t>(rule_.process);
  if (rule_.drop_last || round.empty() || (!rule_.even_batches && process >= round.size())) {
    return std::nullopt;
  }
  if (!rule_.even_batches) {
    return std::move(round[process]);
  }
  const std::vector<Indexes>& source = first_round_.empty() ? round : first_round_;
  if (!rule_.batch_size) {
    return process < round.size() ? round[process]
                                  : source[(process - round.size()) % source.size()];
  }
  Indexes samples;
  for (const Indexes& batch : source) {
    samples.insert(samples.end(), batch.begin(), batch.end());
  }
  std::size_t used = 0;
  for (std::size_t other = 0;; ++other) {
    Indexes batch = other < round.size() ? round[other] : Indexes();
    while (batch.size() < as_size(*rule_.batch_size)) {
      batch.push_back(samples[used++ % samples.size()]);
    }
    if (other == process) {
      return batch;
    }
  }
}

std::optional<Indexes> BatchSamplerShard::next_part() {
  std::optional<Indexes> batch = draw();
  if (!batch) {
    ended_ = true;
    return std::nullopt;
  }
  if (!full(*batch)) {
    draw();  // throws if this was not the last
    return tail_of_split(std::move(*batch));
  }
  if (first_round_.empty()) {
    first_round_.push_back(*batch);
  }
  return part_of(*batch, as_size(*rule_.batch_size / rule_.processes),
                 static_cast<std::size_t>(rule_.process));
}

std::optional<Indexes> BatchSamplerShard::tail_of_split(Indexes batch) {
  ended_ = true;
  if (rule_.drop_last || batch.empty()) {
    return std::nullopt;
  }
  if (rule_.even_batches) {
    const Indexes first = first_round_.empty() ? batch : first_round_.front();
    for (std::size_t used = 0; batch.size() < as_size(*rule_.batch_size); ++used) {
      batch.push_back(first[used % first.size()]);
    }
  }
  Indexes part = part_of(batch, as_size(*rule_.batch_size / rule_.processes),
                         static_cast<std::size_t>(rule_.process));
  if (part.empty()) {
    return std::nullopt;
  }
  return part;
}

std::int64_t shard_size(std::int64_t batches, std::int64_t last_size, const ShardRule& rule) {
  validate(rule);
  const bool last_is_full = !rule.batch_size || last_size == *rule.batch_size;
  if (rule.split_batches) {
    if (last_is_full || batches == 0) {
      return batches;
    }
    const bool has_part =
        rule.even_batches || last_size > *rule.batch_size / rule.processes * rule.process;
    return rule.drop_last || !has_part ? batches - 1 : batches;
  }
  if (rule.drop_last) {
    return (last_is_full ? batches : batches - 1) / rule.processes;
  }
  if (rule.even_batches) {
    return (batches + rule.processes - 1) / rule.processes;
  }
  return batches / rule.processes + (rule.process < batches % rule.processes ? 1 : 0);
}

// --- IndexedSource ---

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
                fmt::format("samples is {}, but must be in [0, 2^32)", options.samples));
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

// Excludes the process: ranks may share the state of one of them.
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
  return source_state(
      indexed_position(epoch_, handed_out_, settings_field(settings())), {epoch_, handed_out_},
      {.rank = options_.process, .world_size = options_.processes, .common_settings = settings()});
}

void IndexedSource::restore_state_rank(const SavableDataLoaderState& state) {
  const State& position = source_position_in(state, kIndexedType);
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
    throw Error(ErrorCode::kInvalidArgument, "set_epoch() was called within an epoch");
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
                  fmt::format("the key {} refers to sample {}, but there are only {}", key.text(),
                              index, options_.samples));
    }
    indexes.push_back(index);
  }
  return fetch(indexes, parts.integers[0]);
}

// --- The seed ---

std::uint32_t shared_seed(Comm& comm, std::uint32_t seed) {
  ByteWriter writer;
  writer.u32(seed);
  const std::string bytes = comm.broadcast(writer.take(), 0);
  ByteReader reader(bytes, "the seed of rank 0");
  return reader.u32();
}

}  // namespace energon
