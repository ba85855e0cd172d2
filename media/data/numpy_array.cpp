#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/byte_codec.h"
#include "io/byte_cursor.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/tar/zip_members.h"
#include "media/data/documents.h"
#include "media/data/stored_elements.h"

namespace energon {

// --- The header of .npy files ---

namespace {

/// The content of the header.
struct NpyHeader {
  StoredType type;
  bool is_byte_swapped = false;
  bool is_column_major = false;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;  ///< of the first element
  std::size_t data_bytes = 0;   ///< from data_offset to the end of the file
};

constexpr std::size_t kShownDescription = 60;
constexpr std::size_t kMaxDimensions = 64;  // in NumPy 2

// Reads a Python dict literal with exactly the entries descr, fortran_order and shape.
class NpyDictionary {
 public:
  // `offset` is that of `text` in the file.
  NpyDictionary(std::string_view text, std::size_t offset) : text_(text), offset_(offset) {}

  void read() {
    expect('{');
    while (!skip('}')) {
      read_entry();
      if (!skip(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) {
      fail("the end of the header");
    }
    if (!description_ || !is_column_major_ || !shape_) {
      throw Error(ErrorCode::kCorruptData,
                  "the npy header must have descr, fortran_order and shape");
    }
  }

  const std::string& description() const { return *description_; }
  bool is_column_major() const { return *is_column_major_; }
  const std::vector<std::int64_t>& shape() const { return *shape_; }

 private:
  void read_entry() {
    const std::string name = string();
    expect(':');
    if (name == "descr" && !description_) {
      skip_spaces();
      if (rest().starts_with('[')) {
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("a structured array of the type {}; store its fields as separate "
                                "arrays",
                                printable(rest().substr(0, kShownDescription))));
      }
      description_ = string();
    } else if (name == "fortran_order" && !is_column_major_) {
      is_column_major_ = truth();
    } else if (name == "shape" && !shape_) {
      shape_ = tuple();
    } else {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the npy header has the entry '{}'{}",
                              printable(name.substr(0, kShownDescription)),
                              name == "descr" || name == "fortran_order" || name == "shape"
                                  ? " twice"
                                  : "; expected descr, fortran_order and shape"));
    }
  }

  std::string string() {
    skip_spaces();
    const char quote = rest().empty() ? '\0' : rest().front();
    const std::size_t end = text_.find(quote, at_ + 1);
    if ((quote != '\'' && quote != '"') || end == std::string_view::npos) {
      fail("a string");
    }
    std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }

  bool truth() {
    skip_spaces();
    for (const std::string_view word : {"False", "True"}) {
      if (rest().starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    }
    fail("True or False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> result;
    expect('(');
    while (!skip(')')) {
      if (result.size() == kMaxDimensions) {
        fail("at most 64 dimensions");
      }
      result.push_back(dimension());
      if (!skip(',')) {
        if (result.size() == 1) {  // (3) is not a tuple in Python
          fail("','");
        }
        expect(')');
        break;
      }
    }
    return result;
  }

  std::int64_t dimension() {
    skip_spaces();
    std::int64_t result = 0;
    const std::string_view digits = rest();
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), result);
    if (parsed.ec != std::errc() || result < 0) {
      fail("a dimension in [0, 2^63)");
    }
    at_ += static_cast<std::size_t>(parsed.ptr - digits.data());
    if (rest().starts_with('L')) {  // a Python 2 long
      ++at_;
    }
    return result;
  }

  std::string_view rest() const { return text_.substr(at_); }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }

  bool skip(char character) {
    skip_spaces();
    if (!rest().starts_with(character)) {
      return false;
    }
    ++at_;
    return true;
  }

  void expect(char character) {
    if (!skip(character)) {
      fail(fmt::format("'{}'", character));
    }
  }

  [[noreturn]] void fail(std::string_view expected) const {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("npy header: expected {} at byte {}, found '{}'", expected,
                            offset_ + at_, printable(rest().substr(0, 10))));
  }

  const std::string_view text_;
  const std::size_t offset_;
  std::size_t at_ = 0;
  std::optional<std::string> description_;
  std::optional<bool> is_column_major_;
  std::optional<std::vector<std::int64_t>> shape_;
};

std::string_view advice_on(char kind) {
  switch (kind) {
    case 'O':
      return "object arrays contain pickles, which are never read because they may run code";
    case 'c':
      return "complex numbers; store real and imaginary parts as separate arrays";
    case 'u':
      return "tensors cannot be uint64; store int64";
    case 'S':
    case 'U':
    case 'T':
      return "strings; store them as JSON";
    case 'M':
    case 'm':
      return "times; store them as int64";
    case 'V':
      return "untyped bytes or structures, including bfloat16; store float32 or use safetensors";
    default:
      return "supported: bool, int8 to int64, uint8 to uint32, float16, float32, float64";
  }
}

