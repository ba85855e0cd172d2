#include "energon/sample/restore_key.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {
namespace {

// The byte form of restore keys: docs/formats/restore_key.md.
//
// A stage is its number and its integers, followed by kEnd; by kList, the inner keys and kEnd; or
// by kInner and the inner key. An integer is (kInteger + number of significant bytes) and these
// bytes, most significant first.

namespace key_form {

constexpr char kEnd = 0x00;
constexpr char kInner = 0x01;
constexpr char kList = 0x02;
constexpr int kMaxDepth = 64;

/// Reads the byte form of a key, one stage at a time. All reading members throw Error
/// (kInvalidArgument) with the position of the first invalid byte.
class ByteParser {
 public:
  /// Borrows `bytes`.
  explicit ByteParser(std::string_view bytes) : bytes_(bytes) {}

  struct Head {
    Stage stage;
    std::vector<std::int64_t> integers;
    char tail;  ///< kEnd, kInner or kList
  };

  Head head();

  /// Skips one whole key and returns where it ended.
  std::size_t skip(int depth = 0);

  /// True at the end mark of a list, which is then consumed.
  bool at_list_end();

  std::size_t position() const { return position_; }

 private:
  char take();
  std::int64_t integer();
  Stage stage();
  bool at_integer() const;
  char tail();

  std::string_view bytes_;
  std::size_t position_ = 0;
};

constexpr unsigned char kInteger = 0x10;

constexpr std::array kStages = {Stage::kWebdataset,   Stage::kMap,     Stage::kBatch,
                                Stage::kLogicalShard, Stage::kFlatMap, Stage::kIterMap,
                                Stage::kGroupBatch,   Stage::kPacking};

std::optional<Stage> stage_of(unsigned char number) {
  for (const Stage stage : kStages) {
    if (static_cast<unsigned char>(stage) == number) {
      return stage;
    }
  }
  return std::nullopt;
}

/// The stage with this name in the text form; nullopt if there is none.
std::optional<Stage> stage_named(std::string_view name) {
  for (const Stage stage : kStages) {
    if (to_string(stage) == name) {
      return stage;
    }
  }
  return std::nullopt;
}

/// Appends the number of a stage and its integers. Throws Error (kInternal) if one is negative.
void append_head(std::string& bytes, Stage stage, std::span<const std::int64_t> integers) {
  bytes.push_back(static_cast<char>(stage));
  for (const std::int64_t integer : integers) {
    if (integer < 0) {
      throw Error(ErrorCode::kInternal,
                  fmt::format("restore key with a negative number {}", integer));
    }
    const auto value = static_cast<std::uint64_t>(integer);
    const int length = (static_cast<int>(std::bit_width(value)) + 7) / 8;
    bytes.push_back(static_cast<char>(kInteger + length));
    for (int i = length - 1; i >= 0; --i) {
      bytes.push_back(static_cast<char>(value >> (8 * i)));
    }
  }
}

/// Throws Error (kInvalidArgument) with the position in the text or the bytes of a key.
[[noreturn]] void fail_at(std::size_t position, std::string_view what) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("invalid restore key at position {}: {}", position, what));
}

ByteParser::Head ByteParser::head() {
  Head head{};
  head.stage = stage();
  while (at_integer()) {
    head.integers.push_back(integer());
  }
  head.tail = tail();
  return head;
}

std::size_t ByteParser::skip(int depth) {
  if (depth > kMaxDepth) {
    fail_at(position_, "too deeply nested");
  }
  stage();
  while (at_integer()) {
    integer();
  }
  const char end = tail();
  if (end == kInner) {
    skip(depth + 1);
  } else if (end == kList) {
    while (!at_list_end()) {
      skip(depth + 1);
    }
  }
  return position_;
}

bool ByteParser::at_list_end() {
  if (position_ < bytes_.size() && bytes_[position_] == kEnd) {
    ++position_;
    return true;
  }
  return false;
}

Stage ByteParser::stage() {
  const auto stage = stage_of(static_cast<unsigned char>(take()));
  if (!stage) {
    fail_at(position_ - 1, "unknown stage");
  }
  return *stage;
}

bool ByteParser::at_integer() const {
  return position_ < bytes_.size() && static_cast<unsigned char>(bytes_[position_]) >= kInteger &&
         static_cast<unsigned char>(bytes_[position_]) <= kInteger + 8;
}

char ByteParser::tail() {
  const char tail = take();
  if (tail != kEnd && tail != kInner && tail != kList) {
    fail_at(position_ - 1, "expected the end or the inner key of a stage");
  }
  return tail;
}

char ByteParser::take() {
  if (position_ >= bytes_.size()) {
    fail_at(position_, "unexpected end");
  }
  return bytes_[position_++];
}

std::int64_t ByteParser::integer() {
  const int length = static_cast<unsigned char>(take()) - kInteger;
  std::uint64_t value = 0;
  for (int i = 0; i < length; ++i) {
    value = value << 8 | static_cast<unsigned char>(take());
  }
  if (value >> 63 != 0) {
    fail_at(position_, "number out of range");
  }
  return static_cast<std::int64_t>(value);
}

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
        fail_at(position_, "expected a non-negative number");
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

