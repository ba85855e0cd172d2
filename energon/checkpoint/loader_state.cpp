#include "energon/checkpoint/loader_state.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/order/worker_config.h"
#include "io/error.h"

namespace energon {
namespace {

// Limit on batches or samples of a logical shard, so that their sum over a job does not overflow.
constexpr std::int64_t kMostCounted = std::int64_t{1} << 42;
static_assert(kMostCounted <= INT64_MAX / kMaxLogicalShards);

void check_range(std::int64_t value, std::int64_t least, std::int64_t most,
                 const std::string& path) {
  if (value < least || value > most) {
    throw Error(ErrorCode::kCorruptData, fmt::format("{}: found {}, expected a value in [{}, {}]",
                                                     path, value, least, most));
  }
}

// Checks that no logical shard was skipped: each is in the loader's epoch or beyond, and none
// delivered more batches than the whole job. Counts are rounded if a state was rescaled or fitted
// to another micro batch size.
void check_progress(const SavableDataLoaderState& state, const std::string& path) {
  constexpr std::int64_t kRounding = 1 << 16;
  const std::int64_t begun = state.epoch + (state.epoch_finished ? 1 : 0);
  std::int64_t delivered = 0;
  for (std::size_t i = 0; i < state.checkpoints.size(); ++i) {
    const SavableDatasetCheckpoint& checkpoint = state.checkpoints[i];
    const std::string here = fmt::format("{}.checkpoints[{}]", path, i);
    check_range(checkpoint.turn.epoch, begun, INT32_MAX, here + ".turn.epoch");
    // One epoch beyond: if no sample of an epoch could be used, next() threw and kept the previous
    // turns.
    check_range(checkpoint.epoch, 0, checkpoint.turn.epoch + 1, here + ".epoch");
    delivered += checkpoint.index + checkpoint.offset;
  }
  if (!state.config->contains("pipeline")) {
    return;  // part of a flat state, whose job size is unknown
  }
  const std::int64_t most = (state.batch_index + 1) * layout_of(state.config).world_size +
                            kRounding * std::ssize(state.checkpoints);
  if (delivered > most) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("{}.checkpoints: they count {} batches, expected at most the {} of the rank",
                    path, delivered, state.batch_index));
  }
}

// Whether an adapter counts the batches that it delivered.
bool is_counter(const State& adapter) {
  return std::any_of(adapter.fields.begin(), adapter.fields.end(),
                     [](const auto& field) { return field.first == "batches"; });
}

void check_adapters(const SavableDataLoaderState& state, std::int64_t most_batches,
                    const std::string& path) {
  for (std::size_t i = 0; i < state.adapters.size(); ++i) {
    const State& adapter = state.adapters[i];
    const std::string here = fmt::format("{}.adapters[{}]", path, i);
    if (!adapter.children.empty()) {
      throw Error(ErrorCode::kCorruptData, here + ": expected no inner states");
    }
    // All of their integers are counts; counts of samples are below those of batches times the
    // size.
    for (const auto& [name, value] : adapter.fields) {
      if (const auto* count = std::get_if<std::int64_t>(&value)) {
        check_range(*count, 0, most_batches, fmt::format("{}.{}", here, name));
      }
    }
    if (is_counter(adapter)) {
      check_range(adapter.integer("epoch"), 0, INT32_MAX, here + ".epoch");
    }
  }
}

}  // namespace

void check_loader_state(const SavableDataLoaderState& state, const std::string& path) {
  check_config(state.config, path + ".config");
  if (state.checkpoints.empty()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{}.checkpoints: expected at least one checkpoint", path));
  }
  const std::int64_t micro_batch_size = state.micro_batch_size.value_or(1);
  check_range(micro_batch_size, 1, INT32_MAX, path + ".micro_batch_size");
  const std::int64_t most_batches = kMostCounted / micro_batch_size;
  check_range(state.next_worker_id, 0, std::ssize(state.checkpoints) - 1, path + ".next_worker_id");
  check_range(state.epoch, 0, INT32_MAX, path + ".epoch");
  check_range(state.batch_index, 0, most_batches, path + ".batch_index");
  check_range(state.step_in_epoch.value_or(0), 0, most_batches, path + ".step_in_epoch");
  for (std::size_t i = 0; i < state.checkpoints.size(); ++i) {
    const SavableDatasetCheckpoint& checkpoint = state.checkpoints[i];
    const std::string here = fmt::format("{}.checkpoints[{}]", path, i);
    check_range(checkpoint.logical_shard, 0, kMaxLogicalShards - 1, here + ".logical_shard");
    check_range(checkpoint.turn.epoch, 0, INT32_MAX, here + ".turn.epoch");
    check_range(checkpoint.turn.count, 0, most_batches, here + ".turn.count");
    check_range(checkpoint.certificate.samples, 0, kMostCounted, here + ".samples");
    check_range(checkpoint.epoch, 0, INT32_MAX, here + ".epoch");
    check_range(checkpoint.index, 0, most_batches, here + ".index");
    check_range(checkpoint.offset, 0, most_batches - checkpoint.index, here + ".offset");
  }
  if (const std::int64_t next = next_worker_id_of(state); state.next_worker_id != next) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{}.next_worker_id: expected {}, which follows from the turns of the "
                            "checkpoints, found {}",
                            path, next, state.next_worker_id));
  }
  check_progress(state, path);
  check_adapters(state, most_batches, path);
}

