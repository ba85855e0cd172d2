#include "energon/loader/loader_state.h"

#include <utility>

#include "io/hash.h"

namespace energon {

bool SavableDataLoaderState::operator==(const SavableDataLoaderState& other) const {
  return config == other.config && worker_states == other.worker_states &&
         next_worker_id == other.next_worker_id && epoch == other.epoch &&
         epoch_finished == other.epoch_finished && batch_index == other.batch_index &&
         step_in_epoch == other.step_in_epoch && micro_batch_size == other.micro_batch_size;
}

Certificate certificate_of(const SavableDataLoaderState& state) {
  std::vector<CertificatePart> parts;
  for (const SavableDatasetCheckpoint& worker : state.worker_states) {
    parts.push_back({worker.logical_shard, worker.certificate});
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
    reader.fail("a worker has a negative position");
  }
  return checkpoint;
}

nlohmann::ordered_json describe_loader_state(const SavableDataLoaderState& state) {
  nlohmann::ordered_json json;
  json["batch_index"] = state.batch_index;
  json["step_in_epoch"] = nullptr;
  if (state.step_in_epoch) {
    json["step_in_epoch"] = *state.step_in_epoch;
  }
  json["certificate"] = to_hex(certificate_of(state).digest);
  json["samples"] = certificate_of(state).samples;
  json["epoch"] = state.epoch;
  json["epoch_finished"] = state.epoch_finished;
  json["next_worker_id"] = state.next_worker_id;
  json["micro_batch_size"] = nullptr;
  if (state.micro_batch_size) {
    json["micro_batch_size"] = *state.micro_batch_size;
  }
  json["worker_states"] = nlohmann::ordered_json::array();
  for (const SavableDatasetCheckpoint& worker : state.worker_states) {
    nlohmann::ordered_json entry = {
        {"logical_shard", worker.logical_shard},
        {"turn", {{"epoch", worker.turn.epoch}, {"count", worker.turn.count}}},
        {"certificate", to_hex(worker.certificate.digest)},
        {"samples", worker.certificate.samples},
        {"index", worker.index},
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
