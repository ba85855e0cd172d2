#include "energon/distributed/dispatch_part.h"

#include <exception>
#include <utility>

#include "energon/distributed/sample_bytes.h"
#include "energon/state/byte_codec.h"
#include "io/error.h"

namespace energon {
namespace {

// Rank 0 keeps its batch as it is, so the first structure is empty.
std::vector<SampleStructure> encode_batches(const std::vector<DispatchPart>& parts) {
  std::vector<SampleStructure> structures(parts.size());
  for (std::size_t rank = 1; rank < parts.size(); ++rank) {
    if (parts[rank].kind == DispatchKind::kBatch) {
      structures[rank] = encode_structure(parts[rank].batch);
    }
  }
  return structures;
}

std::string encode_note(const DispatchPart& part, const SampleStructure& structure) {
  ByteWriter note;
  note.u8(static_cast<std::uint8_t>(part.kind));
  note.u8(part.last ? 1 : 0);
  note.i64(part.group_samples);
  note.i64(part.groups);
  note.i64(part.epoch);
  note.i64(part.handed_out);
  note.u64(structure.data_bytes);
  note.text(part.failure);
  note.raw(structure.bytes.data(), structure.bytes.size());
  return note.take();
}

void send_data(const std::vector<SampleStructure>& structures, Comm& comm,
               BufferAllocator& memory) {
  std::vector<Buffer> buffers;
  std::vector<ByteView> data;
  buffers.reserve(structures.size());
  data.reserve(structures.size());
  for (const SampleStructure& structure : structures) {
    buffers.push_back(memory.allocate(structure.data_bytes));
    copy_data(structure, buffers.back().bytes);
    data.push_back(buffers.back().bytes);
  }
  comm.scatter_into(data, {}, 0);
}

}  // namespace

std::vector<DispatchPart> failed_parts(std::size_t ranks, const Error& error) {
  return std::vector<DispatchPart>(
      ranks, DispatchPart{.kind = DispatchKind::kFailure, .failure = encode_error(error)});
}

DispatchPart send_parts(std::vector<DispatchPart> parts, Comm& comm, BufferAllocator& memory) {
  std::vector<SampleStructure> structures;
  try {
    structures = encode_batches(parts);
  } catch (...) {  // such as lack of memory: no rank is left waiting
    parts = failed_parts(
        parts.size(), to_error(std::current_exception(), "encoding a batch", ErrorCode::kInternal));
    structures.clear();
    structures.resize(parts.size());
  }
  std::vector<std::string> notes;
  notes.reserve(parts.size());
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    notes.push_back(encode_note(parts[rank], structures[rank]));
  }
  comm.scatter(std::move(notes), 0);
  if (parts.front().kind == DispatchKind::kBatch) {
    send_data(structures, comm, memory);
  }
  return std::move(parts.front());
}

DispatchPart receive_part(Comm& comm, BufferAllocator& memory) {
  const std::string note = comm.scatter({}, 0);
  ByteReader reader(note, "a part of a batch from rank 0");
  DispatchPart part;
  part.kind = static_cast<DispatchKind>(reader.u8());
  part.last = reader.u8() != 0;
  part.group_samples = reader.i64();
  part.groups = reader.i64();
  part.epoch = reader.i64();
  part.handed_out = reader.i64();
  const std::uint64_t data_bytes = reader.u64();
  part.failure = reader.text();
  const std::string_view structure = reader.raw(reader.left());
  if (part.kind == DispatchKind::kBatch) {
    const Buffer data = memory.allocate(data_bytes);
    comm.scatter_into({}, data.bytes, 0);
    part.batch = decode_batch(structure, data);
  }
  return part;
}

}  // namespace energon
