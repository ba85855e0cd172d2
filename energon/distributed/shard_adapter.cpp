#include "energon/distributed/shard_adapter.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/distributed/epoch_agreement.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr const char* kShardType = "Shard";
constexpr const char* kRepeated = "repeated";

State shard_node(std::int64_t epoch, std::int64_t batches, std::int64_t repeated, bool source_ended,
                 std::string first_batches, std::pair<std::string, StateValue> settings) {
  return {kShardType,
          {{"epoch", epoch},
           {"batches", batches},
           {kRepeated, repeated},
           {"source_ended", source_ended ? std::int64_t{1} : std::int64_t{0}},
           {"first_batches", std::move(first_batches)},
           std::move(settings)},
          {}};
}

}  // namespace

ShardAdapter::ShardAdapter(std::shared_ptr<BatchSource> source, const ShardOptions& options)
    : ForwardingAdapter(std::move(source)),
      options_(options),
      ahead_(*source_),
      epoch_(source_->epoch()) {
  if (together() && options.comm == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "even_batches and drop_last make all ranks end together: they need a comm");
  }
}

void ShardAdapter::begin() {
  if ((!begun_ || failure_) && together()) {
    agree_on_size();
  }
  begun_ = true;
}

// Batches of the source in this epoch, including those already handed out.
std::optional<std::int64_t> ShardAdapter::batches_of_source() const {
  if (source_ended_) {
    return handed_out_ - repeated_;
  }
  if (const std::optional<std::int64_t> left = source_->batches_left()) {
    return handed_out_ - repeated_ + ahead_.left(*left);
  }
  return handed_out_ == 0 ? source_->size() : std::nullopt;
}

void ShardAdapter::agree_on_size() {
  const EpochLengths lengths = agree_on_epoch(*options_.comm, [&]() -> EpochShare {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    return {batches_of_source(), source_->common_settings()};
  });
  if (!options_.drop_last && lengths.fewest == 0 && lengths.most > 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "a rank has no batch at all, so there is nothing it could repeat: there is less "
                "data than ranks; use fewer, smaller batches, or drop_last");
  }
  own_ = lengths.own;
  target_ = options_.drop_last ? lengths.fewest : lengths.most;
}

std::optional<Sample> ShardAdapter::next() {
  begin();
  if (target_) {
    try {
      return next_together();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }
  std::optional<Sample> batch = ahead_.next();
  if (!batch) {
    return finish();
  }
  ++handed_out_;
  return batch;
}

std::optional<Sample> ShardAdapter::next_together() {
  if (end_failure_) {
    std::rethrow_exception(end_failure_);
  }
  if (handed_out_ >= *target_) {
    reach_end_of_source();
    return finish();
  }
  std::optional<Sample> batch = next_of_source();
  if (!batch) {
    batch = next_repeated();
  }
  if (++handed_out_ >= *target_) {
    try {
      reach_end_of_source();
    } catch (...) {
      end_failure_ = std::current_exception();
    }
  }
  return batch;
}

// Nothing if this rank has handed out all of its own batches, or if the source has ended early.
std::optional<Sample> ShardAdapter::next_of_source() {
  if (handed_out_ >= own_) {
    return std::nullopt;
  }
  std::optional<Sample> batch;
  if (!source_ended_) {
    batch = ahead_.next();
  }
  if (!batch) {
    source_ended_ = true;
  } else if (options_.even_batches && first_.count() < std::max<std::int64_t>(*target_ - own_, 1)) {
    first_.add(*batch);
  }
  return batch;
}

// One of the first batches of the epoch, which fill up its end.
Sample ShardAdapter::next_repeated() {
  if (options_.drop_last || first_.count() == 0) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the epoch has ended after {} of {} batches, and all ranks were to "
                            "get {}: samples were left out (stats() counts them)",
                            handed_out_, own_, *target_));
  }
  const std::span<const Sample> first = first_.rebuild(*source_);
  const std::int64_t repeated = std::max<std::int64_t>(handed_out_ - own_, 0);
  repeated_ = repeated + 1;
  return first[static_cast<std::size_t>(repeated) % first.size()];
}

