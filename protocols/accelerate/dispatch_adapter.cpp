#include "protocols/accelerate/dispatch_adapter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "io/error.h"
#include "protocols/accelerate/dispatch_part.h"

namespace energon {

// --- BatchGroups ---

BatchGroups::BatchGroups(BatchSource& source, std::int64_t batches, bool drop_last)
    : source_(source), batches_(batches), drop_last_(drop_last), ahead_(source) {}

std::optional<BatchGroups::Group> BatchGroups::next() {
  Group group;
  while (static_cast<std::int64_t>(group.batches.size()) < batches_) {
    // If the epoch ends within a group, the next call returns the end.
    if (!group.batches.empty() && ahead_.last()) {
      break;
    }
    std::optional<Sample> batch = ahead_.next();
    if (!batch) {
      full_samples_ = 0;
      return std::nullopt;
    }
    if (sample_count(*batch) == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "cannot dispatch a batch without samples (its list of keys is empty)");
    }
    group.samples += sample_count(*batch);
    group.batches.push_back(std::move(*batch));
  }
  check_concatenation(group.batches);
  if (full_samples_ == 0) {
    full_samples_ = group.samples;
  }
  const bool incomplete =
      static_cast<std::int64_t>(group.batches.size()) < batches_ || group.samples < full_samples_;
  if (drop_last_ && incomplete && ahead_.last()) {
    ahead_.next();
    full_samples_ = 0;
    return std::nullopt;
  }
  return group;
}

std::optional<std::int64_t> BatchGroups::batches_left() const {
  const std::optional<std::int64_t> left = source_.batches_left();
  return left ? std::optional(ahead_.left(*left)) : left;
}

void BatchGroups::restored(std::int64_t full_samples) {
  ahead_.reset();
  full_samples_ = full_samples;
}

// --- DispatchAdapter ---

namespace {

constexpr const char* kDispatchType = "Dispatch";

State dispatch_node(std::int64_t epoch, std::int64_t batches, std::int64_t full_samples,
                    std::string first_batches, std::pair<std::string, StateValue> settings) {
  return {kDispatchType,
          {{"epoch", epoch},
           {"batches", batches},
           {"full_samples", full_samples},
           {"first_batches", std::move(first_batches)},
           std::move(settings)},
          {}};
}

}  // namespace

DispatchAdapter::DispatchAdapter(std::shared_ptr<BatchSource> source, Comm& comm,
                                 const DispatchOptions& options)
    : source_(std::move(source)), comm_(comm), options_(options) {
  if ((source_ != nullptr) != (comm.rank() == 0)) {
    throw Error(ErrorCode::kInvalidArgument,
                source_ ? fmt::format("rank {} has a source, but only rank 0 reads", comm.rank())
                        : "rank 0 reads for all ranks and needs a source");
  }
  if (source_) {
    groups_ = std::make_unique<BatchGroups>(*source_, options.split_batches ? 1 : comm.size(),
                                            options.drop_last);
    ahead_ = std::make_unique<LookAhead<BatchGroups>>(*groups_);
    epoch_ = source_->epoch();
  }
}

std::optional<Sample> DispatchAdapter::next() {
  std::optional<DispatchPart> part = advance(0);
  while (part && part->kind == DispatchKind::kSkipped) {
    part = advance(0);  // rank 0 has skipped; this rank follows
  }
  if (!part) {
    return std::nullopt;
  }
  return std::move(part->batch);
}

std::int64_t DispatchAdapter::skip(std::int64_t count) {
  std::int64_t skipped = 0;
  while (skipped < count) {
    const std::optional<DispatchPart> part = advance(count - skipped);
    if (!part) {
      break;
    }
    skipped += part->groups;
  }
  return skipped;
}

