#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/sample/buffer_allocator.h"
#include "io/byte_cursor.h"
#include "io/error.h"
#include "media/data/documents.h"
#include "media/data/stored_elements.h"

namespace energon {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";

// An entry of the header.
struct SafetensorsEntry {
  StoredType type;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // offset of its bytes from the end of the header
  std::int64_t end = 0;
};

[[noreturn]] void fail_safetensor(ErrorCode code, std::string_view name, std::string_view reason) {
  throw Error(code, fmt::format("safetensors: '{}' {}", printable(name), reason));
}

std::optional<StoredType> safetensors_type(std::string_view name) {
  constexpr std::pair<std::string_view, StoredType> kTypes[] = {
      {"BOOL", {DType::kBool, 1}},     {"U8", {DType::kUInt8, 1}},    {"I8", {DType::kInt8, 1}},
      {"I16", {DType::kInt16, 2}},     {"U16", {DType::kInt32, 2}},   {"F16", {DType::kFloat16, 2}},
      {"BF16", {DType::kBFloat16, 2}}, {"I32", {DType::kInt32, 4}},   {"U32", {DType::kInt64, 4}},
      {"F32", {DType::kFloat32, 4}},   {"F64", {DType::kFloat64, 8}}, {"I64", {DType::kInt64, 8}},
  };
  const auto* const found =
      std::ranges::find(kTypes, name, &std::pair<std::string_view, StoredType>::first);
  return found != std::end(kTypes) ? std::optional(found->second) : std::nullopt;
}

// The member `field` of `entry`, as a `Type`.
template <class Type>
const Type& safetensors_field(std::string_view name, const Mapping& entry, std::string_view field) {
  const auto found = std::ranges::find(entry, field, &Mapping::value_type::first);
  if (found == entry.end()) {
    fail_safetensor(ErrorCode::kCorruptData, name, fmt::format("has no {}", field));
  }
  const auto* const value = std::get_if<Type>(&found->second.base());
  if (value == nullptr) {
    fail_safetensor(ErrorCode::kCorruptData, name,
                    fmt::format("has the {} {}", field, describe(found->second)));
  }
  return *value;
}

std::vector<std::int64_t> safetensors_numbers(std::string_view name, const Mapping& entry,
                                              std::string_view field) {
  std::vector<std::int64_t> result;
  for (const Value& value : safetensors_field<List>(name, entry, field)) {
    const auto* const number = std::get_if<std::int64_t>(&value.base());
    if (number == nullptr || *number < 0) {
      fail_safetensor(
          ErrorCode::kCorruptData, name,
          fmt::format("has {} in its {}; expected integers from 0",
                      number != nullptr ? std::to_string(*number) : describe(value), field));
    }
    result.push_back(*number);
  }
  return result;
}

SafetensorsEntry parse_safetensors_entry(std::string_view name, const Value& value) {
  const auto* const entry = std::get_if<Mapping>(&value.base());
  if (entry == nullptr) {
    fail_safetensor(ErrorCode::kCorruptData, name,
                    fmt::format("is {} in the header; expected an object", describe(value)));
  }
  const auto& dtype = safetensors_field<std::string>(name, *entry, "dtype");
  const std::optional<StoredType> type = safetensors_type(dtype);
  if (!type) {
    fail_safetensor(ErrorCode::kUnsupported, name,
                    fmt::format("has the type '{}'; supported: BOOL, U8, U16, U32, I8 to I64, F16, "
                                "BF16, F32, F64",
                                printable(dtype.substr(0, 40))));
  }
  SafetensorsEntry result{.type = *type, .shape = safetensors_numbers(name, *entry, "shape")};
  const auto offsets = safetensors_numbers(name, *entry, "data_offsets");
  const std::optional<std::int64_t> count = element_count(result.shape);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || !count ||
      static_cast<std::uint64_t>(*count) * type->stored_size !=
          static_cast<std::uint64_t>(offsets[1] - offsets[0])) {
    fail_safetensor(
        ErrorCode::kCorruptData, name,
        fmt::format("has the data_offsets [{}], which do not match ({}) elements of {} bytes",
                    fmt::join(offsets, ", "), fmt::join(result.shape, ", "), type->stored_size));
  }
  result.begin = offsets[0];
  result.end = offsets[1];
  return result;
}

