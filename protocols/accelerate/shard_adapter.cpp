#include "protocols/accelerate/shard_adapter.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/distributed/rank_agreement.h"
#include "io/error.h"
#include "io/json.h"

namespace energon {

// --- How ranks that end an epoch together agree on its length ---
//
// Each rank sends the others its number of batches, and a digest of what all ranks must share. A
// rank that does not know its number sends the reason instead, so that no rank waits for it.

namespace {

// What a rank contributes to an epoch.
struct EpochShare {
  std::optional<std::int64_t> batches;  // nullopt if not known
  BoxedJson common_settings;            // of its source
};

// Numbers of batches in an epoch.
struct EpochLengths {
  std::int64_t of_rank = 0;  // of this rank
  std::int64_t fewest = 0;   // of the rank with the fewest
  std::int64_t most = 0;     // of the rank with the most
};

// The share of a rank, as received by the others.
struct ToldShare {
  std::optional<std::int64_t> batches;
  std::string digest;  // of the common settings
};

// Calls `share_of_rank`. The reply holds the number of batches, which is empty if it is not known,
// a space and the digest.
std::string epoch_reply(const std::function<EpochShare()>& share_of_rank, EpochShare& share) {
  try {
    share = share_of_rank();
    const std::string number = share.batches ? std::to_string(*share.batches) : "";
    return success(fmt::format("{} {}", number, agreement_digest(share.common_settings)));
  } catch (...) {
    return failure(to_error(std::current_exception(), ""));
  }
}

ToldShare told_share(std::string_view text) {
  const std::size_t space = text.find(' ');
  ToldShare share;
  if (space > 0) {
    share.batches = std::stoll(std::string(text.substr(0, space)));
  }
  share.digest = text.substr(space + 1);
  return share;
}

// The shares by rank. Throws the Error of the first rank that sent one.
std::vector<ToldShare> told_shares(const std::vector<std::string>& replies) {
  std::vector<ToldShare> shares;
  shares.reserve(replies.size());
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    shares.push_back(told_share(result_of(rank, replies[rank])));
  }
  return shares;
}

void check_all_numbers_known(const std::vector<ToldShare>& shares) {
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    if (!shares[rank].batches) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("rank {} does not know how many batches its epoch has left, so the ranks "
                      "cannot end together: give epochs a length "
                      "(virtual_epoch_length) or leave out even_batches and drop_last",
                      rank));
    }
  }
}

// All ranks call it together. `share_of_rank` returns the share of this rank, or throws. Throws the
// same Error on every rank: that of the first rank whose `share_of_rank` threw; kInvalidArgument if
// a rank does not know its number of batches; kMismatch with the differences if the common settings
// differ. Throws Error of the Comm.
EpochLengths agree_on_epoch(Comm& comm, const std::function<EpochShare()>& share_of_rank) {
  EpochShare share;
  const std::vector<ToldShare> shares =
      told_shares(comm.all_gather(epoch_reply(share_of_rank, share)));
  check_all_numbers_known(shares);
  const bool agree = std::all_of(shares.begin(), shares.end(), [&](const ToldShare& other) {
    return other.digest == shares.front().digest;
  });
  if (!agree) {
    explain_disagreement(comm, share.common_settings);
  }
  const auto [fewest, most] = std::minmax_element(
      shares.begin(), shares.end(),
      [](const ToldShare& a, const ToldShare& b) { return *a.batches < *b.batches; });
  return {*share.batches, *fewest->batches, *most->batches};
}

}  // namespace

// --- ShardAdapter ---

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
                "even_batches and drop_last make all ranks end together, which needs a comm");
  }
}

void ShardAdapter::begin() {
  if ((!begun_ || failure_) && together()) {
    agree_on_size();
  }
  begun_ = true;
}

// Batches of the source in this epoch, including those already delivered.
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
                "a rank has no batch to repeat, because there is less data than ranks: use "
                "fewer ranks, smaller batches, or drop_last");
  }
  rank_batches_ = lengths.of_rank;
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

// nullopt if this rank has delivered all of its own batches, or if the source has ended early.
std::optional<Sample> ShardAdapter::next_of_source() {
  if (handed_out_ >= rank_batches_) {
    return std::nullopt;
  }
  std::optional<Sample> batch;
  if (!source_ended_) {
    batch = ahead_.next();
  }
  if (!batch) {
    source_ended_ = true;
  } else if (options_.even_batches &&
             first_.count() < std::max<std::int64_t>(*target_ - rank_batches_, 1)) {
    first_.add(*batch);
  }
  return batch;
}

// One of the first batches of the epoch, which pad its end.
Sample ShardAdapter::next_repeated() {
  if (options_.drop_last || first_.count() == 0) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the epoch ended after {} of {} batches, but all ranks should "
                            "get {}: samples were left out (stats() counts them)",
                            handed_out_, rank_batches_, *target_));
  }
  const std::span<const Sample> first = first_.rebuild(*source_);
  const std::int64_t repeated = std::max<std::int64_t>(handed_out_ - rank_batches_, 0);
  repeated_ = repeated + 1;
  return first[static_cast<std::size_t>(repeated) % first.size()];
}

// Drops the batches that are left because other ranks have fewer.
void ShardAdapter::reach_end_of_source() {
  for (std::int64_t left_out = rank_batches_ - handed_out_; !source_ended_; --left_out) {
    source_ended_ = !ahead_.next();
    if (!source_ended_ && left_out <= 0) {
      throw Error(
          ErrorCode::kMismatch,
          fmt::format("the source has more than the {} batches that it reported for an epoch, so "
                      "the ranks cannot end together",
                      rank_batches_));
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
    throw Error(ErrorCode::kInvalidArgument, "set_epoch() was called within an epoch");
  }
  source_->set_epoch(epoch);
  epoch_ = epoch;
}

}  // namespace energon
