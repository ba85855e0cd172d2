#include "wrappers/batching/packing.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "wrappers/batching/pack_maker.h"
#include "wrappers/batching/pack_selector.h"
#include "wrappers/held/saved_samples.h"

namespace energon {
namespace {

// Samples that are read together. If the whole buffer were read together, it would be in memory
// before the limit on its payload applied.
constexpr std::int64_t kReadTogether = 1024;

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
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("packing buffer size is {} and tolerance {}, they must be from 1 to {} "
                            "and not negative",
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
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("stage '{}' made no pack of {} buffers of {} samples in a row, the "
                            "tolerance is {}",
                            options_.select_stage.name, empty_selections_, options_.buffer_size,
                            options_.tolerance));
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
