#include "energon/distributed/shard_adapter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr std::int64_t kUnknown = -1;

State shard_state(std::int64_t epoch, std::int64_t batches, bool source_ended,
                  std::string first_batches) {
  return {"Shard",
          {{"epoch", epoch},
           {"batches", batches},
           {"source_ended", source_ended ? std::int64_t{1} : std::int64_t{0}},
           {"first_batches", std::move(first_batches)}},
          {State()}};
}

}  // namespace

ShardAdapter::ShardAdapter(std::shared_ptr<BatchSource> source, const ShardOptions& options)
    : source_(std::move(source)), options_(options), ahead_(*source_), epoch_(source_->epoch()) {
  if (together() && options.comm == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "even_batches and drop_last make all ranks end together: they need a comm");
  }
}

void ShardAdapter::begin() {
  if (!begun_ && together()) {
    agree_on_size();
  }
  begun_ = true;
  if (!registration_.active()) {
    registration_ = Registration(options_.registry, *this);
  }
}

void ShardAdapter::agree_on_size() {
  const std::int64_t own = source_->size().value_or(kUnknown);
  const std::vector<std::string> sizes =
      options_.comm->all_gather(std::string(reinterpret_cast<const char*>(&own), sizeof(own)));
  std::int64_t fewest = 0;
  std::int64_t most = 0;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    std::int64_t size = 0;
    std::memcpy(&size, sizes[rank].data(), std::min(sizes[rank].size(), sizeof(size)));
    if (size == kUnknown) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("rank {} does not know how many batches its epoch has, so the ranks "
                              "cannot be made to end together: give epochs a length "
                              "(virtual_epoch_length) or leave out even_batches and drop_last",
                              rank));
    }
    fewest = rank == 0 ? size : std::min(fewest, size);
    most = std::max(most, size);
  }
  if (!options_.drop_last && fewest == 0 && most > 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "a rank has no batch at all, so there is nothing it could repeat: there is less "
                "data than ranks; use fewer, smaller batches, or drop_last");
  }
  own_ = own;
  target_ = options_.drop_last ? fewest : most;
}

std::optional<Sample> ShardAdapter::next() {
  begin();
  if (target_) {
    return next_together();
  }
  std::optional<Sample> batch = ahead_.next();
  if (!batch) {
    return finish();
  }
  ++handed_out_;
  return batch;
}

std::optional<Sample> ShardAdapter::next_together() {
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  if (handed_out_ >= *target_) {
    reach_end_of_source();
    return finish();
  }
  std::optional<Sample> batch;
  if (handed_out_ < own_ && !source_ended_) {
    batch = ahead_.next();
    if (batch && options_.even_batches &&
        first_.count() < std::max<std::int64_t>(*target_ - own_, 1)) {
      first_.add(*batch);
    }
  }
  if (!batch) {
    if (handed_out_ < own_) {
      source_ended_ = true;
    }
    if (options_.drop_last || first_.count() == 0) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("the epoch has ended after {} of {} batches, and all ranks were to "
                              "get {}: samples were left out (stats() counts them)",
                              handed_out_, own_, *target_));
    }
    const std::span<const Sample> first = first_.rebuild(*source_);
    batch = first[static_cast<std::size_t>(std::max<std::int64_t>(handed_out_ - own_, 0)) %
                  first.size()];
  }
  if (++handed_out_ >= *target_) {
    try {
      reach_end_of_source();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  return batch;
}

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
  registration_.reset();
  ++epoch_;
  begun_ = false;
  handed_out_ = 0;
  source_ended_ = false;
  first_.clear();
  return std::nullopt;
}

bool ShardAdapter::end_of_dataloader() {
  if (!begun_) {
    return false;
  }
  return target_ ? handed_out_ >= *target_ : ahead_.last();
}

State ShardAdapter::save_state() {
  const bool at_end = end_of_dataloader();
  // The position after the source's last batch is that of its end, also if filling is to follow.
  State state =
      at_end ? shard_state(epoch_ + 1, 0, false, FirstBatches().save())
             : shard_state(epoch_, handed_out_, source_ended_ || ahead_.last(), first_.save());
  state.children[0] = ahead_.state();
  return state;
}

void ShardAdapter::restore_state(const State& state) {
  check_shape(state, shard_state(0, 0, false, {}));
  FirstBatches first;
  first.restore(state.bytes("first_batches"));
  source_->restore_state(state.children[0]);
  ahead_.reset();
  registration_.reset();
  begun_ = false;
  failure_ = nullptr;
  epoch_ = state.integer("epoch");
  handed_out_ = state.integer("batches");
  source_ended_ = state.integer("source_ended") != 0;
  first_ = std::move(first);
}

std::optional<std::int64_t> ShardAdapter::size() { return target_ ? target_ : source_->size(); }

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
