#include "energon/sample/key_text.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/sample/key_bytes.h"
#include "energon/sample/restore_key.h"
#include "io/error.h"

namespace energon::key_form {
namespace {

void append_text(std::string& text, ByteParser& parser) {
  const ByteParser::Head head = parser.head();
  text += to_string(head.stage);
  text += fmt::format("({})", fmt::join(head.integers, ","));
  if (head.tail == kInner) {
    text.push_back('/');
    append_text(text, parser);
  } else if (head.tail == kList) {
    text.push_back('[');
    bool first = true;
    while (!parser.at_list_end()) {
      if (!std::exchange(first, false)) {
        text.push_back(',');
      }
      append_text(text, parser);
    }
    text.push_back(']');
  }
}

class TextParser {
 public:
  explicit TextParser(std::string_view text) : text_(text) {}

  std::string parse() {
    std::string bytes;
    key(bytes, 0);
    if (position_ != text_.size()) {
      fail_at(position_, "unexpected text after the key");
    }
    return bytes;
  }

 private:
  void key(std::string& bytes, int depth) {
    if (depth > kMaxDepth) {
      fail_at(position_, "too deeply nested");
    }
    const std::size_t name_end = text_.find('(', position_);
    if (name_end == std::string_view::npos) {
      fail_at(position_, "expected a stage such as Webdataset(0,812)");
    }
    const std::string_view name = text_.substr(position_, name_end - position_);
    const std::optional<Stage> stage = stage_named(name);
    if (!stage) {
      fail_at(position_, fmt::format("unknown stage '{}'", printable(name)));
    }
    position_ = name_end + 1;
    append_head(bytes, *stage, integers());
    if (take_if('/')) {
      bytes.push_back(kInner);
      key(bytes, depth + 1);
    } else if (take_if('[')) {
      bytes.push_back(kList);
      while (!take_if(']')) {
        key(bytes, depth + 1);
        if (!take_if(',') && (position_ >= text_.size() || text_[position_] != ']')) {
          fail_at(position_, "expected , or ]");
        }
      }
      bytes.push_back(kEnd);
    } else {
      bytes.push_back(kEnd);
    }
  }

  std::vector<std::int64_t> integers() {
    std::vector<std::int64_t> result;
    while (!take_if(')')) {
      std::int64_t value = 0;
      const char* begin = text_.data() + position_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0) {
        fail_at(position_, "expected a number that is not negative");
      }
      position_ += static_cast<std::size_t>(end - begin);
      result.push_back(value);
      if (!take_if(',') && (position_ >= text_.size() || text_[position_] != ')')) {
        fail_at(position_, "expected , or )");
      }
    }
    return result;
  }

  bool take_if(char expected) {
    if (position_ < text_.size() && text_[position_] == expected) {
      ++position_;
      return true;
    }
    return false;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

std::string to_text(std::string_view bytes) {
  std::string text;
  ByteParser parser(bytes);
  append_text(text, parser);
  return text;
}

std::string parse_text(std::string_view text) { return TextParser(text).parse(); }

}  // namespace energon::key_form
