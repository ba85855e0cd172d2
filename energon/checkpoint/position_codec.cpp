#include "energon/checkpoint/position_codec.h"

#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/order/worker_config.h"

namespace energon {
namespace {

// Least bytes of a worker's part: of the versions before 4, and of this one.
constexpr std::size_t kShortestPart = 29;
constexpr std::size_t kShortestPackedPart = 16;
// Least bytes of an adapter: the length of its state, and a state without type and fields.
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
    reader.fail(fmt::format("there is no logical shard {}", logical_shard));
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

SavableDatasetCheckpoint decode_unpacked_part(ByteReader& reader) {
  const std::uint32_t logical_shard = reader.u32();
  const Turn turn{.epoch = reader.i64(), .count = reader.i64()};
  const Certificate certificate{.digest = reader.u64(), .samples = reader.i64()};
  if (logical_shard >= static_cast<std::uint32_t>(kMaxLogicalShards)) {
    reader.fail(fmt::format("there is no logical shard {}", logical_shard));
  }
  SavableDatasetCheckpoint part = decode_checkpoint(reader);
  part.logical_shard = static_cast<int>(logical_shard);
  part.turn = turn;
  part.certificate = certificate;
  return part;
}

// What a state of version 1 does not say: the logical shard of worker i is that of Energon, and
// whose turn it is follows from next_worker_id.
void complete_first_version(SavableDataLoaderState& state) {
  const auto workers = static_cast<std::int64_t>(state.streams.size());
  const std::int64_t first = layout_of(state.config).rank * workers;
  for (std::int64_t i = 0; i < workers; ++i) {
    SavableDatasetCheckpoint& worker = state.streams[static_cast<std::size_t>(i)];
    worker.logical_shard = static_cast<int>(first + i);
    worker.turn = {state.epoch + (state.epoch_finished ? 1 : 0), i < state.next_worker_id ? 1 : 0};
  }
  state.step_in_epoch = state.epoch == 0 ? std::optional(state.batch_index) : std::nullopt;
}

void decode_parts(ByteReader& reader, std::uint32_t version, const StructureReader* states,
                  SavableDataLoaderState& state) {
  state.streams.resize(reader.count(states != nullptr ? kShortestPackedPart : kShortestPart));
  for (SavableDatasetCheckpoint& worker : state.streams) {
    worker = states != nullptr         ? decode_part(reader, *states)
             : version > kFirstVersion ? decode_unpacked_part(reader)
                                       : decode_checkpoint(reader);
  }
}

}  // namespace

void encode_position(ByteWriter& writer, StructureWriter& states,
                     const SavableDataLoaderState& state) {
  writer.i64(state.next_worker_id);
  writer.i64(state.epoch);
  writer.u8(state.epoch_finished ? 1 : 0);
  writer.i64(state.batch_index);
  writer.i64(state.step_in_epoch.value_or(-1));
  writer.i64(state.micro_batch_size.value_or(0));
  writer.u32(static_cast<std::uint32_t>(state.streams.size()));
  for (const SavableDatasetCheckpoint& worker : state.streams) {
    encode_part(writer, states, worker);
  }
  writer.u32(static_cast<std::uint32_t>(state.adapters.size()));
  for (const State& adapter : state.adapters) {
    writer.text(encode_state(adapter));
  }
}

SavableDataLoaderState decode_position(ByteReader& reader, Config config, std::uint32_t version,
                                       const StructureReader* states) {
  SavableDataLoaderState state;
  state.config = std::move(config);
  state.next_worker_id = reader.i64();
  state.epoch = reader.i64();
  state.epoch_finished = reader.u8() != 0;
  state.batch_index = reader.i64();
  if (version > kFirstVersion) {
    const std::int64_t step = reader.i64();
    state.step_in_epoch = step == -1 ? std::nullopt : std::optional(step);
  }
  if (const std::int64_t micro_batch_size = reader.i64(); micro_batch_size != 0) {
    state.micro_batch_size = micro_batch_size;
  }
  decode_parts(reader, version, states, state);
  if (version == kFirstVersion) {
    complete_first_version(state);
  }
  if (version >= kAdaptersVersion) {
    state.adapters.resize(reader.count(kShortestAdapter));
    for (State& adapter : state.adapters) {
      adapter = decode_state(reader.text());
    }
  }
  check_loader_state(state, "state");
  return state;
}

}  // namespace energon
