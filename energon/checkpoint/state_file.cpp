// The file form of states: docs/formats/checkpoint.md.

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
#include "energon/checkpoint/loader_state.h"
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
