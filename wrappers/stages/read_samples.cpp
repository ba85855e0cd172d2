#include "wrappers/stages/read_samples.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

// --- CommonBuffers ---

namespace {

constexpr std::size_t kPartAlignment = 64;

}  // namespace

Buffer CommonBuffers::allocate(std::size_t size) {
  if (size > kLargestPart) {
    return buffers_.allocate(size);
  }
  if (rest_.bytes.size() < size) {
    rest_ = buffers_.allocate(kBufferBytes);
  }
  Buffer part{.bytes = rest_.bytes.first(size), .owner = rest_.owner};
  const std::size_t taken = (size + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  rest_.bytes = rest_.bytes.subspan(std::min(taken, rest_.bytes.size()));
  return part;
}

// --- ReadSamples ---

namespace {

// Describes an unreadable sample. The reader has its place; the error has its key if the key was
// read.
FailedSample describe_failed(LeafReader& reader, std::int64_t index,
                             const std::exception_ptr& thrown) {
  FailedSample failed = reader.describe(index);
  if (failed.key.empty()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      failed.key = error.context().sample_key.value_or("");
    } catch (...) {
      // Thrown by a function of the user, so without a key.
    }
  }
  return failed;
}

// The share of a pipeline in one leaf, by the ranges of its order.
class ShareOfOrder final : public LeafShare {
 public:
  ShareOfOrder(const LeafRanges& ranges, std::uint32_t leaf) : ranges_(ranges), leaf_(leaf) {}

  std::int64_t end_of_part(std::int64_t index) const override {
    return ranges_.end_of_range(leaf_, index);
  }

 private:
  const LeafRanges& ranges_;
  const std::uint32_t leaf_;
};

}  // namespace

ReadSamples::ReadSamples(std::unique_ptr<Order> order,
                         std::vector<std::shared_ptr<const LeafDataset>> leaves,
                         BufferAllocator& allocator, const StageOptions& options,
                         const std::shared_ptr<LeafReaders>& readers)
    : order_(std::move(order)),
      leaves_(std::move(leaves)),
      allocator_(allocator),
      common_(allocator),
      guard_(options),
      most_unread_(options.most_left_out) {
  readers_.reserve(leaves_.size());
  std::int64_t samples = 0;
  for (const auto& leaf : leaves_) {
    readers_.push_back(readers->of(leaf));
    samples += leaf->sample_count();
    has_excluded_ = has_excluded_ || !leaf->excluded_in_place().empty();
  }
  most_unread_ = std::max(most_unread_, samples);
  constexpr std::int64_t kPasses = 25;  // random draws may miss a sample in some passes
  most_excluded_ = std::max(most_unread_, kPasses * samples);
}

std::optional<Sample> ReadSamples::next() {
  one_.clear();
  next_many(1, one_);
  return one_.empty() ? std::nullopt : std::optional(std::move(one_.front()));
}

void ReadSamples::next_many(std::int64_t count, std::vector<Sample>& samples) {
  const std::size_t end = samples.size() + static_cast<std::size_t>(count);
  // A single leaf is read at once, so its samples share a buffer anyway.
  BufferAllocator& allocator = count > 1 && leaves_.size() > 1 ? common_ : allocator_;
  bool is_end = false;
  while (samples.size() < end && !is_end) {
    // Consecutive references of one leaf are read together.
    std::uint32_t leaf = 0;
    indexes_.clear();
    for (std::size_t wanted = end - samples.size(); wanted > 0; --wanted) {
      const auto ref = order_->next();
      if (!ref) {
        is_end = true;
        break;
      }
      if (ref->leaf != leaf) {
        read_run(leaf, allocator, samples);
        leaf = ref->leaf;
      }
      if (!is_excluded(leaf, ref->index) && !is_known_broken(leaf, ref->index)) {
        indexes_.push_back(ref->index);
      }
    }
    read_run(leaf, allocator, samples);
  }
  common_.end_batch();
}

