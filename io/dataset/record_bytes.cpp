#include "io/dataset/record_bytes.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

static_assert(std::endian::native == std::endian::little,
              "records are little-endian and are read and written as they are");

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);  // of the version and of the digest

std::uint64_t word_at(std::string_view bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), kWordBytes);
  return value;
}

}  // namespace

std::string begin_record(const RecordFormat& format) {
  std::string out(format.magic);
  append_u64(out, format.version);
  return out;
}

void append_u64(std::string& out, std::uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), kWordBytes);
}

void append_text(std::string& out, std::string_view text) {
  append_u64(out, text.size());
  out += text;
}

void seal_record(std::string& out) { append_u64(out, xxh3_64(as_bytes(out))); }

RecordReader::RecordReader(std::string_view content, const RecordFormat& format,
                           const std::string& path)
    : rest_(content), format_(format), path_(path) {
  if (content.size() < format.magic.size() + 2 * kWordBytes || !content.starts_with(format.magic)) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("not {}: it is too short or begins with other bytes; prepare the "
                            "dataset again",
                            format.what),
                {.path = path});
  }
  rest_.remove_suffix(kWordBytes);
  if (word_at(content.substr(rest_.size())) != xxh3_64(as_bytes(rest_))) {
    fail("its own digest does not match");
  }
  rest_.remove_prefix(format.magic.size());
  if (const std::uint64_t version = u64(); version != format.version) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} has version {}, this library reads version {}; prepare the dataset "
                            "again",
                            format.what, version, format.version),
                {.path = path});
  }
}

std::uint64_t RecordReader::u64() { return word_at(take(kWordBytes)); }

std::string_view RecordReader::text() { return take(u64()); }

void RecordReader::fail(std::string_view problem) const {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("{} is damaged: {}; prepare the dataset again", format_.what, problem),
              {.path = path_});
}

std::string_view RecordReader::take(std::uint64_t size) {
  if (size > rest_.size()) {
    fail("it ends in the middle of an entry");
  }
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

}  // namespace energon