std::string to_text(std::string_view bytes) {
  std::string text;
  ByteParser parser(bytes);
  append_text(text, parser);
  return text;
}

std::string parse_text(std::string_view text) { return TextParser(text).parse(); }

}  // namespace key_form

using key_form::append_head;
using key_form::ByteParser;
using key_form::fail_at;
using key_form::kEnd;
using key_form::kInner;
using key_form::kList;

void append_samples(ByteParser& parser, const RestoreKey& key, std::vector<SampleRef>& samples) {
  const ByteParser::Head head = parser.head();
  if (head.tail == kInner) {
    append_samples(parser, key, samples);
  } else if (head.tail == kList) {
    while (!parser.at_list_end()) {
      append_samples(parser, key, samples);
    }
  } else if (head.stage == Stage::kWebdataset && head.integers.size() == 2 &&
             head.integers[0] <= UINT32_MAX) {
    samples.push_back(
        {.index = head.integers[1], .leaf = static_cast<std::uint32_t>(head.integers[0])});
  } else {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("restore key '{}' ends in {}, which is not a sample that was read",
                            key.text(), to_string(head.stage)));
  }
}

}  // namespace

std::string_view to_string(Stage stage) {
  switch (stage) {
    case Stage::kWebdataset:
      return "Webdataset";
    case Stage::kMap:
      return "Map";
    case Stage::kBatch:
      return "Batch";
    case Stage::kLogicalShard:
      return "LogicalShard";
    case Stage::kFlatMap:
      return "FlatMap";
    case Stage::kIterMap:
      return "IterMap";
    case Stage::kGroupBatch:
      return "GroupBatch";
    case Stage::kPacking:
      return "Packing";
  }
  return "unknown";
}

RestoreKey RestoreKey::leaf(Stage stage, std::initializer_list<std::int64_t> integers) {
  std::string bytes;
  append_head(bytes, stage, integers);
  bytes.push_back(kEnd);
  return RestoreKey(std::move(bytes));
}

RestoreKey RestoreKey::around(Stage stage, std::initializer_list<std::int64_t> integers,
                              const RestoreKey& inner) {
  std::string bytes;
  append_head(bytes, stage, integers);
  bytes.push_back(kInner);
  bytes += inner.bytes_;
  return RestoreKey(std::move(bytes));
}

RestoreKey RestoreKey::list(Stage stage, std::initializer_list<std::int64_t> integers,
                            std::span<const RestoreKey> inner) {
  RestoreKeyList list(stage, integers);
  for (const RestoreKey& key : inner) {
    list.add(key);
  }
  return list.finish();
}

RestoreKeyList::RestoreKeyList(Stage stage, std::initializer_list<std::int64_t> integers) {
  append_head(bytes_, stage, integers);
  bytes_.push_back(kList);
}

RestoreKey RestoreKeyList::finish() {
  bytes_.push_back(kEnd);
  return RestoreKey(std::move(bytes_));
}

RestoreKey RestoreKey::from_text(std::string_view text) {
  return RestoreKey(key_form::parse_text(text));
}

RestoreKey RestoreKey::from_bytes(std::string_view bytes) {
  ByteParser parser(bytes);
  if (const std::size_t end = parser.skip(); end != bytes.size()) {
    fail_at(end, "unexpected bytes after the key");
  }
  return RestoreKey(std::string(bytes));
}

std::string RestoreKey::text() const { return empty() ? std::string() : key_form::to_text(bytes_); }

RestoreKeyParts split_key(const RestoreKey& key, Stage stage, std::size_t integer_count,
                          std::optional<std::size_t> inner_count) {
  ByteParser parser(key.bytes());
  ByteParser::Head head = parser.head();
  RestoreKeyParts parts{head.stage, std::move(head.integers), {}};
  const auto inner_key = [&] {
    const std::size_t begin = parser.position();
    const std::size_t end = parser.skip();
    parts.inner.push_back(
        RestoreKey::from_bytes(std::string_view(key.bytes()).substr(begin, end - begin)));
  };
  if (head.tail == kInner) {
    inner_key();
  } else if (head.tail == kList) {
    while (!parser.at_list_end()) {
      inner_key();
    }
  }
  if (parts.stage != stage || parts.integers.size() != integer_count ||
      (inner_count && parts.inner.size() != *inner_count)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "restore key '{}' does not fit the pipeline: expected stage {} with {} numbers here",
            key.text(), to_string(stage), integer_count));
  }
  return parts;
}

std::vector<SampleRef> samples_in(const RestoreKey& key) {
  std::vector<SampleRef> samples;
  if (!key.empty()) {
    ByteParser parser(key.bytes());
    append_samples(parser, key, samples);
  }
  return samples;
}

std::int64_t leaf_of(const RestoreKey& key) {
  if (!key.empty()) {
    ByteParser parser(key.bytes());
    ByteParser::Head head = parser.head();
    while (head.tail == kInner || (head.tail == kList && !parser.at_list_end())) {
      head = parser.head();
    }
    if (head.stage == Stage::kWebdataset && !head.integers.empty()) {
      return head.integers[0];
    }
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("restore key '{}' does not begin with a sample that was read", key.text()));
}

}  // namespace energon