std::optional<Sample> ReadSamples::read_instead(Replacement& replacement, SampleRef left_out,
                                                std::int64_t in_a_row) {
  constexpr std::int64_t kMostInARow =
      1000;  // maximum number of samples read for one place of a batch
  const std::int64_t most = std::min(kMostInARow, replacement.replaceable(left_out.leaf));
  std::vector<Sample> samples;
  while (samples.empty() && in_a_row++ < most) {
    const auto ref = replacement.replace(left_out);
    if (!ref) {
      break;
    }
    left_out = *ref;
    if (!is_excluded(ref->leaf, ref->index) && !is_known_broken(ref->leaf, ref->index)) {
      indexes_.push_back(ref->index);
      read_run(ref->leaf, allocator_, samples);
    }
  }
  return samples.empty() ? std::nullopt : std::optional(std::move(samples.front()));
}

void ReadSamples::read_run(std::uint32_t leaf, BufferAllocator& allocator,
                           std::vector<Sample>& samples) {
  if (indexes_.empty()) {
    return;
  }
  if (leaf >= readers_.size()) {
    throw Error(ErrorCode::kInternal,
                fmt::format("reference to leaf {} of {}", leaf, readers_.size()));
  }
  const std::size_t first = samples.size();
  try {
    if (order_->has_runs()) {
      readers_[leaf]->read_in_share(indexes_, ShareOfOrder(ranges(), leaf), allocator, samples);
    } else {
      readers_[leaf]->read(indexes_, allocator, samples);
    }
    guard_.succeed();
    unread_in_a_row_ = 0;
    for (std::size_t i = 0; i < indexes_.size(); ++i) {
      samples[first + i].restore_key = RestoreKey::leaf(Stage::kWebdataset, {leaf, indexes_[i]});
    }
  } catch (const Error& error) {
    if (!guard_.may_pass(error)) {
      throw;
    }
    read_one_by_one(leaf, samples);
  } catch (const std::exception&) {
    read_one_by_one(leaf, samples);  // thrown by a function of the user; the guard decides
  }
  indexes_.clear();
}

// After a failed read: skips the unreadable samples and returns the others.
void ReadSamples::read_one_by_one(std::uint32_t leaf, std::vector<Sample>& samples) {
  LeafReader& reader = *readers_[leaf];
  for (const std::int64_t index : indexes_) {
    if (is_known_broken(leaf, index)) {
      continue;
    }
    try {
      reader.read({&index, 1}, allocator_, samples);
      samples.back().restore_key = RestoreKey::leaf(Stage::kWebdataset, {leaf, index});
      guard_.succeed();
      unread_in_a_row_ = 0;
    } catch (...) {
      const std::exception_ptr thrown = std::current_exception();
      const std::optional<std::int64_t> broken = reader.broken_file(index);
      guard_.handle(thrown, {describe_failed(reader, index, thrown)}, broken.has_value());
      if (broken) {
        broken_files_.insert({leaf, *broken});
      }
      count_unread();
    }
  }
}

// Counts the sample if it is excluded.
bool ReadSamples::is_excluded(std::uint32_t leaf, std::int64_t index) {
  if (!has_excluded_ || leaf >= leaves_.size() || Replay::is_running()) {
    return false;
  }
  const std::vector<std::int64_t>& excluded = leaves_[leaf]->excluded_in_place();
  if (!std::binary_search(excluded.begin(), excluded.end(), index)) {
    excluded_in_a_row_ = 0;
    return false;
  }
  if (++excluded_in_a_row_ == 1) {
    check_has_samples();
  } else if (excluded_in_a_row_ >= most_excluded_ && !order_->size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} samples in a row are excluded by exclude_files, although they "
                            "include every sample that is drawn",
                            excluded_in_a_row_));
  }
  guard_.count_skipped(1);
  return true;
}

