#include "wrappers/batching/pack_maker.h"

#include <exception>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "io/error.h"
#include "wrappers/held/combine.h"
#include "wrappers/held/saved_samples.h"
#include "wrappers/stages/map.h"

namespace energon {

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
                fmt::format("restore key '{}' names a pack that stage '{}' does not make",
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

}  // namespace energon
