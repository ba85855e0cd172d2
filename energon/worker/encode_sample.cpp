#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/worker/encoded_form.h"
#include "energon/worker/transport.h"
#include "io/error.h"
#include "io/overloaded.h"

namespace energon {
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
                  fmt::format("field '{}' has lists and mappings nested in more than {} others, "
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

// The lengths of all, then their characters.
void encode_keys(const Keys& keys, ByteWriter& writer) {
  writer.u32(static_cast<std::uint32_t>(keys.size()));
  for (const std::string_view key : keys) {
    writer.u32(ByteWriter::checked_length(key));
  }
  writer.raw(keys.characters().data(), keys.characters().size());
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

}  // namespace energon
