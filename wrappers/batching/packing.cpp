#include "wrappers/batching/packing.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/field_names.h"
#include "io/error.h"
#include "wrappers/held/combine.h"
#include "wrappers/held/saved_samples.h"

namespace energon {
namespace {

constexpr std::int64_t kMaxBufferSize = std::int64_t{1} << 24;
// Read together, so that a first filling does not hold the whole buffer before it is limited.
constexpr std::int64_t kReadTogether = 1024;

// Throws Error (kInvalidArgument) unless each position is below `count` and, unless they may be
// used several times, comes once.
template <class Positions>
void check_selection(const Positions& positions, std::size_t count, std::int64_t number,
                     bool may_repeat) {
  std::vector<bool> is_taken(count);
  for (const std::size_t position : positions) {
    if (position >= count || (is_taken[position] && !may_repeat)) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("selection {} names position {}, {} of a buffer of {} samples", number,
                      position, position >= count ? "which is none" : "a second time", count));
    }
    is_taken[position] = true;
  }
}

// Of all packs, one after the other. Throws Error (kResourceExhausted) for more than any buffer
// has.
std::vector<std::size_t> positions_of(const std::vector<std::vector<SelectedPart>>& selection) {
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

template <class Stage>
bool is_given(const Stage& stage) {
  return std::visit([](const auto& function) { return static_cast<bool>(function); }, stage);
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
      select_timer_(options_.clock, options_.select_stage),
      postencode_timer_(options_.clock, options_.postencode_stage),
      budget_{options_.max_held_bytes},
      waiting_(*inner_, budget_),
      selected_([this](const RestoreKey& key) { return rebuild_selected(key); }, budget_) {
  if (!is_given(options_.select) || !is_given(options_.pack)) {
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
    if (!running_.empty()) {
      if (!call_) {
        begin_call_again();
      }
      if (auto pack = next_output()) {
        return pack;
      }
    }
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
  const Selection selection = run_select(samples);
  std::vector<std::size_t> uses(samples.size());  // that are left of each sample
  for (const std::size_t position : positions_of(selection)) {
    ++uses[position];
  }
  const auto unused = static_cast<std::uint64_t>(std::ranges::count(uses, std::size_t{0}));
  for (const std::vector<SelectedPart>& pack : selection) {
    std::int64_t length = 0;
    for (const auto& [position, part] : pack) {
      Sample sample = --uses[position] == 0 ? std::move(samples[position]) : samples[position];
      if (std::optional<Sample> piece = cut(std::move(sample), part)) {
        selected_.push_back(std::move(*piece));
        ++length;
      }
    }
    if (length > 0) {
      lengths_.push_back(length);
    }
  }
  if (unused > 0) {
    select_guard_.count_skipped(unused);
  }
}

// Calls select until it names no more unpackable samples, which are removed. If it fails, all are.
Packing::Selection Packing::run_select(std::vector<Sample>& samples) {
  const std::int64_t number = selections_++;
  while (!samples.empty()) {
    Selection selection;
    try {
      const StageGuard::Work work = select_guard_.work_on(samples);
      selection = select_timer_([&] { return call_select(samples); });
    } catch (const UnpackableSamples& unpackable) {
      check_selection(unpackable.positions(), samples.size(), number, false);
      select_guard_.handle(std::current_exception(),
                           remove_samples(samples, unpackable.positions()), false);
      continue;
    } catch (...) {
      std::vector<FailedSample> failed = failed_samples(samples);
      samples.clear();
      select_guard_.handle(std::current_exception(), std::move(failed), false);
      return {};
    }
    check_selection(positions_of(selection), samples.size(), number, selects_parts());
    select_guard_.succeed();
    return selection;
  }
  return {};
}

Packing::Selection Packing::call_select(const std::vector<Sample>& samples) {
  if (const auto* parts = std::get_if<SelectPartsFunction>(&options_.select)) {
    return (*parts)(samples);
  }
  Selection selection;
  for (const std::vector<std::size_t>& pack : std::get<SelectFunction>(options_.select)(samples)) {
    std::vector<SelectedPart>& selected = selection.emplace_back();
    for (const std::size_t position : pack) {
      selected.push_back({.position = position});
    }
  }
  return selection;
}

// Nothing: cutting failed and the part is left out.
std::optional<Sample> Packing::cut(Sample sample, const SamplePart& part) {
  if (!selects_parts()) {
    return sample;
  }
  const Sample origins = origins_of(sample);
  const StageGuard::Work work = select_guard_.work_on({&origins, 1});
  return select_guard_.run(
      [&] { return select_timer_([&] { return call_cut(std::move(sample), part); }); },
      [&origins] { return failed_samples(origins); });
}

Sample Packing::call_cut(Sample sample, const SamplePart& part) const {
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

Sample Packing::rebuild_selected(const RestoreKey& key) {
  try {
    return restore_selected(key);
  } catch (...) {
    fail_to_rebuild(key);
  }
}

// Throws Error, and what the cut function throws.
Sample Packing::restore_selected(const RestoreKey& key) {
  if (!selects_parts()) {
    return inner_->restore_sample(key);
  }
  const RestoreKeyParts parts = split_key(key, Stage::kPacking, 2, 1);
  return call_cut(inner_->restore_sample(parts.inner[0]),
                  {.begin = parts.integers[0], .end = parts.integers[1]});
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
  if (is_generating()) {
    begin_call(std::move(samples), number);
    return next_output();
  }
  const StageGuard::Work work = pack_guard_.work_on(samples);
  return pack_guard_.run([&] { return make_pack(samples, number); },
                         [&] { return failed_samples(samples); });
}

std::vector<Sample> Packing::postencode(std::vector<Sample> samples) {
  std::vector<Sample> encoded;
  for (Sample& sample : samples) {
    const std::int64_t call = postencodes_++;
    const Sample origins = origins_of(sample);
    const StageGuard::Work work = postencode_guard_.work_on({&origins, 1});
    std::optional<Sample> result = postencode_guard_.run(
        [&] {
          return postencode_timer_([&] {
            return call_map(options_.postencode, std::move(sample), origins,
                            options_.postencode_stage.seed, call);
          });
        },
        [&] { return failed_samples(origins); });
    if (result) {
      encoded.push_back(std::move(*result));
    }
  }
  postencode_timer_.count(encoded.size());
  return encoded;
}

Sample Packing::make_pack(std::span<Sample> samples, std::int64_t number) const {
  Sample pack;
  pack.restore_key = RestoreKey::list(Stage::kPacking, {number}, restore_keys(samples));
  CallContext context(options_.pack_stage.seed, pack.restore_key, number);
  pack.fields = std::get<PackFunction>(options_.pack)(samples, context);
  check_fields_of(samples, pack.fields);
  move_origins(samples, pack);
  check_made(pack);
  return pack;
}

void Packing::begin_call(std::vector<Sample> samples, std::int64_t number) {
  call_ = std::make_unique<PackCall>(std::get<PackGenerator>(options_.pack), std::move(samples),
                                     options_.pack_stage.seed, number);
  running_ = call_->key();
  outputs_ = 0;
}

// After a restore: the call that was running when the state was saved.
void Packing::begin_call_again() {
  try {
    const RestoreKeyParts parts = split_key(running_, Stage::kPacking, 1);
    auto call = std::make_unique<PackCall>(std::get<PackGenerator>(options_.pack),
                                           restore_samples_of_pack(parts.inner),
                                           options_.pack_stage.seed, parts.integers[0]);
    const StageGuard::Work work = pack_guard_.work_on({&call->origins(), 1});
    call->pass_over(outputs_);
    call_ = std::move(call);
  } catch (...) {
    fail_to_rebuild(running_);
  }
}

// Nothing: the samples of the call make no more packs.
std::optional<Sample> Packing::next_output() {
  std::optional<Sample> pack;
  try {
    const StageGuard::Work work = pack_guard_.work_on({&call_->origins(), 1});
    pack = call_->next_pack();
  } catch (...) {
    std::vector<FailedSample> failed = failed_samples(call_->origins());
    end_call();
    pack_guard_.handle(std::current_exception(), std::move(failed), false);
    return std::nullopt;
  }
  if (pack) {
    ++outputs_;
    pack_guard_.succeed();
    return pack;
  }
  const bool made_nothing = outputs_ == 0;
  end_call();
  if (made_nothing) {
    pack_guard_.succeed_with_nothing();
  } else {
    pack_guard_.succeed();
  }
  return std::nullopt;
}

void Packing::end_call() {
  call_.reset();
  running_ = RestoreKey();
  outputs_ = 0;
}

void Packing::next_epoch() {
  end_call();
  waiting_.clear();
  selected_.clear();
  lengths_.clear();
  empty_selections_ = 0;
  inner_->next_epoch();
}

std::vector<Sample> Packing::restore_samples_of_pack(std::span<const RestoreKey> keys) {
  std::vector<Sample> samples;
  for (const RestoreKey& key : keys) {
    if (!options_.postencode) {
      samples.push_back(restore_selected(key));
      continue;
    }
    const RestoreKeyParts call = split_key(key, Stage::kMap, 1, 1);
    Sample sample = restore_selected(call.inner[0]);
    const Sample origins = origins_of(sample);
    const StageGuard::Work work = postencode_guard_.work_on({&origins, 1});
    samples.push_back(call_map(options_.postencode, std::move(sample), origins,
                               options_.postencode_stage.seed, call.integers[0]));
  }
  return samples;
}

Sample Packing::restore_sample(const RestoreKey& key) {
  if (!is_generating()) {
    const RestoreKeyParts parts = split_key(key, Stage::kPacking, 1);
    std::vector<Sample> samples = restore_samples_of_pack(parts.inner);
    const StageGuard::Work work = pack_guard_.work_on(samples);
    return make_pack(samples, parts.integers[0]);
  }
  const RestoreKeyParts parts = split_key(key, Stage::kPacking, 2);
  PackCall call(std::get<PackGenerator>(options_.pack), restore_samples_of_pack(parts.inner),
                options_.pack_stage.seed, parts.integers[0]);
  call.pass_over(parts.integers[1]);
  std::optional<Sample> pack = call.next_pack();
  if (!pack) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("restore key '{}' names a pack that stage '{}' does not make",
                            key.text(), pack_guard_.name()));
  }
  return std::move(*pack);
}

void Packing::check_key(const RestoreKey& key) const {
  const std::size_t integers = is_generating() ? 2 : 1;
  check_keys_of_pack(split_key(key, Stage::kPacking, integers).inner);
}

void Packing::check_keys_of_pack(std::span<const RestoreKey> keys) const {
  for (const RestoreKey& key : keys) {
    check_selected(options_.postencode ? split_key(key, Stage::kMap, 1, 1).inner.front() : key);
  }
}

void Packing::check_selected(const RestoreKey& key) const {
  inner_->check_key(selects_parts() ? split_key(key, Stage::kPacking, 2, 1).inner.front() : key);
}

State Packing::save_state() const {
  State state{"Packing",
              {{"selections", selections_},
               {"postencodes", postencodes_},
               {"packs", packs_},
               {"waiting", waiting_.save()},
               {"selected", selected_.save()},
               {"lengths", std::vector<std::int64_t>(lengths_.begin(), lengths_.end())}},
              {inner_->save_state()}};
  if (is_generating()) {
    state.fields.emplace_back("running", running_.bytes());
    state.fields.emplace_back("outputs", outputs_);
  }
  return state;
}

// Throws Error if the key of the running call is none, or names samples that are none.
void Packing::check_running(const State& state, std::vector<std::string>& differences) const {
  const std::string& running = state.bytes("running");
  const std::int64_t outputs = state.integer("outputs");
  if (outputs < 0 || (running.empty() && outputs > 0)) {
    differences.push_back(fmt::format("Packing: {} packs of {}", outputs,
                                      running.empty() ? "no samples" : "the same samples"));
  }
  if (!running.empty()) {
    const RestoreKey key = RestoreKey::from_bytes(running);
    check_keys_of_pack(split_key(key, Stage::kPacking, 1).inner);
  }
}

void Packing::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"selections", "postencodes", "packs"}, differences);
  try {
    const auto waiting =
        static_cast<std::int64_t>(decode_keys(state.bytes("waiting"), *inner_).size());
    const std::vector<RestoreKey> selected_keys = decode_keys(state.bytes("selected"));
    const auto selected = static_cast<std::int64_t>(selected_keys.size());
    for (const RestoreKey& key : selected_keys) {
      check_selected(key);
    }
    // A sample may have been selected several times.
    if (waiting + (selects_parts() ? 0 : selected) > options_.buffer_size) {
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
    if (is_generating()) {
      check_running(state, differences);
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
  end_call();
  if (is_generating()) {
    const std::string& running = state.bytes("running");
    running_ = running.empty() ? RestoreKey() : RestoreKey::from_bytes(running);
    outputs_ = state.integer("outputs");
  }
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
