#include "wrappers/batching/packing.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "energon/stage/stage_guard.h"
#include "energon/state/state.h"
#include "io/error.h"
#include "wrappers/batching/pack_selection.h"
#include "wrappers/buffers/combine.h"
#include "wrappers/stages/map.h"
#include "wrappers/watch/timed_stage.h"

namespace energon {

// --- PackCall ---

/// One call of a function that makes several packs from the same samples.
class PackCall {
 public:
  /// Takes ownership of `samples`. `function` must outlive the call. `number` is the number of the
  /// selected pack.
  PackCall(const PackGenerator& function, std::vector<Sample> samples, CallResources resources,
           std::int64_t number);
  PackCall(const PackCall&) = delete;
  PackCall& operator=(const PackCall&) = delete;

  /// The next pack, with the key Packing(number, output)[…] and the keys and sources of all
  /// samples; nullopt after the last one. Throws whatever the function throws.
  std::optional<Sample> next_pack();

  /// Remakes the first `count` packs and drops them. Throws Error (kInvalidArgument) if the
  /// function now makes fewer.
  void pass_over(std::int64_t count);

  /// Packing(number)[…]: what a state stores about the call.
  const RestoreKey& key() const { return key_; }
  /// Keys and sources of the samples.
  const Sample& origins() const { return origins_; }

 private:
  const PackGenerator& function_;
  std::vector<Sample> samples_;
  const std::int64_t number_;
  const std::vector<RestoreKey> inner_keys_;
  const RestoreKey key_;
  Sample origins_;
  const CallResources resources_;
  CallContext context_;
  bool has_begun_ = false;
  FieldsGenerator next_;  // may refer to samples and context
  std::int64_t outputs_ = 0;
};

PackCall::PackCall(const PackGenerator& function, std::vector<Sample> samples,
                   CallResources resources, std::int64_t number)
    : function_(function),
      samples_(std::move(samples)),
      number_(number),
      inner_keys_(restore_keys(samples_)),
      key_(RestoreKey::list(Stage::kPacking, {number}, inner_keys_)),
      resources_(std::move(resources)),
      context_(resources_, key_, number) {
  for (const Sample& sample : samples_) {
    Sample origins = energon::origins_of(sample);
    move_origins({&origins, 1}, origins_);
  }
}

std::optional<Sample> PackCall::next_pack() {
  if (!std::exchange(has_begun_, true)) {
    next_ = function_(samples_, context_);
  }
  std::optional<Mapping> fields = next_ ? next_() : std::nullopt;
  if (!fields) {
    return std::nullopt;
  }
  Sample pack = origins_;
  pack.restore_key = RestoreKey::list(Stage::kPacking, {number_, outputs_++}, inner_keys_);
  pack.fields = std::move(*fields);
  check_made(pack);
  return pack;
}

void PackCall::pass_over(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!next_pack()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the function makes {} packs of '{}', but made at least {} before: "
                              "it must depend only on its samples and its context",
                              i, key_.text(), count));
    }
  }
}

// --- PackMaker ---

/// Makes packs from the samples of a selected pack: postencode, then the pack function or
/// generator. Holds a part of the saved state of packing: the numbers of calls and the running
/// call.
class PackMaker {
 public:
  /// Both arguments must outlive the maker. `selector` rebuilds selected samples from their keys.
  PackMaker(const PackSelector& selector, const PackingOptions& options);

  /// The pack of `samples`; with a generator, the first pack, and next_pack() returns the others.
  /// Nullopt if no pack was made, because all samples or the pack failed. Requires: !is_running().
  std::optional<Sample> make(std::vector<Sample> samples);

  /// True while a generator may make more packs from the same samples.
  bool is_running() const { return !running_.empty(); }
  /// The next of these packs; nullopt if there are no more or the generator failed. Requires:
  /// is_running().
  std::optional<Sample> next_pack();
  /// Drops the packs that the generator has not made yet.
  void end_call();

  /// Rebuilds the pack that was emitted with `key`.
  Sample restore_sample(const RestoreKey& key);
  void check_key(const RestoreKey& key) const;

