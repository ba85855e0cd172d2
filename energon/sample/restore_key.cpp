#include "energon/sample/restore_key.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "energon/sample/key_bytes.h"
#include "energon/sample/key_text.h"
#include "io/error.h"

namespace energon {

namespace {

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
                fmt::format("restore key '{}' ends in {}, which is no sample that was read",
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
