#include "energon/worker/transport.h"

#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/overloaded.h"

namespace energon {
namespace {

constexpr int kMaxDepth = 64;

// Kinds of values, in the order of Value's alternatives. The last does not cross.
enum class Kind : std::uint8_t { kBytes, kText, kInteger, kFloat, kTensor, kList, kMapping, kLazy };
static_assert(std::variant_size_v<Value::Base> == static_cast<std::size_t>(Kind::kLazy) + 1);

class Encoder {
 public:
  Encoder(PayloadPlacer& placer, ByteWriter& writer) : placer_(placer), writer_(writer) {}

  void value(const Value& value) {
    if (depth_ > kMaxDepth) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("field '{}' has lists and mappings nested in more than {} others, "
                              "which cannot leave a worker",
                              printable(outermost_), kMaxDepth));
    }
    writer_.u8(static_cast<std::uint8_t>(value.base().index()));
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
  /// The name of a field, and that of the mapping which has it.
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
                            "it: postencode_sample (or encode_sample) must replace it by what "
                            "get() gives",
                            path(), lazy.describe()));
  }

  // Here the field has a name; the parent would only find damage.
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
          fmt::format("field '{}' is no tensor: its dtype is {}, its shape ({}), and it has "
                      "{} bytes of data",
                      path(), to_string(tensor.dtype), fmt::join(tensor.shape, ", "),
                      tensor.data.size()));
    }
  }

  void payload(const SharedBytes& bytes) {
    const PayloadPlace place = placer_.place(bytes);
    writer_.u32(place.slot);
    writer_.u64(place.offset);
    writer_.u64(bytes.size());
  }

  PayloadPlacer& placer_;
  ByteWriter& writer_;
  const Name* name_ = nullptr;  // of the value that is encoded; lives in mapping()
  std::string_view outermost_;  // name of the sample's field
  int depth_ = 0;               // lists and mappings around it, in its field
};

class Decoder {
 public:
  Decoder(ByteReader& reader, std::span<const SharedBytes> slots)
      : reader_(reader), slots_(slots) {}

  Value value(int depth) {
    if (depth > kMaxDepth) {
      reader_.fail("values are too deeply nested");
    }
    switch (static_cast<Kind>(reader_.u8())) {
      case Kind::kBytes:
        return payload();
      case Kind::kText:
        return std::string(reader_.text());
      case Kind::kInteger:
        return reader_.i64();
      case Kind::kFloat:
        return reader_.f64();
      case Kind::kTensor:
        return tensor();
      case Kind::kList: {
        List list;
        const std::uint32_t count = reader_.count(1);
        list.reserve(count);
        for (std::uint32_t i = 0; i < count; ++i) {
          list.push_back(value(depth + 1));
        }
        return list;
      }
      case Kind::kMapping:
        return mapping(depth + 1);
      case Kind::kLazy:
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
  SharedBytes payload() {
    const std::uint32_t slot = reader_.u32();
    const std::uint64_t offset = reader_.u64();
    const std::uint64_t size = reader_.u64();
    if (slot >= slots_.size() || offset > slots_[slot].size() ||
        size > slots_[slot].size() - offset) {
      reader_.fail(fmt::format("payload [{}, +{}) does not lie in slot {}", offset, size, slot));
    }
    return {slots_[slot].view.subspan(offset, size), slots_[slot].owner};
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

void encode_sources(const std::vector<SampleSource>& sources, ShardNumbers& shards,
                    ByteWriter& writer) {
  shards.encode_new(sources, writer);
  writer.u32(static_cast<std::uint32_t>(sources.size()));
  for (const SampleSource& source : sources) {
    writer.u32(shards.of(source));
    writer.i64(source.index_in_shard);
    writer.u64(source.bytes.offset);
    writer.u64(source.bytes.size);
    writer.u32(source.sample);
    writer.u64(source.checksum);
  }
}

std::vector<SampleSource> decode_sources(ByteReader& reader, NumberedShards& shards) {
  shards.decode_new(reader);
  std::vector<SampleSource> sources(reader.count(40));
  for (SampleSource& source : sources) {
    source.shard = shards.at(reader.u32(), reader);
    source.index_in_shard = reader.i64();
    source.bytes.offset = reader.u64();
    source.bytes.size = reader.u64();
    source.sample = reader.u32();
    source.checksum = reader.u64();
  }
  return sources;
}

}  // namespace

void encode_sample(const Sample& sample, PayloadPlacer& placer, ShardNumbers& shards,
                   ByteWriter& writer) {
  writer.u32(static_cast<std::uint32_t>(sample.keys.size()));
  for (const std::string& key : sample.keys) {
    writer.text(key);
  }
  writer.text(sample.restore_key.bytes());
  Encoder(placer, writer).mapping(sample.fields);
  encode_sources(sample.sources, shards, writer);
}

void encode_sample(const Sample& sample, PayloadPlacer& placer, ByteWriter& writer) {
  ShardNumbers shards;
  encode_sample(sample, placer, shards, writer);
}

Sample decode_sample(std::string_view encoded, std::span<const SharedBytes> slots,
                     NumberedShards& shards) {
  ByteReader reader(encoded, "a batch from a worker");
  Sample sample;
  sample.keys.resize(reader.count(4));
  for (std::string& key : sample.keys) {
    key = reader.text();
  }
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

std::string encode_error(const Error& error) {
  // What a user's exception says may be megabytes; the ring has room for less.
  constexpr std::size_t kLongest = 64 * 1024;
  const ErrorContext& context = error.context();
  ByteWriter writer;
  writer.u8(static_cast<std::uint8_t>(error.code()));
  writer.text(std::string_view(error.message()).substr(0, kLongest));
  writer.u8(static_cast<std::uint8_t>(context.path.has_value() |
                                      context.byte_offset.has_value() << 1 |
                                      context.sample_key.has_value() << 2));
  writer.text(std::string_view(context.path.value_or("")).substr(0, kLongest));
  writer.u64(context.byte_offset.value_or(0));
  writer.text(std::string_view(context.sample_key.value_or("")).substr(0, kLongest));
  return writer.take();
}

Error decode_error(std::string_view encoded) {
  ByteReader reader(encoded, "a failure from a worker");
  const auto code = static_cast<ErrorCode>(reader.u8());
  std::string message(reader.text());
  const unsigned present = reader.u8();
  ErrorContext context;
  std::string path(reader.text());
  const std::uint64_t byte_offset = reader.u64();
  std::string sample_key(reader.text());
  reader.finish();
  if ((present & 1U) != 0) {
    context.path = std::move(path);
  }
  if ((present & 2U) != 0) {
    context.byte_offset = byte_offset;
  }
  if ((present & 4U) != 0) {
    context.sample_key = std::move(sample_key);
  }
  return Error(code, std::move(message), std::move(context));
}

}  // namespace energon