  std::int64_t postencodes() const { return postencodes_; }
  std::int64_t packs() const { return packs_; }
  /// Adds the running call to `state`; does nothing without a generator.
  void save_running(State& state) const;
  /// Appends the problems of the running call in `state`. Throws Error if its key is malformed or
  /// names samples that do not exist.
  void check_running(const State& state, std::vector<std::string>& differences) const;
  /// Continues from the counts and the running call of `state`.
  void apply_state(const State& state);

 private:
  bool is_generating() const;
  std::vector<Sample> postencode(std::vector<Sample> samples);
  Sample make_pack(std::span<Sample> samples, std::int64_t number) const;
  std::unique_ptr<PackCall> new_call(std::vector<Sample> samples, std::int64_t number) const;
  void begin_call_again();
  std::vector<Sample> restore_samples_of_pack(std::span<const RestoreKey> keys);
  void check_keys_of_pack(std::span<const RestoreKey> keys) const;

  const PackSelector& selector_;
  const PackingOptions& options_;
  StageGuard postencode_guard_;
  StageGuard pack_guard_;
  const FunctionTimer postencode_timer_;

  // Saved state; the first two count calls so far, failed ones included.
  std::int64_t postencodes_ = 0;  // of single samples
  std::int64_t packs_ = 0;        // of selected packs
  RestoreKey running_;            // selected pack whose packs are being emitted, if any
  std::int64_t outputs_ = 0;      // packs of running_ emitted so far

  std::unique_ptr<PackCall> call_;  // makes the packs of running_; recreated if missing
};

PackMaker::PackMaker(const PackSelector& selector, const PackingOptions& options)
    : selector_(selector),
      options_(options),
      postencode_guard_(options.postencode_stage),
      pack_guard_(options.pack_stage),
      postencode_timer_(options.clock, options.postencode_stage) {}

bool PackMaker::is_generating() const {
  return std::holds_alternative<PackGenerator>(options_.pack);
}

std::optional<Sample> PackMaker::make(std::vector<Sample> samples) {
  if (options_.postencode) {
    samples = postencode(std::move(samples));
  }
  if (samples.empty()) {
    return std::nullopt;
  }
  const std::int64_t number = packs_++;
  if (is_generating()) {
    call_ = new_call(std::move(samples), number);
    running_ = call_->key();
    outputs_ = 0;
    return next_pack();
  }
  const StageGuard::Work work = pack_guard_.work_on(samples);
  return pack_guard_.run([&] { return make_pack(samples, number); },
                         [&] { return failed_samples(samples); });
}

