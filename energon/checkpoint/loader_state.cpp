#include "energon/checkpoint/loader_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/state_config.h"
#include "energon/order/worker_config.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"
#include "io/byte_codec.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"

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

// --- Files: docs/formats/checkpoint.md ---

namespace {

constexpr std::uint32_t kVersion = 1;

// Minimum size of the saved position of a logical shard.
constexpr std::size_t kShortestPart = 16;
// Minimum size of an adapter: the length of its state, and a state without type and fields.
constexpr std::size_t kShortestAdapter = 16;

void encode_part(ByteWriter& writer, StructureWriter& states,
                 const SavableDatasetCheckpoint& part) {
  writer.signed_varint(part.logical_shard);
  writer.signed_varint(part.turn.epoch);
  writer.signed_varint(part.turn.count);
  writer.u64(part.certificate.digest);
  writer.signed_varint(part.certificate.samples);
  writer.signed_varint(part.index);
  writer.signed_varint(part.epoch);
  writer.signed_varint(part.offset);
  writer.u8(part.state ? 1 : 0);
  if (part.state) {
    states.write(writer, *part.state);
  }
}

SavableDatasetCheckpoint decode_part(ByteReader& reader, const StructureReader& states) {
  SavableDatasetCheckpoint part;
  const std::int64_t logical_shard = reader.signed_varint();
  if (logical_shard < 0 || logical_shard >= kMaxLogicalShards) {
    reader.fail(fmt::format("invalid logical shard {}", logical_shard));
  }
  part.logical_shard = static_cast<int>(logical_shard);
  part.turn.epoch = reader.signed_varint();
  part.turn.count = reader.signed_varint();
  part.certificate.digest = reader.u64();
  part.certificate.samples = reader.signed_varint();
  part.index = reader.signed_varint();
  part.epoch = reader.signed_varint();
  part.offset = reader.signed_varint();
  if (reader.u8() != 0) {
    part.state = states.read(reader);
  }
  return part;
}

/// Appends all of `state` except its configuration.
void encode_position(ByteWriter& writer, StructureWriter& states,
                     const SavableDataLoaderState& state) {
  writer.i64(state.next_worker_id);
  writer.i64(state.epoch);
  writer.u8(state.epoch_finished ? 1 : 0);
  writer.i64(state.batch_index);
  writer.i64(state.step_in_epoch.value_or(-1));
  writer.i64(state.micro_batch_size.value_or(0));
  writer.u32(static_cast<std::uint32_t>(state.checkpoints.size()));
  for (const SavableDatasetCheckpoint& checkpoint : state.checkpoints) {
    encode_part(writer, states, checkpoint);
  }
  writer.u32(static_cast<std::uint32_t>(state.adapters.size()));
  for (const State& adapter : state.adapters) {
    writer.text(encode_state(adapter));
  }
}

/// Reads what encode_position() wrote. Throws Error (kCorruptData), also if check_loader_state()
/// refuses the state.
SavableDataLoaderState decode_position(ByteReader& reader, Config config,
                                       const StructureReader& states) {
  SavableDataLoaderState state;
  state.config = std::move(config);
  state.next_worker_id = reader.i64();
  state.epoch = reader.i64();
  state.epoch_finished = reader.u8() != 0;
  state.batch_index = reader.i64();
  const std::int64_t step = reader.i64();
  state.step_in_epoch = step == -1 ? std::nullopt : std::optional(step);
  if (const std::int64_t micro_batch_size = reader.i64(); micro_batch_size != 0) {
    state.micro_batch_size = micro_batch_size;
  }
  state.checkpoints.resize(reader.count(kShortestPart));
  for (SavableDatasetCheckpoint& checkpoint : state.checkpoints) {
    checkpoint = decode_part(reader, states);
  }
  state.adapters.resize(reader.count(kShortestAdapter));
  for (State& adapter : state.adapters) {
    adapter = decode_state(reader.text());
  }
  check_loader_state(state, "state");
  return state;
}

enum class Kind : std::uint8_t { kRank = 1, kJob = 2 };

constexpr std::string_view kMagic = "ENRGNCKP";
constexpr std::string_view kWhat = "the saved loader state";
constexpr std::size_t kEnvelopeBytes = 28;  // magic, version, length, checksum
constexpr std::uint64_t kLongestFile = std::uint64_t{4} << 30;

// Minimum size of the position of a rank.
constexpr std::size_t kShortestPosition = 29;

std::string encode_file(Kind kind, const Config& config,
                        std::span<const SavableDataLoaderState> ranks) {
  StructureWriter states;
  ByteWriter positions;
  for (const SavableDataLoaderState& rank : ranks) {
    encode_position(positions, states, rank);
  }
  ByteWriter body;
  body.u8(static_cast<std::uint8_t>(kind));
  body.text(dump_config(config));
  body.u32(static_cast<std::uint32_t>(ranks.size()));
  states.write_structures(body);
  ByteWriter file;
  file.reserve(kEnvelopeBytes + body.bytes().size() + positions.bytes().size());
  file.raw(kMagic);
  file.u32(kVersion);
  file.u64(body.bytes().size() + positions.bytes().size());
  file.raw(body.bytes());
  file.raw(positions.bytes());
  file.u64(xxh3_64(as_bytes(file.bytes())));
  return file.take();
}

// Checks the frame of a file and returns its body.
std::string_view open_envelope(std::string_view bytes) {
  ByteReader file(bytes, kWhat);
  if (bytes.size() < kMagic.size() || file.raw(kMagic.size()) != kMagic) {
    throw Error(ErrorCode::kCorruptData,
                "not a saved loader state: the file does not start with ENRGNCKP");
  }
  const std::uint32_t version = file.u32();
  if (version != kVersion) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the saved loader state has format version {}, but this program reads "
                            "version {}",
                            version, kVersion));
  }
  const std::uint64_t size = file.u64();
  if (size > file.left()) {
    file.fail(fmt::format("expected {} bytes, found {}; the file is truncated", size, file.left()));
  }
  const std::string_view body = file.raw(size);
  const std::size_t checked = file.position();
  const std::uint64_t expected = file.u64();
  file.finish();
  if (expected != xxh3_64(as_bytes(bytes.substr(0, checked)))) {
    throw Error(ErrorCode::kCorruptData,
                "the checksum of the saved loader state is wrong; the file is damaged");
  }
  return body;
}

