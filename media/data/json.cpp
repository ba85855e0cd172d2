#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "media/data/documents.h"
#include "media/data/value_builder.h"

namespace energon {
namespace {

constexpr std::size_t kShownReason = 200;

// The line and column (from 1) of a byte.
std::string json_place(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, position);
  const std::size_t line_begin = before.rfind('\n') + 1;  // 0 if there is no line break
  return fmt::format("line {}, column {} (byte {})",
                     std::count(before.begin(), before.end(), '\n') + 1, position - line_begin + 1,
                     position);
}

// Receives the events of nlohmann's reader. Functions return true because errors are thrown.
class JsonEvents {
 public:
  JsonEvents(std::string_view text, const DecodeLimits& limits, const std::size_t& read)
      : text_(text), read_(read), place_([this] { return place(); }), builder_(limits, place_) {}

  Value take() { return builder_.take(); }

  bool null() { return add(Null()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) {
    builder_.add_unsigned(value);
    return true;
  }
  // The reader falls back to double for integers outside int64 and uint64.
  bool number_float(double value, const std::string& token) {
    if (token.find_first_of(".eE") == std::string::npos) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("the number {} at {} is outside int64 [-2^63, 2^63); write it as a string or "
                      "a floating-point number",
                      token.substr(0, kShownReason), place()));
    }
    return add(value);
  }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(const nlohmann::json::binary_t&) { return false; }  // not in JSON
  bool start_object(std::size_t) {
    builder_.begin_mapping();
    return true;
  }
  bool key(std::string& name) {
    builder_.name(std::move(name));
    return true;
  }
  bool end_object() { return end(); }
  bool start_array(std::size_t) {
    builder_.begin_list();
    return true;
  }
  bool end_array() { return end(); }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& cause) const {
    const std::string where =
        json_place(text_, std::min(std::max<std::size_t>(position, 1) - 1, text_.size()));
    constexpr int kNumberOverflow = 406;
    if (cause.id == kNumberOverflow) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the number {} before {} is too large for a double",
                              printable(token).substr(0, kShownReason), where));
    }
    std::string reason = cause.what();
    const std::size_t begin = reason.find("syntax error");
    reason = printable(begin != std::string::npos ? reason.substr(begin) : reason);
    const bool is_infinite = token.ends_with('N') || token.ends_with('I');
    throw Error(ErrorCode::kCorruptData,
                fmt::format("not JSON, at {}: {}{}", where, reason.substr(0, kShownReason),
                            is_infinite ? "; JSON has no NaN and no Infinity: write null" : ""));
  }

 private:
  bool add(Value value) {
    builder_.add(std::move(value));
    return true;
  }
  bool end() {
    builder_.end();
    return true;
  }

  // The place of the last token. After a number, the reader has consumed one character more.
  std::string place() const {
    constexpr std::string_view kNumber = "+-.0123456789eE";
    std::size_t end = read_;
    if (end > 1 && kNumber.find(text_[end - 1]) == std::string_view::npos &&
        kNumber.find(text_[end - 2]) != std::string_view::npos) {
      --end;
    }
    const std::size_t before = text_.substr(0, end).find_last_not_of(kNumber);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    return json_place(text_, begin < end ? begin : end - std::min<std::size_t>(end, 1));
  }

  const std::string_view text_;
  const std::size_t& read_;
  const std::function<std::string()> place_;
  ValueBuilder builder_;
};

}  // namespace

Value decode_json(ByteView encoded, const DecodeLimits& limits) {
  const std::string_view text = as_text(encoded);
  // nlohmann's reader treats a zero byte as the end and would ignore the rest.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("not JSON, at {}: a zero byte; the text must be UTF-8",
                            json_place(text, zero)));
  }
  std::size_t read = 0;
  JsonEvents events(text, limits, read);
  nlohmann::json::sax_parse(CountingIterator(text.data(), &read),
                            CountingIterator(text.data() + text.size(), &read), &events);
  return events.take();
}

}  // namespace energon