bool SavableDataLoaderState::operator==(const SavableDataLoaderState& other) const {
  return config == other.config && checkpoints == other.checkpoints &&
         next_worker_id == other.next_worker_id && epoch == other.epoch &&
         epoch_finished == other.epoch_finished && batch_index == other.batch_index &&
         step_in_epoch == other.step_in_epoch && micro_batch_size == other.micro_batch_size &&
         adapters == other.adapters;
}

std::optional<EpochStep> epoch_step(const SavableDataLoaderState& state) {
  for (const State& adapter : state.adapters) {
    if (is_counter(adapter)) {
      return EpochStep{adapter.integer("epoch"), adapter.integer("batches")};
    }
  }
  const bool has_ended =
      std::all_of(state.checkpoints.begin(), state.checkpoints.end(),
                  [&](const auto& shard) { return shard.turn.epoch > state.epoch; });
  if (has_ended || !state.step_in_epoch) {
    return std::nullopt;
  }
  return EpochStep{state.epoch, *state.step_in_epoch};
}

std::int64_t next_worker_id_of(const SavableDataLoaderState& state) {
  std::vector<Turn> turns;
  turns.reserve(state.checkpoints.size());
  for (const SavableDatasetCheckpoint& checkpoint : state.checkpoints) {
    turns.push_back(checkpoint.turn);
  }
  return static_cast<std::int64_t>(Turns(std::move(turns), state.epoch).next().value_or(0));
}

Certificate certificate_of(const SavableDataLoaderState& state) {
  std::vector<CertificatePart> parts;
  for (const SavableDatasetCheckpoint& checkpoint : state.checkpoints) {
    parts.push_back({checkpoint.logical_shard, checkpoint.certificate});
  }
  return combine(parts);
}

void encode_checkpoint(ByteWriter& writer, const SavableDatasetCheckpoint& checkpoint) {
  writer.i64(checkpoint.index);
  writer.i64(checkpoint.epoch);
  writer.i64(checkpoint.offset);
  writer.u8(checkpoint.state ? 1 : 0);
  writer.text(checkpoint.state ? encode_state(*checkpoint.state) : std::string());
}

SavableDatasetCheckpoint decode_checkpoint(ByteReader& reader) {
  SavableDatasetCheckpoint checkpoint;
  checkpoint.index = reader.i64();
  checkpoint.epoch = reader.i64();
  checkpoint.offset = reader.i64();
  const bool present = reader.u8() != 0;
  const std::string_view encoded = reader.text();
  if (present) {
    checkpoint.state = decode_state(encoded);
  }
  if (checkpoint.index < 0 || checkpoint.epoch < 0 || checkpoint.offset < 0) {
    reader.fail("a logical shard has a negative position");
  }
  return checkpoint;
}

CheckpointPlace place_of_checkpoint(std::string_view encoded) {
  ByteReader reader(encoded, "a checkpoint of a worker");
  const std::int64_t index = reader.i64();
  return {index, reader.i64()};
}

std::optional<std::size_t> Turns::next() const {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < turns_.size(); ++i) {
    // Logical shards in a later epoch wait; all others are in this one.
    if (turns_[i].epoch <= epoch_ && (!first || turns_[i].count < turns_[*first].count)) {
      first = i;
    }
  }
  return first;
}

SavableDataLoaderState source_state(State position, const EpochStep& at, const SourcePlace& place) {
  if (!position.children.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the position of a source cannot have inner states, that of {} has {}",
                            position.type, position.children.size()));
  }
  SavableDataLoaderState state;
  state.config = layout_config({.rank = place.rank, .world_size = place.world_size});
  (*state.config)["source"] = position.type;
  (*state.config)["pipeline"] =
      place.common_settings->is_null() ? Config::object() : *place.common_settings;
  state.checkpoints.resize(1);
  state.checkpoints[0].logical_shard = place.rank;
  state.checkpoints[0].turn = {at.epoch, at.step};
  state.checkpoints[0].epoch = at.epoch;
  state.checkpoints[0].state = std::move(position);
  state.epoch = at.epoch;
  state.step_in_epoch = at.step;
  state.batch_index = at.step;
  return state;
}

bool is_source_config(const Config& config) { return config.contains("source"); }

const State* source_position(const SavableDataLoaderState& state) {
  const bool is_own = is_source_config(state.config) && state.checkpoints.size() == 1;
  return is_own && state.checkpoints[0].state ? &*state.checkpoints[0].state : nullptr;
}

std::string source_kind(const SavableDataLoaderState& state) {
  std::string kind;
  for (const State& adapter : state.adapters) {
    kind += printable(adapter.type) + " over ";
  }
  const State* position = source_position(state);
  return kind + (position != nullptr ? printable(position->type) : "Loader");
}

}  // namespace energon
