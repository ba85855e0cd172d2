#include "energon/worker/transport.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/sample/sample.h"
#include "io/byte_codec.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/overloaded.h"

namespace energon {
namespace {

// The form of encoded samples.

namespace encoded_form {

// Kinds of values. The first ones follow the order of Value's alternatives; kLazy cannot be sent.
// kBytesList is a list whose values are all bytes.
enum class Kind : std::uint8_t {
  kBytes,
  kText,
  kInteger,
  kFloat,
  kTensor,
  kList,
  kMapping,
  kLazy,
  kNull,
  kBool,
  kBytesList,
  kTuple,
  kBigInteger
};
static_assert(std::variant_size_v<Value::Base> == static_cast<std::size_t>(Kind::kBigInteger));

/// The kind of a value that is not a list of bytes.
Kind kind_of(const Value& value) {
  const auto index = static_cast<std::uint8_t>(value.base().index());
  const bool is_after_gap = index >= static_cast<std::uint8_t>(Kind::kBytesList);
  return static_cast<Kind>(index + (is_after_gap ? 1 : 0));
}

// Elements of the flat arrays. They have no padding, whose bytes would be undefined.
struct EncodedPayload {
  std::uint64_t offset;  // in the slot
  std::uint64_t size;
  std::uint32_t slot;
  std::uint32_t unused;
};
static_assert(sizeof(EncodedPayload) == 24);

struct EncodedSource {
  std::int64_t index_in_shard;
  ByteRange bytes;
  std::uint64_t checksum;
  std::uint32_t shard;  // its number
  std::uint32_t sample;
};
static_assert(sizeof(EncodedSource) == 40);

}  // namespace encoded_form

constexpr std::size_t kMostShards = 16'384;

constexpr std::size_t kLeastShardBytes = 12;  // three empty strings

}  // namespace

// --- ShardNumbers and NumberedShards ---

std::uint32_t ShardNumbers::number(const std::shared_ptr<const SourceShard>& shard) {
  const auto [found, is_new] =
      numbers_.try_emplace(shard.get(), static_cast<std::uint32_t>(shards_.size()));
  if (is_new) {
    shards_.push_back(shard);
  }
  return found->second;
}

void ShardNumbers::encode_new(std::span<const SampleSource> sources, ByteWriter& writer) {
  if (shards_.size() >= kMostShards) {
    numbers_.clear();
    shards_.clear();
    last_ = nullptr;
  }
  const std::size_t first = shards_.size();
  for (const SampleSource& source : sources) {
    if (!source.shard) {
      throw Error(ErrorCode::kInvalidArgument, "a source of the batch has no shard");
    }
    if (source.shard.get() != last_) {
      last_number_ = number(source.shard);
      last_ = source.shard.get();
    }
  }
  writer.u32(static_cast<std::uint32_t>(first));
  writer.u32(static_cast<std::uint32_t>(shards_.size() - first));
  for (std::size_t i = first; i < shards_.size(); ++i) {
    writer.text(shards_[i]->dataset_path);
    writer.text(shards_[i]->shard_name);
    writer.text(shards_[i]->subflavors);
  }
}

std::uint32_t ShardNumbers::of(const SampleSource& source) const {
  if (source.shard.get() != last_) {
    last_number_ = numbers_.at(source.shard.get());
    last_ = source.shard.get();
  }
  return last_number_;
}

void NumberedShards::decode_new(ByteReader& reader) {
  const std::uint32_t first = reader.u32();
  if (first == 0) {
    shards_.clear();
  }
  if (first != shards_.size()) {
    reader.fail(fmt::format("shards begin at number {}, expected {}", first, shards_.size()));
  }
  for (std::uint32_t left = reader.count(kLeastShardBytes); left > 0; --left) {
    SourceShard shard;
    shard.dataset_path = reader.text();
    shard.shard_name = reader.text();
    shard.subflavors = reader.text();
    shards_.push_back(std::make_shared<const SourceShard>(std::move(shard)));
  }
}

const std::shared_ptr<const SourceShard>& NumberedShards::at(std::uint32_t number,
                                                             ByteReader& reader) const {
  if (number >= shards_.size()) {
    reader.fail("source refers to an unknown shard");
  }
  return shards_[number];
}

// --- Encoding samples ---

namespace {

bool is_bytes_list(const List& values) {
  return !values.empty() && std::ranges::all_of(values, [](const Value& value) {
    return std::holds_alternative<SharedBytes>(value.base());
  });
}

class Encoder {
 public:
  Encoder(PayloadPlacer& placer, ByteWriter& writer) : placer_(placer), writer_(writer) {}

