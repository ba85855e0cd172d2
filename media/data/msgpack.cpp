#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/byte_cursor.h"
#include "io/error.h"
#include "media/data/documents.h"
#include "media/data/text.h"
#include "media/data/value_builder.h"

namespace energon {
namespace {

// A loop over a stack of open arrays and maps: hostile nesting cannot exhaust the call stack.
class MsgpackReader {
 public:
  MsgpackReader(ByteView encoded, const DecodeLimits& limits)
      : cursor_(encoded, "the MessagePack"),
        place_([this] { return fmt::format("byte {}", item_); }),
        builder_(limits, place_) {}

  Value read() {
    read_item();
    while (!open_.empty()) {
      if (open_.back().left == 0) {
        open_.pop_back();
        builder_.end();
        continue;
      }
      --open_.back().left;
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
    std::uint64_t left = 0;  // elements, or pairs of a map
    bool is_map = false;
  };

  template <class Number>
  Number number(const char* what) {
    return cursor_.number<Number, std::endian::big>(what);
  }

  void read_item() {
    item_ = cursor_.position();
    const auto type = number<std::uint8_t>("a value");
    if (type < 0x80 || type >= 0xE0) {
      builder_.add(std::int64_t{static_cast<std::int8_t>(type)});
    } else if (type < 0x90) {
      begin(type & 0x0F, true);
    } else if (type < 0xA0) {
      begin(type & 0x0F, false);
    } else if (type < 0xC0) {
      builder_.add(text(type & 0x1F));
    } else if (type < 0xCA || (type > 0xD3 && type < 0xD9)) {
      read_constant_bytes_or_extension(type);
    } else if (type < 0xD4) {
      read_number(type);
    } else {
      read_text_or_container(type);
    }
  }

  void read_constant_bytes_or_extension(std::uint8_t type) {
    switch (type) {
      case 0xC0:
        builder_.add(Null());
        return;
      case 0xC1:
        throw Error(ErrorCode::kCorruptData,
                    fmt::format("byte {} is 0xc1, which MessagePack never uses", item_));
      case 0xC2:
      case 0xC3:
        builder_.add(type == 0xC3);
        return;
      case 0xC4:
        return add_bytes(number<std::uint8_t>("a length"));
      case 0xC5:
        return add_bytes(number<std::uint16_t>("a length"));
      case 0xC6:
        return add_bytes(number<std::uint32_t>("a length"));
      default:  // 0xC7 to 0xC9 with a length of 1, 2, 4 bytes before the type; 0xD4 to 0xD8 without
        fail_extension(type < 0xD0 ? std::uint64_t{1} << (type - 0xC7) : 0);
    }
  }

  void read_number(std::uint8_t type) {
    switch (type) {
      case 0xCA:
        return builder_.add(double{number<float>("a number")});
      case 0xCB:
        return builder_.add(number<double>("a number"));
      case 0xCC:
        return builder_.add_unsigned(number<std::uint8_t>("a number"));
      case 0xCD:
        return builder_.add_unsigned(number<std::uint16_t>("a number"));
      case 0xCE:
        return builder_.add_unsigned(number<std::uint32_t>("a number"));
      case 0xCF:
        return builder_.add_unsigned(number<std::uint64_t>("a number"));
      case 0xD0:
        return builder_.add(std::int64_t{number<std::int8_t>("a number")});
      case 0xD1:
        return builder_.add(std::int64_t{number<std::int16_t>("a number")});
      case 0xD2:
        return builder_.add(std::int64_t{number<std::int32_t>("a number")});
      default:
        return builder_.add(number<std::int64_t>("a number"));
    }
  }

  void read_text_or_container(std::uint8_t type) {
    switch (type) {
      case 0xD9:
      case 0xDA:
      case 0xDB:
        return builder_.add(text(text_length(type)));
      case 0xDC:
        return begin(number<std::uint16_t>("a length"), false);
      case 0xDD:
        return begin(number<std::uint32_t>("a length"), false);
      case 0xDE:
        return begin(number<std::uint16_t>("a length"), true);
      default:
        return begin(number<std::uint32_t>("a length"), true);
    }
  }

  std::uint64_t text_length(std::uint8_t type) {
    return type == 0xD9   ? number<std::uint8_t>("a length")
           : type == 0xDA ? number<std::uint16_t>("a length")
                          : number<std::uint32_t>("a length");
  }

  std::string text(std::uint64_t length) {
    const ByteView bytes = cursor_.take(length, "a text");
    return utf8_text(bytes, "a text", cursor_.position() - bytes.size());
  }

  void add_bytes(std::uint64_t length) { builder_.add(copy_of(cursor_.take(length, "a bin"))); }

  void begin(std::uint64_t count, bool is_map) {
    const std::uint64_t least_bytes = is_map ? 2 * count : count;
    if (least_bytes > cursor_.left()) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the MessagePack is cut: the {} at byte {} has {} elements, {} bytes "
                              "are left",
                              is_map ? "map" : "array", item_, count, cursor_.left()));
    }
    is_map ? builder_.begin_mapping() : builder_.begin_list();
    open_.push_back({count, is_map});
  }

  void read_name() {
    item_ = cursor_.position();
    const auto type = number<std::uint8_t>("a name");
    const bool is_short = type >= 0xA0 && type < 0xC0;
    if (!is_short && (type < 0xD9 || type > 0xDB)) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the name of a map at byte {} is no text but of type 0x{:02x}; write "
                              "names as texts (str)",
                              item_, type));
    }
    builder_.name(text(is_short ? type & 0x1F : text_length(type)));
  }

  [[noreturn]] void fail_extension(std::uint64_t length_bytes) {
    cursor_.take(length_bytes, "a length");
    const std::int64_t type{number<std::int8_t>("an extension type")};
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the value at byte {} is of the extension type {}{}; write it as a "
                            "number, text or bin",
                            item_, type, type == -1 ? " (timestamp)" : ""));
  }

  ByteCursor cursor_;
  std::size_t item_ = 0;  // where the item begins that is being read
  const std::function<std::string()> place_;
  ValueBuilder builder_;
  std::vector<Open> open_;
};

}  // namespace

Value decode_msgpack(ByteView encoded, const DecodeLimits& limits) {
  return MsgpackReader(encoded, limits).read();
}

}  // namespace energon
