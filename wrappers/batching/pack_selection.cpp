#include "wrappers/batching/pack_selection.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <iterator>
#include <numeric>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "wrappers/batching/packing.h"
#include "wrappers/buffers/combine.h"

namespace energon {

// --- pack_by_length() ---

namespace {

/// Packs by index, and the room left in each: a tournament tree finds the first with enough room.
class Packs {
 public:
  Packs(std::size_t most, std::int64_t room)
      : leaves_(std::bit_ceil(std::max<std::size_t>(most, 1))), room_(2 * leaves_, room) {}

  /// Requires: the length is at most the space of an empty pack, and fewer than `most` samples were
  /// added.
  std::size_t put(std::int64_t length) {
    std::size_t node = 1;
    while (node < leaves_) {
      node = 2 * node + (room_[2 * node] >= length ? 0 : 1);
    }
    room_[node] -= length;
    const std::size_t pack = node - leaves_;
    for (node /= 2; node > 0; node /= 2) {
      room_[node] = std::max(room_[2 * node], room_[2 * node + 1]);
    }
    return pack;
  }

 private:
  const std::size_t leaves_;
  std::vector<std::int64_t> room_;  // node i has children 2i and 2i + 1
};

std::vector<std::int64_t> lengths_of(std::span<const Sample> samples, const LengthFunction& length,
                                     std::int64_t max_length) {
  std::vector<std::int64_t> lengths;
  std::vector<std::size_t> unpackable;
  lengths.reserve(samples.size());
  for (const Sample& sample : samples) {
    lengths.push_back(length(sample));
    if (lengths.back() < 0 || lengths.back() > max_length) {
      unpackable.push_back(lengths.size() - 1);
    }
  }
  if (!unpackable.empty()) {
    std::string reason = fmt::format("a sample has length {}, but packs hold 0 to {}",
                                     lengths[unpackable.front()], max_length);
    throw UnpackableSamples(std::move(unpackable), std::move(reason));
  }
  return lengths;
}

}  // namespace

SelectFunction pack_by_length(LengthFunction length, std::int64_t max_length) {
  if (!length || max_length < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("packs need a length function and a maximum length of at least 1, not "
                            "{}",
                            max_length));
  }
  return [length = std::move(length), max_length](std::span<const Sample> samples) {
    const std::vector<std::int64_t> lengths = lengths_of(samples, length, max_length);
    std::vector<std::size_t> longest_first(samples.size());
    std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
    std::ranges::stable_sort(longest_first, std::greater(),
                             [&lengths](std::size_t i) { return lengths[i]; });
    Packs packs(samples.size(), max_length);
    std::vector<std::vector<std::size_t>> selection;
    for (const std::size_t i : longest_first) {
      const std::size_t pack = packs.put(lengths[i]);
      if (pack == selection.size()) {
        selection.emplace_back();
      }
      selection[pack].push_back(i);
    }
    for (std::vector<std::size_t>& pack : selection) {
      std::ranges::sort(pack);
    }
    return selection;
  };
}

// --- PackSelector ---

namespace {

// Throws Error (kInvalidArgument) unless each position is below `count` and, unless repetitions are
// allowed, occurs once.
template <class Positions>
void check_positions(const Positions& positions, std::size_t count, std::int64_t number,
                     bool may_repeat) {
  std::vector<bool> is_taken(count);
  for (const std::size_t position : positions) {
    if (position >= count || (is_taken[position] && !may_repeat)) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("selection {} names position {}, {} of a buffer of {} samples", number,
                      position, position >= count ? "out of range" : "a second time", count));
    }
    is_taken[position] = true;
  }
}

// The positions of all packs, in order. Throws Error (kResourceExhausted) for more positions than
// the largest buffer has.
std::vector<std::size_t> positions_of(const PackSelector::Selection& selection) {
  std::vector<std::size_t> positions;
  for (const std::vector<SelectedPart>& pack : selection) {
    for (const SelectedPart& selected : pack) {
      positions.push_back(selected.position);
    }
    if (positions.size() > static_cast<std::size_t>(kMaxBufferSize)) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("a selection has more than {} samples", kMaxBufferSize));
    }
  }
  return positions;
}

