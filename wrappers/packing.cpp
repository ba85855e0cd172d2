#include "wrappers/packing.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "wrappers/combine.h"
#include "wrappers/saved_samples.h"

namespace energon {
namespace {

constexpr std::int64_t kMaxBufferSize = std::int64_t{1} << 24;
// Read together, so that a first filling does not hold the whole buffer before it is limited.
constexpr std::int64_t kReadTogether = 1024;

// Throws Error (kInvalidArgument) unless each position is below `count` and comes once.
void check_selection(const std::vector<std::vector<std::size_t>>& selection, std::size_t count,
                     std::int64_t number) {
  std::vector<bool> is_taken(count);
  for (const std::vector<std::size_t>& pack : selection) {
    for (const std::size_t position : pack) {
      if (position >= count || is_taken[position]) {
        throw Error(
            ErrorCode::kInvalidArgument,
            fmt::format("selection {} names position {}, {} of a buffer of {} samples", number,
                        position, position >= count ? "which is none" : "a second time", count));
      }
      is_taken[position] = true;
    }
  }
}

// Removes the samples at `positions`, at least one, and returns what a report says of them.
std::vector<FailedSample> remove_samples(std::vector<Sample>& samples,
                                         const std::vector<std::size_t>& positions) {
  if (positions.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "a select function says that samples are unpackable, but not which");
  }
  std::vector<bool> is_removed(samples.size());
  for (const std::size_t position : positions) {
    is_removed[position] = true;
  }
  std::vector<FailedSample> removed;
  std::vector<Sample> kept;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (is_removed[i]) {
      std::ranges::move(failed_samples(samples[i]), std::back_inserter(removed));
    } else {
      kept.push_back(std::move(samples[i]));
    }
  }
  samples = std::move(kept);
  return removed;
}

}  // namespace

Packing::Packing(std::unique_ptr<Dataset> inner, PackingOptions options)
    : inner_(std::move(inner)),
      options_(std::move(options)),
      select_guard_(options_.select_stage),
      postencode_guard_(options_.postencode_stage),
      pack_guard_(options_.pack_stage),
      budget_{options_.max_held_bytes},
      waiting_(*inner_, budget_),
      selected_(*inner_, budget_) {
  if (!options_.select || !options_.pack) {
    throw Error(ErrorCode::kInvalidArgument, "packing needs a select and a pack function");
  }
  if (options_.buffer_size < 1 || options_.buffer_size > kMaxBufferSize || options_.tolerance < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("packing buffer size is {} and tolerance {}, they must be from 1 to {} "
                            "and not negative",
                            options_.buffer_size, options_.tolerance, kMaxBufferSize));
  }
}

std::optional<Sample> Packing::next() {
  while (true) {
    const bool is_end = !fill();
    if (lengths_.empty()) {
      if (waiting_.empty()) {
        return std::nullopt;
      }
      select();
      if (lengths_.empty()) {
        if (!is_end && ++empty_selections_ > options_.tolerance) {
          throw Error(
              ErrorCode::kInvalidArgument,
              fmt::format("stage '{}' made no pack of {} buffers of {} samples in a row, the "
                          "tolerance is {}",
                          select_guard_.name(), empty_selections_, options_.buffer_size,
                          options_.tolerance));
        }
        continue;
      }
    }
    empty_selections_ = 0;
    if (auto pack = next_pack()) {
      return pack;
    }
  }
}

// False: the inner epoch is over.
bool Packing::fill() {
  while (true) {
    const auto buffered = static_cast<std::int64_t>(waiting_.size() + selected_.size());
    const std::int64_t missing = std::min(options_.buffer_size - buffered, kReadTogether);
    if (missing <= 0) {
      return true;
    }
    std::vector<Sample> samples;
    inner_->next_many(missing, samples);
    for (Sample& sample : samples) {
      waiting_.push_back(std::move(sample));
    }
    if (static_cast<std::int64_t>(samples.size()) < missing) {
      return false;
    }
  }
}

// Moves what is selected of the waiting samples to the packs, and drops the others.
void Packing::select() {
  std::vector<Sample> samples = waiting_.take_front(waiting_.size());
  const std::vector<std::vector<std::size_t>> selection = run_select(samples);
  std::size_t taken = 0;
  for (const std::vector<std::size_t>& pack : selection) {
    for (const std::size_t position : pack) {
      selected_.push_back(std::move(samples[position]));
    }
    if (!pack.empty()) {
      lengths_.push_back(static_cast<std::int64_t>(pack.size()));
    }
    taken += pack.size();
  }
  if (taken < samples.size()) {
    select_guard_.count_skipped(samples.size() - taken);
  }
}