  void value(const Value& value) {
    if (depth_ > kMaxValueDepth) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("field '{}' has lists and mappings nested more than {} deep, "
                              "which cannot leave a worker",
                              printable(outermost_), kMaxValueDepth));
    }
    if (const List* const list = std::get_if<List>(&value.base()); list && is_bytes_list(*list)) {
      bytes_list(*list);
      return;
    }
    writer_.u8(static_cast<std::uint8_t>(encoded_form::kind_of(value)));
    std::visit(Overloaded{
                   [&](const SharedBytes& bytes) { payload(bytes); },
                   [&](const std::string& text) { writer_.text(text); },
                   [&](std::int64_t integer) { writer_.i64(integer); },
                   [&](double number) { writer_.f64(number); },
                   [&](const Tensor& tensor) { this->tensor(tensor); },
                   [&](const List& values) { list(values); },
                   [&](const Mapping& fields) {
                     ++depth_;
                     mapping(fields);
                     --depth_;
                   },
                   [&](const LazyBytes& lazy) { refuse(lazy); },
                   [](Null) {},
                   [&](bool truth) { writer_.u8(truth ? 1 : 0); },
                   [&](const Tuple& tuple) { list(tuple.items); },
                   [&](const BigInteger& integer) { writer_.text(integer.digits()); },
               },
               value.base());
  }

  void mapping(const Mapping& mapping) {
    writer_.u32(static_cast<std::uint32_t>(mapping.size()));
    const Name* const outer = name_;
    for (const auto& [text, element] : mapping) {
      const Name name{text, outer};
      name_ = &name;
      if (outer == nullptr) {
        outermost_ = text;
      }
      writer_.text(text);
      value(element);
    }
    name_ = outer;
  }

 private:
  /// The name of a field, and a link to that of the mapping around it.
  struct Name {
    std::string_view text;
    const Name* outer;
  };

  // The names from the sample's field to the value that is encoded, such as "meta.image".
  std::string path() const {
    std::vector<std::string_view> names;
    for (const Name* name = name_; name != nullptr; name = name->outer) {
      names.push_back(name->text);
    }
    return printable(fmt::format("{}", fmt::join(names.rbegin(), names.rend(), ".")));
  }

  void tensor(const Tensor& tensor) {
    check(tensor);
    writer_.u8(static_cast<std::uint8_t>(tensor.dtype));
    writer_.u32(static_cast<std::uint32_t>(tensor.shape.size()));
    writer_.raw(tensor.shape.data(), tensor.shape.size() * sizeof(std::int64_t));
    payload(tensor.data);
  }

  void bytes_list(const List& values) {
    writer_.u8(static_cast<std::uint8_t>(encoded_form::Kind::kBytesList));
    writer_.u32(static_cast<std::uint32_t>(values.size()));
    for (const Value& value : values) {
      payload(std::get<SharedBytes>(value.base()));
    }
  }

  void list(const List& values) {
    writer_.u32(static_cast<std::uint32_t>(values.size()));
    ++depth_;
    for (const Value& element : values) {
      value(element);
    }
    --depth_;
  }

  [[noreturn]] void refuse(const LazyBytes& lazy) const {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("field '{}' is lazy ({}) and cannot leave the process that would fetch "
                            "it: replace it with the result of get() in postencode_sample (or "
                            "encode_sample)",
                            path(), lazy.describe()));
  }

  // Checked here, where the field has a name; the parent would only find damage.
  void check(const Tensor& tensor) const {
    std::uint64_t bytes = size_of(tensor.dtype);
    bool is_possible = bytes > 0;
    for (const std::int64_t length : tensor.shape) {
      is_possible = is_possible && length >= 0 &&
                    !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(length), &bytes);
    }
    if (!is_possible || bytes != tensor.data.size()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format(
              "field '{}' is not a valid tensor: its dtype is {}, its shape ({}), and it has "
              "{} bytes of data",
              path(), to_string(tensor.dtype), fmt::join(tensor.shape, ", "), tensor.data.size()));
    }
  }

  void payload(const SharedBytes& bytes) {
    const PayloadPlace place = placer_.place(bytes);
    const encoded_form::EncodedPayload payload{
        .offset = place.offset, .size = bytes.size(), .slot = place.slot, .unused = 0};
    writer_.raw(&payload, sizeof(payload));
  }

  PayloadPlacer& placer_;
  ByteWriter& writer_;
  const Name* name_ = nullptr;  // of the value that is encoded; lives in mapping()
  std::string_view outermost_;  // name of the sample's field
  int depth_ = 0;               // lists and mappings around it, in its field
};

void encode_sources(const std::vector<SampleSource>& sources, ShardNumbers& shards,
                    ByteWriter& writer) {
  shards.encode_new(sources, writer);
  writer.u32(static_cast<std::uint32_t>(sources.size()));
  for (const SampleSource& source : sources) {
    const encoded_form::EncodedSource encoded{.index_in_shard = source.index_in_shard,
                                              .bytes = source.bytes,
                                              .checksum = source.checksum,
                                              .shard = shards.of(source),
                                              .sample = source.sample};
    writer.raw(&encoded, sizeof(encoded));
  }
}

// All lengths, then all characters.
void encode_keys(const Keys& keys, ByteWriter& writer) {
  writer.u32(static_cast<std::uint32_t>(keys.size()));
  for (const std::string_view key : keys) {
    writer.u32(ByteWriter::checked_length(key));
  }
  writer.raw(keys.characters());
}

}  // namespace