std::vector<Sample> PackMaker::postencode(std::vector<Sample> samples) {
  std::vector<Sample> encoded;
  for (Sample& sample : samples) {
    const std::int64_t call = postencodes_++;
    const Sample origins = origins_of(sample);
    const StageGuard::Work work = postencode_guard_.work_on({&origins, 1});
    std::optional<Sample> result = postencode_guard_.run(
        [&] {
          return postencode_timer_([&] {
            return call_map(options_.postencode, std::move(sample), origins,
                            options_.postencode_stage.resources(), call);
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

Sample PackMaker::make_pack(std::span<Sample> samples, std::int64_t number) const {
  Sample pack;
  pack.restore_key = key_of_list(Stage::kPacking, {number}, samples);
  const CallResources resources = options_.pack_stage.resources();
  CallContext context(resources, pack.restore_key, number);
  pack.fields = std::get<PackFunction>(options_.pack)(samples, context);
  check_fields_of(samples, pack.fields);
  move_origins(samples, pack);
  check_made(pack);
  return pack;
}

std::unique_ptr<PackCall> PackMaker::new_call(std::vector<Sample> samples,
                                              std::int64_t number) const {
  return std::make_unique<PackCall>(std::get<PackGenerator>(options_.pack), std::move(samples),
                                    options_.pack_stage.resources(), number);
}

// After a restore: the call that was running when the state was saved.
void PackMaker::begin_call_again() {
  try {
    const RestoreKeyParts parts = split_key(running_, Stage::kPacking, 1);
    auto call = new_call(restore_samples_of_pack(parts.inner), parts.integers[0]);
    const StageGuard::Work work = pack_guard_.work_on({&call->origins(), 1});
    call->pass_over(outputs_);
    call_ = std::move(call);
  } catch (...) {
    fail_to_rebuild(running_);
  }
}

std::optional<Sample> PackMaker::next_pack() {
  if (!call_) {
    begin_call_again();
  }
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

void PackMaker::end_call() {
  call_.reset();
  running_ = RestoreKey();
  outputs_ = 0;
}

std::vector<Sample> PackMaker::restore_samples_of_pack(std::span<const RestoreKey> keys) {
  std::vector<Sample> samples;
  for (const RestoreKey& key : keys) {
    if (!options_.postencode) {
      samples.push_back(selector_.restore(key));
      continue;
    }
    const RestoreKeyParts call = split_key(key, Stage::kMap, 1, 1);
    Sample sample = selector_.restore(call.inner[0]);
    const Sample origins = origins_of(sample);
    const StageGuard::Work work = postencode_guard_.work_on({&origins, 1});
    samples.push_back(call_map(options_.postencode, std::move(sample), origins,
                               options_.postencode_stage.resources(), call.integers[0]));
  }
  return samples;
}

Sample PackMaker::restore_sample(const RestoreKey& key) {
  if (!is_generating()) {
    const RestoreKeyParts parts = split_key(key, Stage::kPacking, 1);
    std::vector<Sample> samples = restore_samples_of_pack(parts.inner);
    const StageGuard::Work work = pack_guard_.work_on(samples);
    return make_pack(samples, parts.integers[0]);
  }
  const RestoreKeyParts parts = split_key(key, Stage::kPacking, 2);
  const auto call = new_call(restore_samples_of_pack(parts.inner), parts.integers[0]);
  call->pass_over(parts.integers[1]);
  std::optional<Sample> pack = call->next_pack();
  if (!pack) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("restore key '{}' refers to a pack that stage '{}' does not make",
                            key.text(), pack_guard_.name()));
  }
  return std::move(*pack);
}

void PackMaker::check_key(const RestoreKey& key) const {
  const std::size_t integers = is_generating() ? 2 : 1;
  check_keys_of_pack(split_key(key, Stage::kPacking, integers).inner);
}

void PackMaker::check_keys_of_pack(std::span<const RestoreKey> keys) const {
  for (const RestoreKey& key : keys) {
    selector_.check_key(options_.postencode ? split_key(key, Stage::kMap, 1, 1).inner.front()
                                            : key);
  }
}

void PackMaker::save_running(State& state) const {
  if (is_generating()) {
    state.fields.emplace_back("running", running_.bytes());
    state.fields.emplace_back("outputs", outputs_);
  }
}

void PackMaker::check_running(const State& state, std::vector<std::string>& differences) const {
  if (!is_generating()) {
    return;
  }
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

void PackMaker::apply_state(const State& state) {
  end_call();
  postencodes_ = state.integer("postencodes");
  packs_ = state.integer("packs");
  if (is_generating()) {
    const std::string& running = state.bytes("running");
    running_ = running.empty() ? RestoreKey() : RestoreKey::from_bytes(running);
    outputs_ = state.integer("outputs");
  }
}

// --- Packing ---

namespace {

template <class Stage>
bool is_given(const Stage& stage) {
  return std::visit([](const auto& function) { return static_cast<bool>(function); }, stage);
}

}  // namespace

Packing::Packing(std::unique_ptr<Dataset> inner, PackingOptions options)
    : inner_(std::move(inner)),
      options_(std::move(options)),
      selector_(std::make_unique<PackSelector>(*inner_, options_)),
      maker_(std::make_unique<PackMaker>(*selector_, options_)),
      budget_{options_.max_held_bytes},
      waiting_(*inner_, budget_),
      selected_([this](const RestoreKey& key) { return selector_->rebuild(key); }, budget_) {
  if (!is_given(options_.select) || !is_given(options_.pack)) {
    throw Error(ErrorCode::kInvalidArgument, "packing needs a select and a pack function");
  }
  if (options_.buffer_size < 1 || options_.buffer_size > kMaxBufferSize || options_.tolerance < 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("packing buffer size is {} and tolerance {}, expected 1 to {} and at least 0",
                    options_.buffer_size, options_.tolerance, kMaxBufferSize));
  }
}

Packing::~Packing() = default;

std::optional<Sample> Packing::next() {
  while (true) {
    if (maker_->is_running()) {
      if (auto pack = maker_->next_pack()) {
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
        if (!is_end) {
          count_empty_selection();
        }
        continue;
      }
    }
    empty_selections_ = 0;
    std::vector<Sample> samples = selected_.take_front(static_cast<std::size_t>(lengths_.front()));
    lengths_.pop_front();
    if (auto pack = maker_->make(std::move(samples))) {
      return pack;
    }
  }
}

void Packing::count_empty_selection() {
  if (++empty_selections_ > options_.tolerance) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "stage '{}' made no pack from {} buffers of {} samples in a row; the tolerance is {}",
            options_.select_stage.name, empty_selections_, options_.buffer_size,
            options_.tolerance));
  }
}

// Returns false if the inner epoch is over.
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

// Moves the selected samples to the packs, and drops the others.
void Packing::select() {
  std::vector<Sample> samples = waiting_.take_front(waiting_.size());
  const PackSelector::Selection selection = selector_->select(samples, selections_++);
  std::vector<std::size_t> uses_left(samples.size());
  for (const std::vector<SelectedPart>& pack : selection) {
    for (const SelectedPart& selected : pack) {
      ++uses_left[selected.position];
    }
  }
  const auto unused = static_cast<std::uint64_t>(std::ranges::count(uses_left, std::size_t{0}));
  for (const std::vector<SelectedPart>& pack : selection) {
    std::int64_t length = 0;
    for (const auto& [position, part] : pack) {
      Sample sample = --uses_left[position] == 0 ? std::move(samples[position]) : samples[position];
      if (std::optional<Sample> piece = selector_->cut(std::move(sample), part)) {
        selected_.push_back(std::move(*piece));
        ++length;
      }
    }
    if (length > 0) {
      lengths_.push_back(length);
    }
  }
  if (unused > 0) {
    selector_->count_unselected(unused);
  }
}

void Packing::next_epoch() {
  maker_->end_call();
  waiting_.clear();
  selected_.clear();
  lengths_.clear();
  empty_selections_ = 0;
  inner_->next_epoch();
}

Sample Packing::restore_sample(const RestoreKey& key) { return maker_->restore_sample(key); }

void Packing::check_key(const RestoreKey& key) const { maker_->check_key(key); }

State Packing::save_state() const {
  State state{"Packing",
              {{"selections", selections_},
               {"postencodes", maker_->postencodes()},
               {"packs", maker_->packs()},
               {"waiting", waiting_.save()},
               {"selected", selected_.save()},
               {"lengths", std::vector<std::int64_t>(lengths_.begin(), lengths_.end())}},
              {inner_->save_state()}};
  maker_->save_running(state);
  return state;
}

void Packing::check_state(const State& state, std::vector<std::string>& differences) const {
  check_counts(state, {"selections", "postencodes", "packs"}, differences);
  try {
    check_buffer(state, differences);
    maker_->check_running(state, differences);
  } catch (const Error& error) {
    differences.push_back("Packing: " + error.message());
  }
  check(*inner_, state.children[0], differences);
}

// Throws Error for malformed keys and for keys of samples that do not exist.
void Packing::check_buffer(const State& state, std::vector<std::string>& differences) const {
  const auto waiting =
      static_cast<std::int64_t>(decode_keys(state.bytes("waiting"), *inner_).size());
  const std::vector<RestoreKey> selected_keys = decode_keys(state.bytes("selected"));
  const auto selected = static_cast<std::int64_t>(selected_keys.size());
  for (const RestoreKey& key : selected_keys) {
    selector_->check_key(key);
  }
  // A sample may have been selected several times.
  if (waiting + (selector_->selects_parts() ? 0 : selected) > options_.buffer_size) {
    differences.push_back(fmt::format("Packing: {} buffered samples, expected at most {}",
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
}

void Packing::apply_state(const State& state) {
  selections_ = state.integer("selections");
  waiting_.restore(state.bytes("waiting"));
  selected_.restore(state.bytes("selected"));
  const std::vector<std::int64_t>& lengths = state.integers("lengths");
  lengths_.assign(lengths.begin(), lengths.end());
  maker_->apply_state(state);
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