// Removes the samples at `positions`, at least one, and returns their report entries.
std::vector<FailedSample> remove_samples(std::vector<Sample>& samples,
                                         const std::vector<std::size_t>& positions) {
  if (positions.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "a select function reports unpackable samples, but lists none");
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

PackSelector::PackSelector(Dataset& inner, const PackingOptions& options)
    : inner_(inner),
      options_(options),
      resources_(options.select_stage.resources()),
      guard_(options.select_stage),
      timer_(options.clock, options.select_stage) {}

bool PackSelector::selects_parts() const {
  return std::holds_alternative<SelectPartsFunction>(options_.select);
}

PackSelector::Selection PackSelector::select(std::vector<Sample>& samples, std::int64_t number) {
  while (!samples.empty()) {
    Selection selection;
    try {
      const StageGuard::Work work = guard_.work_on(samples);
      selection = timer_([&] { return call_select(samples, number); });
    } catch (const UnpackableSamples& unpackable) {
      check_positions(unpackable.positions(), samples.size(), number, false);
      guard_.handle(std::current_exception(), remove_samples(samples, unpackable.positions()),
                    false);
      continue;
    } catch (...) {
      std::vector<FailedSample> failed = failed_samples(samples);
      samples.clear();
      guard_.handle(std::current_exception(), std::move(failed), false);
      return {};
    }
    check_positions(positions_of(selection), samples.size(), number, selects_parts());
    guard_.succeed();
    return selection;
  }
  return {};
}

PackSelector::Selection PackSelector::call_select(const std::vector<Sample>& samples,
                                                  std::int64_t number) const {
  const RestoreKey key = RestoreKey::around(Stage::kPacking, {number}, samples.front().restore_key);
  CallContext context(resources_, key, number);
  if (const auto* parts = std::get_if<SelectPartsFunction>(&options_.select)) {
    return (*parts)(samples, context);
  }
  Selection selection;
  for (const std::vector<std::size_t>& pack :
       std::get<SelectFunction>(options_.select)(samples, context)) {
    std::vector<SelectedPart>& selected = selection.emplace_back();
    for (const std::size_t position : pack) {
      selected.push_back({.position = position});
    }
  }
  return selection;
}

std::optional<Sample> PackSelector::cut(Sample sample, const SamplePart& part) {
  if (!selects_parts()) {
    return sample;
  }
  const Sample origins = origins_of(sample);
  const StageGuard::Work work = guard_.work_on({&origins, 1});
  return guard_.run([&] { return timer_([&] { return call_cut(std::move(sample), part); }); },
                    [&origins] { return failed_samples(origins); });
}

Sample PackSelector::call_cut(Sample sample, const SamplePart& part) const {
  if (part.begin < 0 || part.end < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a selection has the part [{}, {}) of a sample, ranges must not be "
                            "negative",
                            part.begin, part.end));
  }
  const RestoreKey key =
      RestoreKey::around(Stage::kPacking, {part.begin, part.end}, sample.restore_key);
  if (!options_.cut) {
    sample.restore_key = key;
    return sample;
  }
  const Sample origins = origins_of(sample);
  Sample piece = options_.cut(std::move(sample), part);
  set_origins(piece, origins);
  piece.restore_key = key;
  check_made(piece);
  return piece;
}

Sample PackSelector::restore(const RestoreKey& key) const {
  if (!selects_parts()) {
    return inner_.restore_sample(key);
  }
  const RestoreKeyParts parts = split_key(key, Stage::kPacking, 2, 1);
  return call_cut(inner_.restore_sample(parts.inner[0]),
                  {.begin = parts.integers[0], .end = parts.integers[1]});
}

Sample PackSelector::rebuild(const RestoreKey& key) const {
  try {
    return restore(key);
  } catch (...) {
    fail_to_rebuild(key);
  }
}

void PackSelector::check_key(const RestoreKey& key) const {
  inner_.check_key(selects_parts() ? split_key(key, Stage::kPacking, 2, 1).inner.front() : key);
}

}  // namespace energon
