#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/byte_cursor.h"
#include "io/error.h"
#include "media/data/documents.h"
#include "media/data/value_builder.h"

namespace energon {
namespace {

// Receives the events of nlohmann's reader. Functions return true because errors are thrown.
class MsgpackEvents {
 public:
  MsgpackEvents(ByteView encoded, const DecodeLimits& limits, const std::size_t& read)
      : encoded_(encoded),
        read_(read),
        place_([this] { return fmt::format("byte {}", item_); }),
        builder_(limits, place_) {}

  Value take() { return builder_.take(); }

  bool null() { return add(Null()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) {
    builder_.add_unsigned(value);
    return next();
  }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(const std::string& text) { return add(checked(text)); }
  bool binary(nlohmann::json::binary_t& bytes) {
    if (bytes.has_subtype()) {
      const int type = static_cast<std::int8_t>(bytes.subtype());
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the value at byte {} has the extension type {}{}; write it as a "
                              "number, string or bin",
                              item_, type, type == -1 ? " (timestamp)" : ""));
    }
    const auto owner = std::make_shared<const nlohmann::json::binary_t>(std::move(bytes));
    return add(SharedBytes{.view = std::as_bytes(std::span(owner->data(), owner->size())),
                           .owner = owner});
  }
  bool start_object(std::size_t) {
    builder_.begin_mapping();
    return next();
  }
  bool key(const std::string& name) {
    builder_.name(checked(name));
    return next();
  }
  bool end_object() { return end(); }
  bool start_array(std::size_t) {
    builder_.begin_list();
    return next();
  }
  bool end_array() { return end(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& cause) const {
    if (position > encoded_.size()) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("the MessagePack is truncated: it ends at byte {}, inside the value at "
                      "byte {}",
                      encoded_.size(), item_));
    }
    constexpr int kNotAString = 113;  // names are the only place where a string is expected
    if (cause.id == kNotAString) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the name in a map at byte {} is not a string but has type 0x{:02x}; "
                              "write names as strings (str)",
                              item_, std::to_integer<int>(encoded_[item_])));
    }
    const std::string_view reason = cause.what();
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("not MessagePack, at byte {}: {}", std::max<std::size_t>(position, 1) - 1,
                    reason.substr(std::min(reason.rfind(": ") + 2, reason.size()))));
  }

 private:
  bool add(Value value) {
    builder_.add(std::move(value));
    return next();
  }
  bool end() {
    builder_.end();
    return next();
  }
  bool next() {
    item_ = read_;
    return true;
  }
  // Checks that the last string is UTF-8: nlohmann's reader accepts any bytes.
  std::string checked(const std::string& text) const {
    return utf8_text(as_bytes(text), "a string", read_ - text.size());
  }

  const ByteView encoded_;
  const std::size_t& read_;
  std::size_t item_ = 0;  // offset of the current value
  const std::function<std::string()> place_;
  ValueBuilder builder_;
};

}  // namespace

Value decode_msgpack(ByteView encoded, const DecodeLimits& limits) {
  std::size_t read = 0;
  MsgpackEvents events(encoded, limits, read);
  // Recurses into arrays and maps, at most limits.max_depth levels, because the builder then
  // throws.
  nlohmann::json::sax_parse(CountingIterator(as_text(encoded).data(), &read),
                            CountingIterator(as_text(encoded).data() + encoded.size(), &read),
                            &events, nlohmann::json::input_format_t::msgpack);
  return events.take();
}

}  // namespace energon
