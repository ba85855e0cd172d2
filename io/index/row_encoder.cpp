#include "io/index/row_encoder.h"

#include <array>
#include <cstring>

namespace energon {
namespace {

// Types of columns, as SQLite numbers them.
constexpr std::uint64_t kTypeZero = 8;
constexpr std::uint64_t kTypeOne = 9;
constexpr std::uint64_t kTypeText = 13;  // plus twice the size

struct IntegerForm {
  std::uint64_t type;
  std::size_t bytes;
};

IntegerForm form_of(std::int64_t value) {
  constexpr std::array<IntegerForm, 6> kForms = {{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 6}, {6, 8}}};
  const auto magnitude = static_cast<std::uint64_t>(value < 0 ? ~value : value);
  for (const IntegerForm& form : kForms) {
    if (magnitude >> (form.bytes * 8 - 1) == 0) {
      return form;
    }
  }
  return kForms.back();
}

}  // namespace

std::size_t put_varint(std::byte* out, std::uint64_t value) {
  if (value < 0x80) {
    out[0] = static_cast<std::byte>(value);
    return 1;
  }
  if (value >> 56 != 0) {  // nine bytes; the last one has eight bits
    out[8] = static_cast<std::byte>(value);
    value >>= 8;
    for (std::size_t i = 8; i-- > 0; value >>= 7) {
      out[i] = static_cast<std::byte>(value & 0x7F) | std::byte{0x80};
    }
    return kMaxVarintBytes;
  }
  std::size_t size = 1;
  while (value >> (7 * size) != 0) {
    ++size;
  }
  for (std::size_t i = size; i-- > 0; value >>= 7) {
    out[i] = static_cast<std::byte>(value & 0x7F) | (i + 1 < size ? std::byte{0x80} : std::byte{0});
  }
  return size;
}

void RowEncoder::make_room(std::size_t bytes) {
  if (bytes_.size() - values_end_ < bytes) {
    bytes_.resize(values_end_ + 2 * bytes);
  }
}

void RowEncoder::add(std::int64_t value) {
  if (value == 0 || value == 1) {
    types_size_ += put_varint(types_ + types_size_, value == 0 ? kTypeZero : kTypeOne);
    return;
  }
  const IntegerForm form = form_of(value);
  types_size_ += put_varint(types_ + types_size_, form.type);
  make_room(sizeof(value));
  std::byte* const out = bytes_.data() + values_end_;
  for (std::size_t i = 0; i < form.bytes; ++i) {
    out[i] = static_cast<std::byte>(value >> (8 * (form.bytes - 1 - i)));
  }
  values_end_ += form.bytes;
}

void RowEncoder::add(std::string_view text) {
  types_size_ += put_varint(types_ + types_size_, kTypeText + 2 * text.size());
  make_room(text.size());
  if (!text.empty()) {
    std::memcpy(bytes_.data() + values_end_, text.data(), text.size());
  }
  values_end_ += text.size();
}

ByteView RowEncoder::row() {
  // The size of the header counts itself; it is below 128, one byte.
  const std::size_t header_size = 1 + types_size_;
  std::byte* const begin = bytes_.data() + kHeaderRoom - header_size;
  begin[0] = static_cast<std::byte>(header_size);
  std::memcpy(begin + 1, types_, types_size_);
  return {begin, header_size + values_end_ - kHeaderRoom};
}

}  // namespace energon
