#include "energon/sample/key_bytes.h"

#include <array>
#include <bit>

#include <fmt/format.h>

#include "io/error.h"

namespace energon::key_form {
namespace {

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

}  // namespace

std::optional<Stage> stage_named(std::string_view name) {
  for (const Stage stage : kStages) {
    if (to_string(stage) == name) {
      return stage;
    }
  }
  return std::nullopt;
}

void append_head(std::string& bytes, Stage stage, std::span<const std::int64_t> integers) {
  bytes.push_back(static_cast<char>(stage));
  for (const std::int64_t integer : integers) {
    if (integer < 0) {
      throw Error(ErrorCode::kInternal,
                  fmt::format("restore key with negative number {}", integer));
    }
    const auto value = static_cast<std::uint64_t>(integer);
    const int length = (static_cast<int>(std::bit_width(value)) + 7) / 8;
    bytes.push_back(static_cast<char>(kInteger + length));
    for (int i = length - 1; i >= 0; --i) {
      bytes.push_back(static_cast<char>(value >> (8 * i)));
    }
  }
}

void fail_at(std::size_t position, std::string_view what) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("restore key breaks at position {}: {}", position, what));
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
    fail_at(position_, "it ends too early");
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

}  // namespace energon::key_form
