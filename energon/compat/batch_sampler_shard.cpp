#include "energon/compat/batch_sampler_shard.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
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
    fail(fmt::format("processes is {}, it must be at least 1", rule.processes));
  }
  if (rule.process < 0 || rule.process >= rule.processes) {
    fail(fmt::format("process is {}, it must be in [0, {})", rule.process, rule.processes));
  }
  if (rule.batch_size && *rule.batch_size < 1) {
    fail(fmt::format("batch_size is {}, it must be at least 1", *rule.batch_size));
  }
  if (rule.split_batches && !rule.batch_size) {
    fail("split_batches needs a batch_size: batches of any sizes cannot be cut into equal parts");
  }
  if (rule.split_batches && *rule.batch_size % rule.processes != 0) {
    fail(fmt::format("split_batches needs a batch_size that the {} processes divide; it is {}",
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

// Hands out what this process gets of the last, incomplete round.
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

}  // namespace energon
