// The layout of tenbin:
//
//   chunk   "~TenBin~", length (int64), that many bytes, padded to a multiple of 64
//   array   a header chunk and a data chunk
//   header  8 bytes each: NumPy's type code ("f4"), an info string, the number of dimensions, each
//           dimension (int64)
//
// Numbers are little-endian.

#include <bit>
#include <optional>
#include <string_view>
#include <utility>
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

constexpr std::string_view kTenbinMagic = "~TenBin~";
constexpr std::size_t kTenbinWord = 8;
constexpr std::size_t kTenbinAlignment = 64;

struct TenbinHeader {
  StoredType type;
  std::vector<std::int64_t> shape;
};

ByteView take_tenbin_chunk(ByteCursor& cursor) {
  const std::size_t begin = cursor.position();
  if (as_text(cursor.take(kTenbinMagic.size(), "the magic number")) != kTenbinMagic) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("tenbin: expected a chunk that begins with {} at byte {}", kTenbinMagic,
                            begin));
  }
  const auto size = cursor.number<std::int64_t, std::endian::little>("the length of a chunk");
  if (size < 0) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("tenbin: the chunk at byte {} has the length {}", begin, size));
  }
  const ByteView content = cursor.take(static_cast<std::uint64_t>(size), "a chunk");
  const std::size_t padding =
      (kTenbinAlignment - content.size() % kTenbinAlignment) % kTenbinAlignment;
  cursor.take(padding, "the padding of a chunk");
  return content;
}

// Parses "f4", padded with zeros. `begin` is the offset of the chunk, for messages.
StoredType parse_tenbin_type(ByteView word, std::size_t begin) {
  std::string_view code = as_text(word);
  code = code.substr(0, code.find('\0'));
  std::optional<StoredType> type;
  if (code.size() == 2 && code[0] != 'b' && code[1] >= '1' && code[1] <= '8') {
    type = numpy_type(code[0], static_cast<std::uint64_t>(code[1] - '0'));
  }
  if (!type) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("tenbin: the array at byte {} has the type '{}'; supported: i1, i2, i4, "
                    "i8, u1, u2, u4, f2, f4, f8",
                    begin, printable(code)));
  }
  return *type;
}

TenbinHeader parse_tenbin_header(ByteView chunk, std::size_t begin) {
  ByteCursor cursor(chunk, "a header of the tenbin");
  TenbinHeader header;
  const ByteView code = cursor.take(kTenbinWord, "the type");
  cursor.take(kTenbinWord, "the info string");
  const auto dimensions = cursor.number<std::int64_t, std::endian::little>("the dimensions");
  if (dimensions < 0 || static_cast<std::uint64_t>(dimensions) != cursor.left() / kTenbinWord ||
      cursor.left() % kTenbinWord != 0) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("tenbin: the array at byte {} has {} dimensions, but {} bytes for them",
                            begin, dimensions, cursor.left()));
  }
  while (!cursor.at_end()) {
    header.shape.push_back(cursor.number<std::int64_t, std::endian::little>("a dimension"));
  }
  header.type = parse_tenbin_type(code, begin);
  return header;
}

}  // namespace

List decode_tenbin(ByteView encoded, BufferAllocator& memory) {
  ByteCursor cursor(encoded, "the tenbin");
  List result;
  while (!cursor.at_end()) {
    const std::size_t begin = cursor.position();
    const TenbinHeader header = parse_tenbin_header(take_tenbin_chunk(cursor), begin);
    const ByteView data = take_tenbin_chunk(cursor);
    const std::optional<std::int64_t> count = element_count(header.shape);
    if (!count || static_cast<std::uint64_t>(*count) * header.type.stored_size != data.size()) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format(
              "tenbin: the array at byte {} has {} bytes, which does not match ({}) elements "
              "of {} bytes",
              begin, data.size(), fmt::join(header.shape, ", "), header.type.stored_size));
    }
    NewTensor tensor = new_tensor(header.type.dtype, header.shape, memory);
    copy_elements({.bytes = data,
                   .type = header.type,
                   .shape = header.shape,
                   .strides = row_major_strides(header.shape)},
                  tensor.bytes);
    result.emplace_back(std::move(tensor.tensor));
  }
  return result;
}

}  // namespace energon
