#include "energon/distributed/sample_bytes.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "energon/state/byte_codec.h"
#include "energon/worker/transport.h"

namespace energon {
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

}  // namespace energon
