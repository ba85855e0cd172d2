#include "energon/loader/loader_state.h"

#include <utility>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/error.h"
#include "io/file_source.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr std::string_view kMagic = "ENRGNCKP";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kLongestFile = std::uint64_t{4} << 30;

}  // namespace

bool SavableDataLoaderState::operator==(const SavableDataLoaderState& other) const {
  return config == other.config && worker_states == other.worker_states &&
         next_worker_id == other.next_worker_id && epoch == other.epoch &&
         epoch_finished == other.epoch_finished && batch_index == other.batch_index &&
         micro_batch_size == other.micro_batch_size;
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
    reader.fail("a worker has a negative position");
  }
  return checkpoint;
}

std::string encode_loader_state(const SavableDataLoaderState& state) {
  ByteWriter body;
  body.text(state.config.dump());
  body.i64(state.next_worker_id);
  body.i64(state.epoch);
  body.u8(state.epoch_finished ? 1 : 0);
  body.i64(state.batch_index);
  body.i64(state.micro_batch_size.value_or(0));
  body.u32(static_cast<std::uint32_t>(state.worker_states.size()));
  for (const SavableDatasetCheckpoint& worker : state.worker_states) {
    encode_checkpoint(body, worker);
  }
  ByteWriter file;
  file.raw(kMagic.data(), kMagic.size());
  file.u32(kVersion);
  file.u64(body.bytes().size());
  file.raw(body.bytes().data(), body.bytes().size());
  file.u64(xxh3_64(as_bytes(file.bytes())));
  return file.take();
}

SavableDataLoaderState decode_loader_state(std::string_view bytes) {
  ByteReader file(bytes, "the saved loader state");
  if (bytes.size() < kMagic.size() || file.raw(kMagic.size()) != kMagic) {
    throw Error(ErrorCode::kCorruptData,
                "this is not a saved loader state (it does not begin with ENRGNCKP)");
  }
  if (const std::uint32_t version = file.u32(); version != kVersion) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("the saved loader state has format version {}, this program reads version {}",
                    version, kVersion));
  }
  const std::uint64_t size = file.u64();
  if (size > file.left()) {
    file.fail(
        fmt::format("{} bytes expected, {} are left; the file is truncated", size, file.left()));
  }
  ByteReader body(file.raw(size), "the saved loader state");
  const std::size_t checked = file.position();
  const std::uint64_t expected = file.u64();
  file.finish();
  if (expected != xxh3_64(as_bytes(bytes.substr(0, checked)))) {
    throw Error(ErrorCode::kCorruptData,
                "the saved loader state does not have its checksum; the file is damaged");
  }
  SavableDataLoaderState state;
  state.config = Config::parse(body.text(), nullptr, false);
  if (!state.config.is_object()) {
    body.fail("its configuration is not JSON");
  }
  state.next_worker_id = body.i64();
  state.epoch = body.i64();
  state.epoch_finished = body.u8() != 0;
  state.batch_index = body.i64();
  if (const std::int64_t micro_batch_size = body.i64(); micro_batch_size != 0) {
    state.micro_batch_size = micro_batch_size;
  }
  state.worker_states.resize(body.count(29));
  for (SavableDatasetCheckpoint& worker : state.worker_states) {
    worker = decode_checkpoint(body);
  }
  body.finish();
  const auto workers = static_cast<std::int64_t>(state.worker_states.size());
  if (workers == 0 || state.next_worker_id < 0 || state.next_worker_id >= workers ||
      state.epoch < 0 || state.batch_index < 0 || state.micro_batch_size.value_or(1) < 1) {
    body.fail(fmt::format("impossible position (worker {} of {}, epoch {}, batch {})",
                          state.next_worker_id, workers, state.epoch, state.batch_index));
  }
  return state;
}

void write_loader_state(const std::string& path, const SavableDataLoaderState& state) {
  write_file_atomically(path, as_bytes(encode_loader_state(state)));
}

SavableDataLoaderState read_loader_state(const std::string& path) {
  const std::string bytes = read_file(path, kLongestFile);
  try {
    return decode_loader_state(bytes);
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

nlohmann::ordered_json describe_loader_state(const SavableDataLoaderState& state) {
  nlohmann::ordered_json json;
  json["batch_index"] = state.batch_index;
  json["epoch"] = state.epoch;
  json["epoch_finished"] = state.epoch_finished;
  json["next_worker_id"] = state.next_worker_id;
  json["micro_batch_size"] = nullptr;
  if (state.micro_batch_size) {
    json["micro_batch_size"] = *state.micro_batch_size;
  }
  json["worker_states"] = nlohmann::ordered_json::array();
  for (const SavableDatasetCheckpoint& worker : state.worker_states) {
    nlohmann::ordered_json entry = {{"index", worker.index},
                                    {"epoch", worker.epoch},
                                    {"offset", worker.offset},
                                    {"state", nullptr}};
    if (worker.state) {
      entry["state"] = describe_state(*worker.state);
    }
    json["worker_states"].push_back(std::move(entry));
  }
  json["config"] = state.config;
  return json;
}

}  // namespace energon