Config decode_config(ByteReader& body) {
  Config config = Config::parse(body.text(), nullptr, false);
  if (!config.is_object()) {
    body.fail("the configuration is not JSON");
  }
  check_config(config, "state.config");  // before it is copied
  return config;
}

template <class Decode>
auto with_path(const std::string& path, const Decode& decode) {
  const std::string bytes = read_file(path, kLongestFile);
  try {
    return decode(bytes);
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

}  // namespace

std::string encode_loader_state(const SavableDataLoaderState& state) {
  return encode_file(Kind::kRank, state.config, {&state, 1});
}

std::string encode_job_state(const SavableJobState& job) {
  return encode_file(Kind::kJob, job.ranks.front().config, job.ranks);
}

SavedState decode_saved_state(std::string_view bytes) {
  ByteReader body(open_envelope(bytes), kWhat);
  const auto kind = static_cast<Kind>(body.u8());
  Config config = decode_config(body);
  const std::uint32_t count = body.count(kShortestPosition);
  if (count == 0 || (kind == Kind::kRank && count != 1) ||
      (kind != Kind::kRank && kind != Kind::kJob)) {
    body.fail(fmt::format("invalid kind {} with {} ranks", static_cast<int>(kind), count));
  }
  const StructureReader states(body);
  std::vector<SavableDataLoaderState> ranks;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    if (kind == Kind::kJob) {
      config["rank"] = rank;
    }
    ranks.push_back(decode_position(body, config, states));
  }
  body.finish();
  if (kind == Kind::kRank) {
    return std::move(ranks.front());
  }
  return merge_states(std::move(ranks));
}

SavableDataLoaderState decode_loader_state(std::string_view bytes) {
  SavedState saved = decode_saved_state(bytes);
  if (const auto* job = std::get_if<SavableJobState>(&saved)) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("expected the state of one rank, found that of a job of {} ranks",
                            job->ranks.size()));
  }
  return std::get<SavableDataLoaderState>(std::move(saved));
}

void write_loader_state(const std::string& path, const SavableDataLoaderState& state) {
  write_file_atomically(path, as_bytes(encode_loader_state(state)));
}

void write_job_state(const std::string& path, const SavableJobState& job) {
  write_file_atomically(path, as_bytes(encode_job_state(job)));
}

SavableDataLoaderState read_loader_state(const std::string& path) {
  return with_path(path, decode_loader_state);
}

SavedState read_saved_state(const std::string& path) { return with_path(path, decode_saved_state); }

}  // namespace energon
