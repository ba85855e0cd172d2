#include "energon/distributed/sample_bytes.h"

#include <algorithm>
#include <cstring>

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

}  // namespace

SampleStructure encode_structure(const Sample& batch) {
  SampleStructure structure;
  Appender placer(structure);
  ByteWriter writer;
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
  return decode_sample(structure, std::span(&slot, 1));
}

}  // namespace energon
