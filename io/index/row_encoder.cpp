#include "io/index/row_encoder.h"

#include <algorithm>
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

std::size_t varint_size(const std::byte* in) {
  std::size_t size = 1;
  while (size < kMaxVarintBytes && (in[size - 1] & std::byte{0x80}) != std::byte{0}) {
    ++size;
  }
  return size;
}

std::optional<std::uint64_t> take_varint(ByteView bytes, std::size_t& position) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; position < bytes.size(); ++i) {
    const std::byte byte = bytes[position++];
    if (i + 1 == kMaxVarintBytes) {
      return value << 8 | static_cast<std::uint64_t>(byte);
    }
    value = value << 7 | static_cast<std::uint64_t>(byte & std::byte{0x7F});
    if ((byte & std::byte{0x80}) == std::byte{0}) {
      return value;
    }
  }
  return std::nullopt;
}

void EncodedCells::add(ByteView number, ByteView row) {
  std::byte size[kMaxVarintBytes];
  const std::size_t size_bytes = put_varint(size, row.size());
  const std::size_t begin = bytes_.size();
  const std::size_t cell_size = size_bytes + number.size() + row.size();
  if (bytes_.capacity() - begin < cell_size) {
    bytes_.reserve(std::max(2 * bytes_.capacity(), begin + cell_size));
  }
  bytes_.insert(bytes_.end(), size, size + size_bytes);
  bytes_.insert(bytes_.end(), number.begin(), number.end());
  bytes_.insert(bytes_.end(), row.begin(), row.end());
  sizes_.push_back(static_cast<std::uint32_t>(cell_size));
}

void EncodedCells::clear() {
  bytes_.clear();
  sizes_.clear();
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

void RowEncoder::finish_row(std::int64_t row_number, EncodedCells& cells) {
  std::byte number[kMaxVarintBytes];
  const std::size_t size = put_varint(number, static_cast<std::uint64_t>(row_number));
  cells.add({number, size}, take_row());
}

void RowEncoder::finish_key(EncodedCells& cells) { cells.add({}, take_row()); }

// Valid until the next column is added.
ByteView RowEncoder::take_row() {
  // The size of the header counts itself; it is below 128, one byte.
  const std::size_t header_size = 1 + types_size_;
  std::byte* const begin = bytes_.data() + kHeaderRoom - header_size;
  begin[0] = static_cast<std::byte>(header_size);
  std::memcpy(begin + 1, types_, types_size_);
  const ByteView row(begin, header_size + values_end_ - kHeaderRoom);
  values_end_ = kHeaderRoom;
  types_size_ = 0;
  return row;
}

std::optional<TextAndNumber> decode_key(ByteView cell) {
  std::size_t position = 0;
  const std::optional<std::uint64_t> row_size = take_varint(cell, position);
  if (!row_size || *row_size != cell.size() - position) {
    return std::nullopt;
  }
  const ByteView row = cell.subspan(position);
  position = 0;
  const std::optional<std::uint64_t> header_size = take_varint(row, position);
  const std::optional<std::uint64_t> text_type = take_varint(row, position);
  const std::optional<std::uint64_t> number_type = take_varint(row, position);
  if (!header_size || !text_type || !number_type || *header_size != position ||
      *text_type < kTypeText || *text_type % 2 == 0) {
    return std::nullopt;
  }
  const std::size_t text_size = (*text_type - kTypeText) / 2;
  if (text_size > row.size() - position) {
    return std::nullopt;
  }
  const std::string_view text = as_text(row.subspan(position, text_size));
  const ByteView number = row.subspan(position + text_size);
  if (*number_type == kTypeZero || *number_type == kTypeOne) {
    return TextAndNumber{.text = text, .number = *number_type == kTypeOne ? 1 : 0};
  }
  std::uint64_t value = 0;
  for (const std::byte byte : number) {
    value = value << 8 | static_cast<std::uint64_t>(byte);
  }
  const auto form = form_of(static_cast<std::int64_t>(value));  // numbers of rows are positive
  if (form.type != *number_type || form.bytes != number.size()) {
    return std::nullopt;
  }
  return TextAndNumber{.text = text, .number = static_cast<std::int64_t>(value)};
}

}  // namespace energon