// Drops the batches that are left because other ranks have fewer.
void ShardAdapter::reach_end_of_source() {
  for (std::int64_t left_out = own_ - handed_out_; !source_ended_; --left_out) {
    source_ended_ = !ahead_.next();
    if (!source_ended_ && left_out <= 0) {
      throw Error(
          ErrorCode::kMismatch,
          fmt::format("the source has more than the {} batches it said an epoch has, so the "
                      "ranks cannot end together",
                      own_));
    }
  }
}

std::optional<Sample> ShardAdapter::finish() {
  ++epoch_;
  begun_ = false;
  handed_out_ = 0;
  source_ended_ = false;
  repeated_ = 0;
  first_.clear();
  return std::nullopt;
}

bool ShardAdapter::end_of_dataloader() {
  if (!begun_) {
    return false;
  }
  return target_ ? handed_out_ >= *target_ : ahead_.last();
}

// The number of ranks matters only if they end together.
Config ShardAdapter::settings() const {
  return {{"even_batches", options_.even_batches},
          {"drop_last", options_.drop_last},
          {"ranks", together() ? Config(options_.comm->size()) : Config()}};
}

SavableDataLoaderState ShardAdapter::save_state_rank() {
  // After the last batch of the source, ahead_.state() is the end of the epoch, even if repetitions
  // follow.
  if (end_of_dataloader()) {
    return put_over(
        shard_node(epoch_ + 1, 0, 0, false, FirstBatches().save(), settings_field(settings())),
        ahead_.state());
  }
  return put_over(shard_node(epoch_, handed_out_, repeated_, source_ended_ || ahead_.last(),
                             first_.save(), settings_field(settings())),
                  ahead_.state());
}

void ShardAdapter::restore_state_rank(const SavableDataLoaderState& state) {
  const Parts parts = take_apart(state, kShardType);
  check_settings(parts.node, shard_node(0, 0, 0, false, {}, settings_field({})), settings());
  const std::int64_t batches = parts.node.integer("batches");
  const std::int64_t repeated = parts.node.integer(kRepeated);
  if (repeated < 0 || repeated > batches) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the state of a {} has {} repetitions among {} batches", kShardType,
                            repeated, batches));
  }
  FirstBatches first;
  first.restore(parts.node.bytes("first_batches"));
  stop_and_restore(*source_, parts.source);
  ahead_.reset();
  begun_ = false;
  failure_ = nullptr;
  end_failure_ = nullptr;
  epoch_ = parts.node.integer("epoch");
  handed_out_ = batches;
  source_ended_ = parts.node.integer("source_ended") != 0;
  repeated_ = repeated;
  first_ = std::move(first);
}

std::optional<std::int64_t> ShardAdapter::size() const {
  return target_ ? target_ : source_->size();
}

std::optional<std::int64_t> ShardAdapter::batches_left() const {
  if (target_ && begun_) {
    return *target_ - handed_out_;
  }
  const std::optional<std::int64_t> left = source_->batches_left();
  return left ? std::optional(ahead_.left(*left)) : left;
}

std::int64_t ShardAdapter::skip(std::int64_t count) {
  if (together()) {
    return BatchSource::skip(count);
  }
  begin();
  const std::int64_t skipped = ahead_.skip(count);
  handed_out_ += skipped;
  if (skipped < count) {
    finish();
  }
  return skipped;
}

void ShardAdapter::set_epoch(std::int64_t epoch) {
  if (begun_ || handed_out_ > 0) {
    throw Error(ErrorCode::kInvalidArgument, "set_epoch() within an epoch");
  }
  source_->set_epoch(epoch);
  epoch_ = epoch;
}

}  // namespace energon