// Delivers one group, or skips at least one and at most `to_skip`.
std::optional<DispatchPart> DispatchAdapter::advance(std::int64_t to_skip) {
  DispatchPart part;
  try {
    part =
        source_ ? send_parts(deal_or_fail(to_skip), comm_, memory_) : receive_part(comm_, memory_);
  } catch (const Error&) {
    take_back_group();
    throw;
  }
  if (part.kind == DispatchKind::kFailure) {
    take_back_group();
    throw decode_error(part.failure);
  }
  dealing_.reset();
  epoch_ = part.epoch;
  handed_out_ = part.handed_out;
  last_ = part.last;
  if (part.kind == DispatchKind::kEnd) {
    ++epoch_;
    handed_out_ = 0;
    first_.clear();
    return std::nullopt;
  }
  remainder_ = part.last ? std::optional(part.group_samples) : std::nullopt;
  handed_out_ += part.groups;
  return part;
}

// On rank 0: like deal(), but any exception becomes the part of every rank, so that no rank is left
// waiting.
std::vector<DispatchPart> DispatchAdapter::deal_or_fail(std::int64_t to_skip) {
  const auto ranks = static_cast<std::size_t>(comm_.size());
  std::vector<DispatchPart> parts;
  try {
    parts = deal(to_skip);
  } catch (...) {
    parts = failed_parts(ranks, to_error(std::current_exception(), "the source"));
  }
  for (DispatchPart& part : parts) {
    part.epoch = epoch_;
    part.handed_out = handed_out_;
  }
  return parts;
}

// How many of the next `count` groups can be skipped without being drawn.
std::int64_t DispatchAdapter::groups_to_skip_unread(std::int64_t count) {
  const bool knows_first = comm_.size() == 1 || first_.samples() >= comm_.size();
  const bool knows_full = !options_.drop_last || groups_->full_samples() > 0;
  const std::optional<std::int64_t> left =
      knows_first && knows_full ? groups_->batches_left() : std::nullopt;
  if (!left) {
    return 0;
  }
  const std::int64_t groups = ahead_->left(*left / groups_->batches_in_group());
  return std::clamp<std::int64_t>(groups - 1, 0, count);
}

// On rank 0: what each rank gets of the next group, or of the groups that are skipped.
std::vector<DispatchPart> DispatchAdapter::deal(std::int64_t to_skip) {
  std::vector<DispatchPart> parts(static_cast<std::size_t>(comm_.size()));
  if (const std::int64_t unread = groups_to_skip_unread(to_skip); unread > 0) {
    const std::int64_t groups = ahead_->skip(unread);
    for (DispatchPart& part : parts) {
      part.kind = groups == unread ? DispatchKind::kSkipped : DispatchKind::kEnd;
      part.groups = groups;
    }
    return parts;
  }
  draw_group();
  if (!dealing_) {
    return parts;
  }
  const bool last = ahead_->last();
  for (DispatchPart& part : parts) {
    part.kind = DispatchKind::kSkipped;
    part.last = last;
    part.group_samples = dealing_->samples;
  }
  if (to_skip == 0) {
    std::vector<Sample> batches = cut(*dealing_, last);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      parts[rank].kind = DispatchKind::kBatch;
      parts[rank].batch = std::move(batches[rank]);
    }
  }
  return parts;
}

// Draws the next group into dealing_. Keeps the first batches of an epoch, as many as the padding
// of its last group may need.
void DispatchAdapter::draw_group() {
  ahead_->draw(1);
  dealing_ = ahead_->next();
  if (!dealing_) {
    return;
  }
  first_before_.reset();
  if (first_.samples() < comm_.size()) {
    first_before_ = first_;
  }
  for (const Sample& batch : dealing_->batches) {
    if (first_.samples() < comm_.size()) {
      first_.add(batch);
    }
  }
}

// A group that was drawn but not sent to all ranks becomes the next group again.
void DispatchAdapter::take_back_group() {
  if (dealing_) {
    ahead_->give_back(std::move(*dealing_));
    dealing_.reset();
    if (first_before_) {
      first_ = std::move(*first_before_);
    }
  }
}