void encode_sample(const Sample& sample, PayloadPlacer& placer, ShardNumbers& shards,
                   ByteWriter& writer) {
  encode_keys(sample.keys, writer);
  writer.text(sample.restore_key.bytes());
  Encoder(placer, writer).mapping(sample.fields);
  encode_sources(sample.sources, shards, writer);
}

void encode_sample(const Sample& sample, PayloadPlacer& placer, ByteWriter& writer) {
  ShardNumbers shards;
  encode_sample(sample, placer, shards, writer);
}

// --- Decoding samples ---

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
        reader_.fail("lazy bytes cannot be sent");
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
      reader_.fail(fmt::format("payload [{}, +{}) is not within slot {}", place.offset, place.size,
                               place.slot));
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
      reader_.fail("expected a decimal integer");
    }
    return BigInteger(std::move(digits));
  }

  bool truth() {
    const std::uint8_t byte = reader_.u8();
    if (byte > 1) {
      reader_.fail("expected a boolean of 0 or 1");
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
        reader_.fail("invalid tensor shape");
      }
      bytes *= static_cast<std::uint64_t>(length);
    }
    tensor.data = payload();
    if (tensor.data.size() != bytes) {
      reader_.fail(
          fmt::format("expected {} bytes of tensor data, found {}", bytes, tensor.data.size()));
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

// --- Reports ---

namespace {

constexpr std::size_t kMessageBytes = std::size_t{256} << 10;
constexpr std::size_t kLongestText = std::size_t{64} << 10;
constexpr std::int64_t kUnknownIndex = -1;  // in a message

void write_text(ByteWriter& writer, std::string_view text) {
  writer.text(text.substr(0, kLongestText));
}

std::string encode_sample(const FailedSample& sample) {
  ByteWriter writer;
  write_text(writer, sample.key);
  write_text(writer, sample.dataset_path);
  write_text(writer, sample.shard_name);
  writer.i64(sample.index_in_shard.value_or(kUnknownIndex));
  writer.u64(sample.bytes.offset);
  writer.u64(sample.bytes.size);
  return writer.take();
}

std::string_view bounded(std::string_view detail) {
  return detail.size() <= kMaxErrorDetailBytes ? detail : std::string_view();
}

void append_report(std::string& message, const FailureReport& report, std::string_view detail,
                   std::uint32_t sample_count, std::string_view samples) {
  ByteWriter writer;
  write_text(writer, report.stage);
  writer.u8(static_cast<std::uint8_t>(report.code));
  write_text(writer, report.cause);
  writer.u8(report.is_shard_broken ? 1 : 0);
  writer.i64(report.consecutive);
  writer.text(detail);
  writer.u32(sample_count);
  message += writer.bytes();
  message += samples;
}

ErrorCode read_code(ByteReader& reader) {
  const std::optional<ErrorCode> code = error_code(reader.u8());
  if (!code) {
    reader.fail("unknown error code");
  }
  return *code;
}

FailedSample read_sample(ByteReader& reader) {
  FailedSample sample;
  sample.key = reader.text();
  sample.dataset_path = reader.text();
  sample.shard_name = reader.text();
  if (const std::int64_t index = reader.i64(); index >= 0) {
    sample.index_in_shard = index;
  }
  sample.bytes.offset = reader.u64();
  sample.bytes.size = reader.u64();
  return sample;
}

}  // namespace

std::vector<std::string> encode_reports(std::span<const FailureReport> reports) {
  std::vector<std::string> messages;
  std::string message;
  for (const FailureReport& report : reports) {
    std::string samples;
    std::uint32_t count = 0;
    std::string_view detail = bounded(report.detail);
    const auto finish_part = [&] {
      append_report(message, report, std::exchange(detail, {}), std::exchange(count, 0),
                    std::exchange(samples, {}));
      if (message.size() >= kMessageBytes) {
        messages.push_back(std::exchange(message, {}));
      }
    };
    for (const FailedSample& sample : report.samples) {
      if (count > 0 && message.size() + samples.size() >= kMessageBytes) {
        finish_part();
      }
      samples += encode_sample(sample);
      ++count;
    }
    finish_part();
  }
  if (!message.empty()) {
    messages.push_back(std::move(message));
  }
  return messages;
}

std::vector<FailureReport> decode_reports(std::string_view message) {
  constexpr std::size_t kSampleBytes = 3 * 4 + 3 * 8;  // with empty strings
  ByteReader reader(message, "failure reports from a worker");
  std::vector<FailureReport> reports;
  while (reader.left() > 0) {
    FailureReport report;
    report.stage = reader.text();
    report.code = read_code(reader);
    report.cause = reader.text();
    report.is_shard_broken = reader.u8() != 0;
    report.consecutive = reader.i64();
    report.detail = reader.text();
    report.samples.resize(reader.count(kSampleBytes));
    for (FailedSample& sample : report.samples) {
      sample = read_sample(reader);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace energon