// Parses a type such as "<f4".
void parse_description(const std::string& text, NpyHeader& header) {
  const std::size_t kind = text.find_first_not_of("<>|=");
  if (kind > 1 || text.empty()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("npy: expected a type such as '<f4', found '{}'",
                            printable(text.substr(0, kShownDescription))));
  }
  std::uint64_t size = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + kind + 1, end, size);
  const std::optional<StoredType> type =
      parsed.ec == std::errc() && parsed.ptr == end ? numpy_type(text[kind], size) : std::nullopt;
  if (!type || (size > 1 && text.front() == '|')) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the npy has the type '{}': {}",
                            printable(text.substr(0, kShownDescription)), advice_on(text[kind])));
  }
  header.type = *type;
  header.is_byte_swapped = text.front() == '>';
}

// Reads the preamble; returns the size of the header after it.
std::size_t header_bytes(ByteCursor& cursor) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (as_text(cursor.take(kMagic.size(), "the magic number")) != kMagic) {
    throw Error(ErrorCode::kCorruptData, "not an npy: it must begin with \\x93NUMPY");
  }
  const auto major = cursor.number<std::uint8_t, std::endian::little>("the version");
  const auto minor = cursor.number<std::uint8_t, std::endian::little>("the version");
  if (major < 1 || major > 3 || minor != 0) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the npy has version {}.{}; supported: 1.0, 2.0, 3.0", major, minor));
  }
  return major == 1 ? cursor.number<std::uint16_t, std::endian::little>("the header's length")
                    : cursor.number<std::uint32_t, std::endian::little>("the header's length");
}

/// Thread-safe. Throws Error: kCorruptData for a damaged header and if the elements do not fill the
/// rest of the file exactly, kUnsupported for other versions and types.
NpyHeader parse_npy_header(ByteView encoded) {
  ByteCursor cursor(encoded, "the npy");
  const std::size_t length = header_bytes(cursor);
  const std::size_t offset = cursor.position();
  NpyDictionary dictionary(as_text(cursor.take(length, "the header")), offset);
  dictionary.read();
  NpyHeader header;
  parse_description(dictionary.description(), header);
  header.is_column_major = dictionary.is_column_major();
  header.shape = dictionary.shape();
  header.data_offset = cursor.position();
  header.data_bytes = cursor.left();
  const std::optional<std::int64_t> count = element_count(header.shape);
  if (!count) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the npy has the shape ({}), which does not fit into memory",
                            fmt::join(header.shape, ", ")));
  }
  const std::uint64_t expected = static_cast<std::uint64_t>(*count) * header.type.stored_size;
  if (expected != header.data_bytes) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("the npy has {} bytes of elements, but ({}) elements of {} bytes take {}",
                    header.data_bytes, fmt::join(header.shape, ", "), header.type.stored_size,
                    expected));
  }
  return header;
}

}  // namespace

// --- Reading .npy and .npz ---

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
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the array needs {} bytes, but the memory for it has {}", size, to.size()));
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
  for (const ZipMember& member : read_zip(encoded, memory_limit(limits))) {
    if (!member.name.ends_with(kNpySuffix)) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the npz has a member '{}'; only arrays (.npy) are supported",
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

// --- Writing .npy ---

namespace {

// The header ends with a line break at a multiple of this many bytes.
constexpr std::size_t kHeaderAlignment = 64;
constexpr std::size_t kPreambleBytes = 10;  // magic, version, length of the header

std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return "|u1";
    case DType::kInt8:
      return "|i1";
    case DType::kInt16:
      return "<i2";
    case DType::kInt32:
      return "<i4";
    case DType::kInt64:
      return "<i8";
    case DType::kFloat16:
      return "<f2";
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat64:
      return "<f8";
    case DType::kBool:
      return "|b1";
    case DType::kBFloat16:
      break;
  }
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("NumPy files cannot contain {}; choose a mode with float32", to_string(dtype)));
}

}  // namespace

std::string encode_npy(const Tensor& tensor) {
  const std::string_view comma = tensor.shape.size() == 1 ? "," : "";
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   descr_of(tensor.dtype), fmt::join(tensor.shape, ", "), comma);
  const std::size_t unpadded = kPreambleBytes + header.size() + 1;
  const std::size_t padded =
      (unpadded + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment;
  header.append(padded - unpadded, ' ');
  header.push_back('\n');
  ByteWriter file;
  file.reserve(padded + tensor.data.size());
  file.raw(std::string_view("\x93NUMPY\x01\x00", 8));
  file.u16(static_cast<std::uint16_t>(header.size()));
  file.raw(header);
  file.raw(tensor.data.text());
  return file.take();
}

}  // namespace energon