// The batch of each rank. The last group is padded with the first batches of the epoch.
std::vector<Sample> DispatchAdapter::cut(const BatchGroups::Group& group, bool last) {
  const std::int64_t ranks = comm_.size();
  if (!last && !options_.split_batches) {
    return group.batches;
  }
  std::vector<Sample> batches = group.batches;
  std::int64_t samples = group.samples;
  if (last && samples % ranks != 0) {
    const std::span<const Sample> first = first_.rebuild(*source_);
    const std::int64_t available = std::min(first_.samples(), ranks);
    while (samples % ranks != 0) {
      const std::int64_t missing = std::min(ranks - samples % ranks, available);
      batches.push_back(slice_batches(first, 0, missing));
      samples += missing;
    }
    check_concatenation(batches);
  }
  if (samples < ranks) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("a batch of {} samples cannot be split among {} ranks, and only the last "
                    "one of an epoch is padded: use larger batches, or drop batches that "
                    "are not full",
                    samples, ranks));
  }
  std::vector<Sample> parts;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    parts.push_back(slice_batches(batches, rank * samples / ranks, (rank + 1) * samples / ranks));
  }
  return parts;
}

Config DispatchAdapter::settings() const {
  Config settings = {{"split_batches", options_.split_batches}, {"drop_last", options_.drop_last}};
  if (options_.drop_last) {
    settings["ranks"] = comm_.size();  // decides which samples are dropped
  }
  return settings;
}

SavableDataLoaderState DispatchAdapter::save_state_rank() {
  const std::int64_t full_samples = groups_ && handed_out_ > 0 ? groups_->full_samples() : 0;
  const bool at_end = last_ && handed_out_ > 0;
  const EpochStep at = at_end ? EpochStep{epoch_ + 1, 0} : EpochStep{epoch_, handed_out_};
  State node =
      dispatch_node(at.epoch, at.step, at_end ? 0 : full_samples,
                    at_end ? FirstBatches().save() : first_.save(), settings_field(settings()));
  return ahead_ ? put_over(std::move(node), ahead_->state())
                : source_state(std::move(node), at,
                               {.rank = comm_.rank(), .world_size = comm_.size()});
}

void DispatchAdapter::restore_state_rank(const SavableDataLoaderState& state) {
  const State expected = dispatch_node(0, 0, 0, {}, settings_field({}));
  Parts parts;
  if (source_) {
    parts = take_apart(state, kDispatchType);
  } else {
    parts.node = source_position_in(state, kDispatchType);
  }
  check_settings(parts.node, expected, settings());
  FirstBatches first;
  first.restore(parts.node.bytes("first_batches"));
  if (source_) {
    stop_and_restore(*source_, parts.source);
    groups_->restored(parts.node.integer("full_samples"));
    ahead_->reset();
  }
  last_ = false;
  remainder_.reset();
  epoch_ = parts.node.integer("epoch");
  handed_out_ = parts.node.integer("batches");
  first_ = std::move(first);
  dealing_.reset();
}

Config DispatchAdapter::state_config() {
  return source_ ? source_->state_config() : BatchSource::state_config();
}

void DispatchAdapter::stop() {
  if (source_) {
    source_->stop();
  }
}

std::vector<std::string> DispatchAdapter::warnings() const {
  return source_ ? source_->warnings() : std::vector<std::string>();
}

std::optional<std::int64_t> DispatchAdapter::size() const {
  const std::optional<std::int64_t> batches = source_ ? source_->size() : std::nullopt;
  if (!batches || options_.split_batches) {
    return batches;
  }
  const std::int64_t ranks = comm_.size();
  return options_.drop_last ? *batches / ranks : (*batches + ranks - 1) / ranks;
}

void DispatchAdapter::set_epoch(std::int64_t epoch) {
  if (handed_out_ > 0) {
    throw Error(ErrorCode::kInvalidArgument, "set_epoch() was called within an epoch");
  }
  if (source_) {
    source_->set_epoch(epoch);
  }
  epoch_ = epoch;
}

}  // namespace energon