// Without a sample that is not excluded, an order that does not end would be drawn forever.
void ReadSamples::check_has_samples() {
  std::vector<LeafRange> all;
  if (has_samples_ || order_->size() || !order_->list_ranges(all)) {
    return;
  }
  std::int64_t samples = 0;
  for (const LeafRange& range : all) {
    const LeafDataset& leaf = *leaves_.at(range.leaf);
    std::vector<std::int64_t> excluded;
    std::ranges::set_union(leaf.excluded(), leaf.excluded_in_place(), std::back_inserter(excluded));
    const auto count_before = [&](std::int64_t end) {
      return std::ranges::lower_bound(excluded, end) - excluded.begin();
    };
    samples += range.end - range.begin;
    if (count_before(range.end) - count_before(range.begin) < range.end - range.begin) {
      has_samples_ = true;
      return;
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("all {} samples of this share of the data are excluded by exclude_files",
                          samples));
}

// Counts the sample if it is skipped.
bool ReadSamples::is_known_broken(std::uint32_t leaf, std::int64_t index) {
  const bool is_broken =
      std::any_of(broken_files_.begin(), broken_files_.end(), [&](const auto& broken) {
        return broken.first == leaf && readers_[leaf]->needs_file(index, broken.second);
      });
  if (!is_broken) {
    return false;
  }
  guard_.count_failed(1);
  count_unread();
  return true;
}

void ReadSamples::count_unread() {
  ++unread_in_a_row_;
  if (unread_in_a_row_ >= most_unread_) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("none of {} samples in a row could be read, although they include every sample",
                    unread_in_a_row_));
  }
}

Sample ReadSamples::restore_sample(const RestoreKey& key) {
  const SampleRef place = place_of(key);
  std::vector<Sample> samples;
  readers_[place.leaf]->read({&place.index, 1}, allocator_, samples);
  samples.front().restore_key = key;
  return std::move(samples.front());
}

void ReadSamples::check_key(const RestoreKey& key) const {
  const SampleRef place = place_of(key);
  if (!ranges().may_have(place.leaf, place.index)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("restore key '{}' refers to sample {} of leaf {}, which does not "
                            "belong to this logical shard",
                            key.text(), place.index, place.leaf));
  }
}

const LeafRanges& ReadSamples::ranges() const {
  if (!ranges_) {
    ranges_.emplace(*order_);
  }
  return *ranges_;
}

// Throws Error (kInvalidArgument) if the sample does not exist.
SampleRef ReadSamples::place_of(const RestoreKey& key) const {
  const RestoreKeyParts parts = split_key(key, Stage::kWebdataset, 2, 0);
  const std::int64_t leaf = parts.integers[0];
  if (leaf >= static_cast<std::int64_t>(leaves_.size())) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("restore key '{}' refers to leaf {}, but the pipeline has {}",
                            key.text(), leaf, leaves_.size()));
  }
  const std::int64_t samples = leaves_[static_cast<std::size_t>(leaf)]->sample_count();
  if (parts.integers[1] >= samples) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("restore key '{}' refers to sample {}, but leaf {} has {} samples",
                            key.text(), parts.integers[1], leaf, samples));
  }
  return {.index = parts.integers[1], .leaf = static_cast<std::uint32_t>(leaf)};
}

State ReadSamples::save_state() const { return {"ReadSamples", {}, {order_->save_state()}}; }

void ReadSamples::check_state(const State& state, std::vector<std::string>& differences) const {
  check(*order_, state.children[0], differences);
}

void ReadSamples::apply_state(const State& state) { apply(*order_, state.children[0]); }

Config ReadSamples::config() const {
  Config leaves = Config::array();
  for (const auto& leaf : leaves_) {
    leaves.push_back(leaf->config());
  }
  return {{"type", "ReadSamples"}, {"leaves", std::move(leaves)}, {"order", order_->config()}};
}

}  // namespace energon
