#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/byte_cursor.h"
#include "io/error.h"
#include "media/data/documents.h"
#include "media/data/value_builder.h"

namespace energon {
namespace {

enum class CborMajor : std::uint8_t {
  kUnsigned = 0,
  kNegative = 1,
  kBytes = 2,
  kText = 3,
  kArray = 4,
  kMap = 5,
  kTag = 6,
  kSimple = 7,
};

constexpr std::uint8_t kBreak = 0xFF;  // ends an item of indefinite length
constexpr std::uint8_t kIndefinite = 31;

// The first byte of an item and the number after it.
struct CborHead {
  CborMajor major = CborMajor::kUnsigned;
  std::uint8_t info = 0;  // the lower five bits of the first byte
  std::uint64_t argument = 0;
};

// float16 of IEEE 754.
double half_to_double(std::uint64_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 0x1F);
  const double mantissa = static_cast<double>(bits & 0x3FF);
  double result = 0;
  if (exponent == 0) {
    result = std::ldexp(mantissa, -24);
  } else if (exponent < 31) {
    result = std::ldexp(mantissa + 1024, exponent - 25);
  } else {
    result = mantissa == 0 ? std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -result : result;
}

// A loop over a stack of open arrays and maps: hostile nesting cannot exhaust the call stack.
class CborReader {
 public:
  CborReader(ByteView encoded, const DecodeLimits& limits)
      : cursor_(encoded, "the CBOR"),
        place_([this] { return fmt::format("byte {}", item_); }),
        builder_(limits, place_) {}

  Value read() {
    read_item();
    while (!open_.empty()) {
      if (is_complete()) {
        open_.pop_back();
        builder_.end();
        continue;
      }
      if (open_.back().is_map) {
        read_name();
      }
      read_item();
    }
    cursor_.expect_end();
    return builder_.take();
  }

 private:
  struct Open {
    std::optional<std::uint64_t> left;  // elements, or pairs of a map; nullopt means up to a break
    bool is_map = false;
  };

  // Whether the innermost container ends here. If not, counts the next element.
  bool is_complete() {
    Open& open = open_.back();
    if (open.left) {
      return (*open.left)-- == 0;
    }
    if (cursor_.peek("a break") != kBreak) {
      return false;
    }
    cursor_.take(1, "a break");
    return true;
  }

  // The head of the next item that is not a tag.
  CborHead read_head() {
    item_ = cursor_.position();
    CborHead head;
    do {
      head = read_any_head();
    } while (head.major == CborMajor::kTag && head.info != kIndefinite);
    return head;
  }

  CborHead read_any_head() {
    CborHead head;
    const auto first = cursor_.number<std::uint8_t, std::endian::big>("an item");
    head.major = static_cast<CborMajor>(first >> 5);
    head.info = first & 0x1F;
    head.argument = read_argument(head.info);
    return head;
  }

  std::uint64_t read_argument(std::uint8_t info) {
    switch (info) {
      case 24:
        return cursor_.number<std::uint8_t, std::endian::big>("a number");
      case 25:
        return cursor_.number<std::uint16_t, std::endian::big>("a number");
      case 26:
        return cursor_.number<std::uint32_t, std::endian::big>("a number");
      case 27:
        return cursor_.number<std::uint64_t, std::endian::big>("a number");
      case 28:
      case 29:
      case 30:
        fail_undefined();
      default:
        return info;
    }
  }

  void read_item() {
    const CborHead head = read_head();
    switch (head.major) {
      case CborMajor::kUnsigned:
        expect_definite(head);
        return builder_.add_unsigned(head.argument);
      case CborMajor::kNegative:
        expect_definite(head);
        return add_negative(head.argument);
      case CborMajor::kBytes:
        return builder_.add(copy_of(as_bytes(string(head))));
      case CborMajor::kText:
        return builder_.add(string(head));
      case CborMajor::kArray:
      case CborMajor::kMap:
        return begin(head);
      case CborMajor::kTag:  // of indefinite length
        fail_undefined();
      case CborMajor::kSimple:
        return read_simple(head);
    }
  }

  void add_negative(std::uint64_t argument) {  // -1 - argument
    if (argument > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the number -1 - {} at byte {} is outside int64 [-2^63, 2^63); write "
                              "it as a string or a floating-point number",
                              argument, item_));
    }
    builder_.add(-1 - static_cast<std::int64_t>(argument));
  }

  void read_simple(const CborHead& head) {
    switch (head.info) {
      case 20:
      case 21:
        return builder_.add(head.info == 21);
      case 22:
      case 23:
        return builder_.add(Null());
      case 25:
        return builder_.add(half_to_double(head.argument));
      case 26:
        return builder_.add(
            double{std::bit_cast<float>(static_cast<std::uint32_t>(head.argument))});
      case 27:
        return builder_.add(std::bit_cast<double>(head.argument));
      case kIndefinite:
        throw Error(ErrorCode::kCorruptData,
                    fmt::format("expected an item at byte {}, found a break", item_));
      default:
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("the simple value {} at byte {}; supported: false, true, null, "
                                "undefined",
                                head.argument, item_));
    }
  }

  // The content of a byte or text string, or of all its chunks if its length is indefinite.
  std::string string(const CborHead& head) {
    if (head.info != kIndefinite) {
      return chunk(head);
    }
    std::string result;
    while (cursor_.peek("a break") != kBreak) {
      const std::size_t begin = cursor_.position();
      const CborHead part = read_any_head();
      if (part.major != head.major || part.info == kIndefinite) {
        throw Error(
            ErrorCode::kCorruptData,
            fmt::format("the string at byte {} has a chunk that is not a string of its type",
                        begin));
      }
      result += chunk(part);
    }
    cursor_.take(1, "a break");
    return result;
  }

  std::string chunk(const CborHead& head) {
    const ByteView bytes = cursor_.take(head.argument, "a string");
    return head.major == CborMajor::kText
               ? utf8_text(bytes, "a string", cursor_.position() - bytes.size())
               : std::string(as_text(bytes));
  }

  void begin(const CborHead& head) {
    const bool is_map = head.major == CborMajor::kMap;
    Open open{.left = std::nullopt, .is_map = is_map};
    if (head.info != kIndefinite) {
      if (head.argument > cursor_.left() / (is_map ? 2 : 1)) {
        throw Error(ErrorCode::kCorruptData,
                    fmt::format("the CBOR is truncated: the {} at byte {} has {} elements, but {} "
                                "bytes are left",
                                is_map ? "map" : "array", item_, head.argument, cursor_.left()));
      }
      open.left = head.argument;
    }
    is_map ? builder_.begin_mapping() : builder_.begin_list();
    open_.push_back(open);
  }

  void read_name() {
    const CborHead head = read_head();
    if (head.major != CborMajor::kText) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("the name in a map at byte {} is not a text string but has major type "
                      "{}; write names as text strings",
                      item_, static_cast<int>(head.major)));
    }
    builder_.name(string(head));
  }

  void expect_definite(const CborHead& head) const {
    if (head.info == kIndefinite) {
      fail_undefined();
    }
  }

  [[noreturn]] void fail_undefined() const {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("the item at byte {} begins with a byte that is undefined in CBOR", item_));
  }

  ByteCursor cursor_;
  std::size_t item_ = 0;  // offset of the current item
  const std::function<std::string()> place_;
  ValueBuilder builder_;
  std::vector<Open> open_;
};

}  // namespace

Value decode_cbor(ByteView encoded, const DecodeLimits& limits) {
  return CborReader(encoded, limits).read();
}

}  // namespace energon
