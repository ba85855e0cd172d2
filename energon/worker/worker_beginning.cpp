#include "energon/worker/worker_beginning.h"

#include "energon/checkpoint/loader_state.h"
#include "energon/state/byte_codec.h"

namespace energon {
namespace {

constexpr std::size_t kLeastStreamBytes = 45;  // of a stream's beginning

}  // namespace

std::string encode_beginning(const WorkerBeginning& beginning) {
  ByteWriter writer;
  writer.i64(beginning.epoch);
  writer.u32(static_cast<std::uint32_t>(beginning.streams.size()));
  for (const SavableDatasetCheckpoint& stream : beginning.streams) {
    writer.i64(stream.turn.epoch);
    writer.i64(stream.turn.count);
    encode_checkpoint(writer, stream);
  }
  return writer.take();
}

WorkerBeginning decode_beginning(std::string_view bytes) {
  ByteReader reader(bytes, "the beginning of a worker");
  WorkerBeginning beginning;
  beginning.epoch = reader.i64();
  beginning.streams.resize(reader.count(kLeastStreamBytes));
  for (SavableDatasetCheckpoint& stream : beginning.streams) {
    const Turn turn{.epoch = reader.i64(), .count = reader.i64()};
    stream = decode_checkpoint(reader);
    stream.turn = turn;
  }
  reader.finish();
  return beginning;
}

}  // namespace energon
