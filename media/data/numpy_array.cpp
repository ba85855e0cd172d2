#include "media/data/numpy_array.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "media/data/npy_header.h"
#include "media/data/zip_members.h"

namespace energon {
namespace {

constexpr std::string_view kNpySuffix = ".npy";

TensorSpec spec_of(const NpyHeader& header, const DecodeLimits& limits) {
  const std::uint64_t elements = header.data_bytes / header.type.stored_size;
  check_decoded_bytes("the array", elements * size_of(header.type.dtype), limits);
  return {header.type.dtype, header.shape};
}

}  // namespace

TensorSpec NpyDecoder::probe(ByteView encoded) const {
  return spec_of(parse_npy_header(encoded), limits_);
}

void NpyDecoder::decode_into(ByteView encoded, std::span<std::byte> to) const {
  const NpyHeader header = parse_npy_header(encoded);
  const TensorSpec spec = spec_of(header, limits_);
  const std::size_t size = tensor_bytes(spec.dtype, spec.shape);
  if (to.size() != size) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the array takes {} bytes, there is room for {}", size, to.size()));
  }
  const std::vector<std::int64_t> strides =
      header.is_column_major ? column_major_strides(header.shape) : row_major_strides(header.shape);
  copy_elements({.bytes = encoded.subspan(header.data_offset),
                 .type = header.type,
                 .is_byte_swapped = header.is_byte_swapped,
                 .shape = header.shape,
                 .strides = strides},
                to);
}

Mapping decode_npz(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory) {
  Mapping result;
  std::uint64_t bytes = 0;
  const NpyDecoder decoder(limits);
  for (const ZipMember& member : read_zip(encoded, limits)) {
    if (!member.name.ends_with(kNpySuffix)) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the npz has a member '{}'; only arrays (.npy) are read",
                              printable(member.name)));
    }
    std::string name = member.name.substr(0, member.name.size() - kNpySuffix.size());
    try {
      Tensor tensor = decoder.decode(member.content, memory);
      bytes += tensor.data.size();
      check_decoded_bytes("the npz", bytes, limits);
      result.emplace_back(std::move(name), std::move(tensor));
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("array '{}': {}", printable(name), error.message()),
                  error.context());
    }
  }
  return result;
}

}  // namespace energon
