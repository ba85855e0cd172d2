#include "protocols/accelerate/dispatch_part.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "energon/worker/transport.h"
#include "io/byte_codec.h"
#include "io/error.h"

namespace energon {

// --- Batches as bytes ---

namespace {

constexpr std::uint64_t kAlignment = 64;

std::uint64_t aligned(std::uint64_t offset) {
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

class Appender final : public PayloadPlacer {
 public:
  explicit Appender(SampleStructure& structure) : structure_(structure) {}

  PayloadPlace place(const SharedBytes& payload) override {
    const std::uint64_t offset = aligned(structure_.data_bytes);
    structure_.payloads.push_back(payload);
    structure_.data_bytes = offset + payload.size();
    return {0, offset};
  }

 private:
  SampleStructure& structure_;
};

void encode_place(const std::optional<BatchPlace>& place, ByteWriter& writer) {
  writer.u8(place ? 1 : 0);
  if (place) {
    writer.i64(place->logical_shard);
    writer.i64(place->epoch);
    writer.i64(place->turn);
  }
}

std::optional<BatchPlace> decode_place(ByteReader& reader) {
  if (reader.u8() == 0) {
    return std::nullopt;
  }
  BatchPlace place;
  place.logical_shard = static_cast<int>(reader.i64());
  place.epoch = reader.i64();
  place.turn = reader.i64();
  return place;
}

}  // namespace

SampleStructure encode_structure(const Sample& batch) {
  SampleStructure structure;
  Appender placer(structure);
  ByteWriter writer;
  encode_place(batch.place, writer);
  encode_sample(batch, placer, writer);
  structure.bytes = writer.take();
  return structure;
}

void copy_data(const SampleStructure& structure, std::span<std::byte> data) {
  std::uint64_t offset = 0;
  for (const SharedBytes& payload : structure.payloads) {
    const std::uint64_t begin = aligned(offset);
    std::ranges::fill(data.subspan(offset, begin - offset), std::byte{0});
    if (payload.size() > 0) {
      std::memcpy(data.data() + begin, payload.view.data(), payload.size());
    }
    offset = begin + payload.size();
  }
}

Sample decode_batch(std::string_view structure, const Buffer& data) {
  const SharedBytes slot{data.bytes, data.owner};
  ByteReader reader(structure, "a batch from rank 0");
  const std::optional<BatchPlace> place = decode_place(reader);
  Sample batch = decode_sample(reader.raw(reader.left()), std::span(&slot, 1));
  batch.place = place;
  return batch;
}

// --- Parts ---

namespace {

// Rank 0 keeps its batch, so the first structure is empty.
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
  note.raw(structure.bytes);
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
  } catch (...) {  // such as out of memory; no rank may be left waiting
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
