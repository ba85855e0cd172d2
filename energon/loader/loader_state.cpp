#include "energon/loader/loader_state.h"

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

}  // namespace energon