// Calls select until it names no more unpackable samples, which are removed. If it fails, all are.
std::vector<std::vector<std::size_t>> Packing::run_select(std::vector<Sample>& samples) {
  const std::int64_t number = selections_++;
  while (!samples.empty()) {
    std::vector<std::vector<std::size_t>> selection;
    try {
      selection = options_.select(samples);
    } catch (const UnpackableSamples& unpackable) {
      check_selection({unpackable.positions()}, samples.size(), number);
      select_guard_.handle(std::current_exception(),
                           remove_samples(samples, unpackable.positions()), false);
      continue;
    } catch (...) {
      std::vector<FailedSample> failed = failed_samples(samples);
      samples.clear();
      select_guard_.handle(std::current_exception(), std::move(failed), false);
      return {};
    }
    check_selection(selection, samples.size(), number);
    select_guard_.succeed();
    return selection;
  }
  return {};
}

// Nothing: the pack, or all of its samples, failed.
std::optional<Sample> Packing::next_pack() {
  std::vector<Sample> samples = selected_.take_front(static_cast<std::size_t>(lengths_.front()));
  lengths_.pop_front();
  if (options_.postencode) {
    samples = postencode(std::move(samples));
  }
  if (samples.empty()) {
    return std::nullopt;
  }
  const std::int64_t number = packs_++;
  return pack_guard_.run([&] { return make_pack(samples, number); },
                         [&] { return failed_samples(samples); });
}

std::vector<Sample> Packing::postencode(std::vector<Sample> samples) {
  std::vector<Sample> encoded;
  for (Sample& sample : samples) {
    const std::int64_t call = postencodes_++;
    const Sample origins = origins_of(sample);
    std::optional<Sample> result = postencode_guard_.run(
        [&] {
          return call_map(options_.postencode, std::move(sample), options_.postencode_stage.seed,
                          call);
        },
        [&] { return failed_samples(origins); });
    if (result) {
      encoded.push_back(std::move(*result));
    }
  }
  return encoded;
}

Sample Packing::make_pack(std::span<Sample> samples, std::int64_t number) const {
  Sample pack;
  pack.restore_key = RestoreKey::list(Stage::kPacking, {number}, restore_keys(samples));
  CallContext context(options_.pack_stage.seed, pack.restore_key, number);
  pack.fields = options_.pack(samples, context);
  move_origins(samples, pack);
  return pack;
}

void Packing::next_epoch() {
  waiting_.clear();
  selected_.clear();
  lengths_.clear();
  empty_selections_ = 0;
  inner_->next_epoch();
}

Sample Packing::restore_sample(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kPacking, 1, -1);
  std::vector<Sample> samples;
  for (const RestoreKey& inner : parts.inner) {
    if (!options_.postencode) {
      samples.push_back(inner_->restore_sample(inner));
      continue;
    }
    const RestoreKeyParts call = split_key(inner, Stage::kMap, 1, 1);
    samples.push_back(call_map(options_.postencode, inner_->restore_sample(call.inner[0]),
                               options_.postencode_stage.seed, call.integers[0]));
  }
  return make_pack(samples, parts.integers[0]);
}

State Packing::save_state() const {
  return {"Packing",
          {{"selections", selections_},
           {"postencodes", postencodes_},
           {"packs", packs_},
           {"waiting", waiting_.save()},
           {"selected", selected_.save()},
           {"lengths", std::vector<std::int64_t>(lengths_.begin(), lengths_.end())}},
          {inner_->save_state()}};
}

void Packing::check_state(const State& state, std::vector<std::string>& differences) const {
  for (const char* counter : {"selections", "postencodes", "packs"}) {
    if (state.integer(counter) < 0) {
      differences.push_back(fmt::format("Packing: {} {}", state.integer(counter), counter));
    }
  }
  try {
    const auto waiting = static_cast<std::int64_t>(decode_keys(state.bytes("waiting")).size());
    const auto selected = static_cast<std::int64_t>(decode_keys(state.bytes("selected")).size());
    if (waiting + selected > options_.buffer_size) {
      differences.push_back(fmt::format("Packing: {} buffered samples, at most {} fit",
                                        waiting + selected, options_.buffer_size));
    }
    std::int64_t left = selected;
    for (const std::int64_t length : state.integers("lengths")) {
      if (length < 1 || length > left) {
        left = -1;
        break;
      }
      left -= length;
    }
    if (left != 0) {
      differences.push_back(
          fmt::format("Packing: the packs' lengths do not add up to {} samples", selected));
    }
  } catch (const Error& error) {
    differences.push_back("Packing: " + error.message());
  }
  check(*inner_, state.children[0], differences);
}

void Packing::apply_state(const State& state) {
  selections_ = state.integer("selections");
  postencodes_ = state.integer("postencodes");
  packs_ = state.integer("packs");
  waiting_.restore(state.bytes("waiting"));
  selected_.restore(state.bytes("selected"));
  const std::vector<std::int64_t>& lengths = state.integers("lengths");
  lengths_.assign(lengths.begin(), lengths.end());
  empty_selections_ = 0;
  apply(*inner_, state.children[0]);
}

Config Packing::config() const {
  return {{"type", "Packing"},
          {"buffer_size", options_.buffer_size},
          {"postencode", options_.postencode ? options_.postencode_stage.name : ""},
          {"seed", options_.pack_stage.seed},
          {"inner", inner_->config()}};
}

}  // namespace energon
