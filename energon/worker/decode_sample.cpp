#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/worker/encoded_form.h"
#include "energon/worker/transport.h"

namespace energon {
namespace {

class Decoder {
 public:
  Decoder(ByteReader& reader, std::span<const SharedBytes> slots)
      : reader_(reader), slots_(slots) {}

  Value value(int depth) {
    if (depth > kMaxValueDepth) {
      reader_.fail("values are too deeply nested");
    }
    switch (static_cast<encoded_form::Kind>(reader_.u8())) {
      case encoded_form::Kind::kBytes:
        return payload();
      case encoded_form::Kind::kText:
        return std::string(reader_.text());
      case encoded_form::Kind::kInteger:
        return reader_.i64();
      case encoded_form::Kind::kFloat:
        return reader_.f64();
      case encoded_form::Kind::kTensor:
        return tensor();
      case encoded_form::Kind::kList:
        return list(depth + 1);
      case encoded_form::Kind::kTuple:
        return Tuple{list(depth + 1)};
      case encoded_form::Kind::kBigInteger:
        return big_integer();
      case encoded_form::Kind::kMapping:
        return mapping(depth + 1);
      case encoded_form::Kind::kNull:
        return Null();
      case encoded_form::Kind::kBool:
        return truth();
      case encoded_form::Kind::kBytesList:
        return bytes_list();
      case encoded_form::Kind::kLazy:
        reader_.fail("lazy bytes do not cross");
    }
    reader_.fail("unknown kind of value");
  }

  Mapping mapping(int depth) {
    Mapping mapping;
    const std::uint32_t count = reader_.count(5);
    mapping.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::string name(reader_.text());
      mapping.emplace_back(std::move(name), value(depth));
    }
    return mapping;
  }

 private:
  SharedBytes payload() { return payload(reader_.raw(sizeof(encoded_form::EncodedPayload))); }

  SharedBytes payload(std::string_view encoded) {
    encoded_form::EncodedPayload place;
    std::memcpy(&place, encoded.data(), sizeof(place));
    if (place.slot >= slots_.size() || place.offset > slots_[place.slot].size() ||
        place.size > slots_[place.slot].size() - place.offset) {
      reader_.fail(fmt::format("payload [{}, +{}) does not lie in slot {}", place.offset,
                               place.size, place.slot));
    }
    const SharedBytes& slot = slots_[place.slot];
    return {slot.view.subspan(place.offset, place.size), slot.owner};
  }

  List list(int depth) {
    List list;
    const std::uint32_t count = reader_.count(1);
    list.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      list.push_back(value(depth));
    }
    return list;
  }

  BigInteger big_integer() {
    std::string digits(reader_.text());
    if (!BigInteger::is_valid(digits)) {
      reader_.fail("an integer is no decimal number");
    }
    return BigInteger(std::move(digits));
  }

  bool truth() {
    const std::uint8_t byte = reader_.u8();
    if (byte > 1) {
      reader_.fail("a truth value is neither 0 nor 1");
    }
    return byte == 1;
  }

  List bytes_list() {
    const std::size_t count = reader_.count(sizeof(encoded_form::EncodedPayload));
    const std::string_view encoded = reader_.raw(count * sizeof(encoded_form::EncodedPayload));
    List list;
    list.reserve(count);
    for (std::size_t i = 0; i < encoded.size(); i += sizeof(encoded_form::EncodedPayload)) {
      list.emplace_back(payload(encoded.substr(i, sizeof(encoded_form::EncodedPayload))));
    }
    return list;
  }

  Tensor tensor() {
    Tensor tensor;
    tensor.dtype = static_cast<DType>(reader_.u8());
    std::uint64_t bytes = size_of(tensor.dtype);
    if (bytes == 0) {
      reader_.fail("unknown dtype");
    }
    tensor.shape.resize(reader_.count(sizeof(std::int64_t)));
    for (std::int64_t& length : tensor.shape) {
      length = reader_.i64();
      if (length < 0 || (length > 0 && bytes > std::numeric_limits<std::uint64_t>::max() /
                                                   static_cast<std::uint64_t>(length))) {
        reader_.fail("impossible tensor shape");
      }
      bytes *= static_cast<std::uint64_t>(length);
    }
    tensor.data = payload();
    if (tensor.data.size() != bytes) {
      reader_.fail(
          fmt::format("tensor of {} bytes has a payload of {}", bytes, tensor.data.size()));
    }
    return tensor;
  }

  ByteReader& reader_;
  const std::span<const SharedBytes> slots_;
};

std::vector<SampleSource> decode_sources(ByteReader& reader, NumberedShards& shards) {
  shards.decode_new(reader);
  const std::size_t count = reader.count(sizeof(encoded_form::EncodedSource));
  const std::string_view all = reader.raw(count * sizeof(encoded_form::EncodedSource));
  std::vector<SampleSource> sources;
  sources.reserve(count);
  for (std::size_t i = 0; i < all.size(); i += sizeof(encoded_form::EncodedSource)) {
    encoded_form::EncodedSource encoded;
    std::memcpy(&encoded, all.data() + i, sizeof(encoded));
    sources.push_back({.shard = shards.at(encoded.shard, reader),
                       .index_in_shard = encoded.index_in_shard,
                       .bytes = encoded.bytes,
                       .sample = encoded.sample,
                       .checksum = encoded.checksum});
  }
  return sources;
}

Keys decode_keys(ByteReader& reader) {
  const std::size_t count = reader.count(sizeof(std::uint32_t));
  const std::string_view encoded = reader.raw(count * sizeof(std::uint32_t));
  std::vector<std::uint32_t> lengths(count);
  if (count > 0) {  // or both may be null
    std::memcpy(lengths.data(), encoded.data(), encoded.size());
  }
  const std::uint64_t total = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
  std::string_view characters = reader.raw(total);
  Keys keys;
  keys.reserve(count, total);
  for (const std::uint32_t length : lengths) {
    keys.push_back(characters.substr(0, length));
    characters.remove_prefix(length);
  }
  return keys;
}

}  // namespace

Sample decode_sample(std::string_view encoded, std::span<const SharedBytes> slots,
                     NumberedShards& shards) {
  ByteReader reader(encoded, "a batch from a worker");
  Sample sample;
  sample.keys = decode_keys(reader);
  if (const std::string_view key = reader.text(); !key.empty()) {
    sample.restore_key = RestoreKey::from_bytes(key);
  }
  sample.fields = Decoder(reader, slots).mapping(0);
  sample.sources = decode_sources(reader, shards);
  reader.finish();
  return sample;
}

Sample decode_sample(std::string_view encoded, std::span<const SharedBytes> slots) {
  NumberedShards shards;
  return decode_sample(encoded, slots, shards);
}

}  // namespace energon
