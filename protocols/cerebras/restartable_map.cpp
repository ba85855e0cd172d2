#include "protocols/cerebras/restartable_map.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "energon/order/rng.h"
#include "io/error.h"
#include "protocols/cerebras/restartable.h"

namespace energon {
namespace {

constexpr std::int64_t kMapStateVersion = 1;

void require_at_least_1(const char* option, std::int64_t value) {
  if (value < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}, but must be at least 1", option, value));
  }
}

}  // namespace

RestartableMap::RestartableMap(const WorkerIdentity& worker, const RestartableMapOptions& options,
                               FetchFunction fetch)
    : worker_(worker), options_(options), fetch_(std::move(fetch)) {
  require_at_least_1("samples", options_.samples);
  require_at_least_1("batch_size", options_.batch_size);
  require_at_least_1("num_samples", epoch_samples());
  require_at_least_1("skip_samples", options_.skip_samples.value_or(1));
  for (const std::int64_t value :
       {options_.batch_size, epoch_samples(), options_.skip_samples.value_or(1)}) {
    if (value > kMostSamples) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("batch_size, num_samples or skip_samples is {}, but must be at most {}",
                      value, kMostSamples));
    }
  }
  if (options_.samples > std::int64_t{UINT32_MAX}) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("samples is {}, but must be below 2^32", options_.samples));
  }
  begin_at(0);
}

// Requires: position <= kMostSamples.
void RestartableMap::begin_at(std::int64_t position) {
  begin_ = position + options_.skip_samples.value_or(0);
  position_ = begin_;
  batch_ = 0;
  epoch_ = begin_ / epoch_samples();
  samples_streamed_ = 0;
}

std::int64_t RestartableMap::batch_end(std::int64_t begin) const {
  const std::int64_t end = begin + options_.batch_size;
  const std::int64_t epoch_end = (begin / epoch_samples() + 1) * epoch_samples();
  return options_.drop_last ? end : std::min(end, epoch_end);
}

std::int64_t RestartableMap::index_at(std::int64_t position) {
  const std::int64_t passes_per_epoch = (epoch_samples() + options_.samples - 1) / options_.samples;
  const std::int64_t in_epoch = position % epoch_samples();
  const std::int64_t in_pass = in_epoch % options_.samples;
  if (!options_.shuffle_seed) {
    return in_pass;
  }
  const std::int64_t pass =
      position / epoch_samples() * passes_per_epoch + in_epoch / options_.samples;
  if (pass != order_pass_) {
    order_ = WorkerRng(*options_.shuffle_seed + static_cast<std::uint32_t>(pass))
                 .permutation(options_.samples);
    order_pass_ = pass;
  }
  return order_[static_cast<std::size_t>(in_pass)];
}

std::optional<Sample> RestartableMap::next() {
  for (; batch_ % worker_.total_workers() != worker_.turn(); ++batch_) {
    position_ = batch_end(position_);
  }
  const std::int64_t end = batch_end(position_);
  if (!options_.repeat && end > (epoch_ + 1) * epoch_samples()) {
    ++epoch_;
    return std::nullopt;
  }
  std::vector<std::int64_t> indexes;
  for (std::int64_t position = position_; position < end; ++position) {
    indexes.push_back(index_at(position));
  }
  Sample batch = fetch_(indexes);
  samples_streamed_ += end - position_;
  position_ = end;
  ++batch_;
  return batch;
}

StateDict RestartableMap::state_dict() const {
  return {{"samples_streamed", samples_streamed_}, {"previous_samples_streamed", begin_}};
}

StateDict RestartableMap::settings() const {
  StateDict settings = {{"samples", options_.samples},
                        {"num_samples", epoch_samples()},
                        {"shuffle", options_.shuffle_seed.has_value()},
                        {"drop_last", options_.drop_last}};
  if (options_.shuffle_seed) {
    settings["seed"] = *options_.shuffle_seed;
  }
  return settings;
}

StateDict RestartableMap::aggregate_state_dict(std::span<const StateDict> states) const {
  std::int64_t sum = begin_;
  std::vector<std::string> differences;
  for (std::size_t worker = 0; worker < states.size(); ++worker) {
    const std::int64_t previous = count_in(states[worker], "previous_samples_streamed");
    if (worker == 0) {
      sum = previous;
    } else if (previous != count_in(states[0], "previous_samples_streamed")) {
      differences.push_back(fmt::format("worker {}: began at sample {}, worker 0 at {}", worker,
                                        previous,
                                        count_in(states[0], "previous_samples_streamed")));
    }
    sum = std::min(sum + count_in(states[worker], "samples_streamed"), kMostSamples);
  }
  refuse_differences(differences);
  return {{"__version__", kMapStateVersion}, {"samples_streamed", sum}, {"dataset", settings()}};
}

StateDict RestartableMap::deaggregate_state_dict(const StateDict& state,
                                                 Strictness /*strictness*/) const {
  return state;
}

void RestartableMap::check_settings(const StateDict& state) const {
  std::vector<std::string> differences;
  const StateDict saved = state.value("dataset", StateDict::object());
  compare_settings(saved.is_object() ? saved : StateDict::object(), settings(),
                   {"batch_size", "use_worker_cache"}, differences);
  if (!state.contains("samples_streamed")) {
    differences.push_back("samples_streamed: not in the state");
  }
  refuse_differences(differences);
}

void RestartableMap::load_state_dict(const StateDict& state, Strictness strictness) {
  if (!state.is_object()) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("expected an object as the state of a map, found {}", state.type_name()));
  }
  const StateDict version = state.value("__version__", StateDict());
  if (version != kMapStateVersion) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state has version {}, but this library reads version {}",
                            to_text(version, "the version"), kMapStateVersion));
  }
  if (strictness == Strictness::kStrict) {
    check_settings(state);
  } else if (!state.contains("samples_streamed")) {
    warnings_.push_back(
        "the state has no 'samples_streamed': starting from the beginning of the data");
    begin_at(0);
    return;
  }
  begin_at(count_in(state, "samples_streamed"));
}

}  // namespace energon