// Throws Error if the entries do not cover `size` bytes exactly once.
void check_safetensors_cover(std::vector<std::pair<std::int64_t, std::int64_t>> ranges,
                             std::uint64_t size) {
  std::ranges::sort(ranges);
  std::int64_t end = 0;
  for (const auto& [range_begin, range_end] : ranges) {
    if (range_begin != end) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format(
              "safetensors: a tensor begins at byte {} of the data, expected {}: tensors {}",
              range_begin, end, range_begin < end ? "overlap" : "leave a gap"));
    }
    end = range_end;
  }
  if (static_cast<std::uint64_t>(end) != size) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("safetensors: expected {} bytes of tensors, found {}", end, size));
  }
}

Tensor safetensors_tensor(const SafetensorsEntry& entry, const SharedBytes& data,
                          BufferAllocator& memory) {
  const ByteView bytes = data.view.subspan(static_cast<std::size_t>(entry.begin),
                                           static_cast<std::size_t>(entry.end - entry.begin));
  const bool is_aligned =
      reinterpret_cast<std::uintptr_t>(bytes.data()) % entry.type.stored_size == 0;
  if (is_aligned && !entry.type.is_widened()) {
    return {entry.type.dtype, entry.shape, {bytes, data.owner}};
  }
  NewTensor copy = new_tensor(entry.type.dtype, entry.shape, memory);
  copy_elements({.bytes = bytes,
                 .type = entry.type,
                 .shape = entry.shape,
                 .strides = row_major_strides(entry.shape)},
                copy.bytes);
  return std::move(copy.tensor);
}

// Advances `cursor` past the header.
Mapping parse_safetensors_header(ByteCursor& cursor, const DecodeLimits& limits) {
  const auto size = cursor.number<std::uint64_t, std::endian::little>("the header's length");
  if (size > kMaxHeaderBytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("safetensors: a header of {} bytes; at most {} are supported", size,
                            kMaxHeaderBytes));
  }
  const ByteView text = cursor.take(size, "the header");
  if (text.empty() || text.front() != std::byte{'{'}) {
    throw Error(ErrorCode::kCorruptData, "safetensors: the header must begin with '{'");
  }
  return std::get<Mapping>(decode_json(text, limits).base());
}

void check_safetensors_metadata(const Value& metadata) {
  const auto* const texts = std::get_if<Mapping>(&metadata.base());
  const bool is_valid = texts != nullptr && std::ranges::all_of(*texts, [](const auto& entry) {
                          return std::holds_alternative<std::string>(entry.second.base());
                        });
  if (!is_valid) {
    fail_safetensor(ErrorCode::kCorruptData, kMetadata, "must be an object of strings");
  }
}

}  // namespace

Mapping decode_safetensors(const SharedBytes& encoded, const DecodeLimits& limits,
                           BufferAllocator& memory) {
  ByteCursor cursor(encoded.view, "the safetensors");
  Mapping result = parse_safetensors_header(cursor, limits);
  const SharedBytes data{encoded.view.subspan(cursor.position()), encoded.owner};
  std::vector<SafetensorsEntry> entries(result.size());
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto& [name, value] = result[i];
    if (name == kMetadata) {
      check_safetensors_metadata(value);
      continue;
    }
    entries[i] = parse_safetensors_entry(name, value);
    ranges.emplace_back(entries[i].begin, entries[i].end);
  }
  check_safetensors_cover(std::move(ranges), data.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result[i].first != kMetadata) {
      bytes += tensor_bytes(entries[i].type.dtype, entries[i].shape);
      check_decoded_bytes("the safetensors", bytes, limits);
      result[i].second = safetensors_tensor(entries[i], data, memory);
    }
  }
  return result;
}

}  // namespace energon
