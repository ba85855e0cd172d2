#include "io/tar/compression.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

using std::string_view_literals::operator""sv;

struct Hint {
  std::string_view begins_with;
  std::string_view text;
};

constexpr std::array kHints = {
    Hint{"version https://git-lfs"sv, "a git-lfs pointer: run 'git lfs pull'"},
    Hint{"<"sv, "an HTML or XML page, perhaps the error page of a download"},
    Hint{"{"sv, "JSON, perhaps the error message of a download"},
    Hint{"PK\x03\x04"sv, "a zip archive"},
    Hint{"\x1f\x8b"sv, "gzip: name it .tar.gz or .tgz"},
    Hint{"\x28\xb5\x2f\xfd"sv, "zstd: name it .tar.zst"},
    Hint{"BZh"sv, "bzip2, which is not read"},
    Hint{"\xfd"
         "7zXZ\0"sv,
         "xz, which is not read"},
    Hint{"\xff\xd8\xff"sv, "a JPEG image"},
    Hint{"\x89PNG"sv, "a PNG image"},
    Hint{"\x89HDF"sv, "an HDF5 file"},
    Hint{"PAR1"sv, "a Parquet file"},
};

}  // namespace

std::string_view to_string(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZstd:
      return "zstd";
  }
  return "unknown";
}

Compression compression_of_name(std::string_view path) {
  if (path.ends_with(".tgz") || path.ends_with(".tar.gz")) {
    return Compression::kGzip;
  }
  if (path.ends_with(".tar.zst")) {
    return Compression::kZstd;
  }
  return Compression::kNone;
}

Compression compression_of_magic(ByteView first_bytes) {
  const std::string_view text = as_text(first_bytes);
  if (text.starts_with("\x1f\x8b"sv)) {
    return Compression::kGzip;
  }
  // A stream may begin with a skippable frame, 0x184D2A50 to 0x184D2A5F in little-endian order.
  const bool skippable = text.size() >= 4 && (text[0] & 0xF0) == 0x50 && text[1] == '\x2a' &&
                         text[2] == '\x4d' && text[3] == '\x18';
  return text.starts_with("\x28\xb5\x2f\xfd"sv) || skippable ? Compression::kZstd
                                                             : Compression::kNone;
}

Compression compression_of(const FileSource& file) {
  std::array<std::byte, 64> buffer{};
  const auto first = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), file.size()));
  file.read_at(0, first);
  const Compression by_name = compression_of_name(file.path());
  const Compression by_magic = compression_of_magic(first);
  if (by_name != by_magic) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the file's name says compression {}, its content {}; {}",
                            to_string(by_name), to_string(by_magic), describe_first_bytes(first)),
                {.path = file.path(), .byte_offset = 0});
  }
  return by_name;
}

std::string describe_first_bytes(ByteView first_bytes) {
  const std::string_view text = as_text(first_bytes);
  std::string result = text.empty()
                           ? std::string("it is empty")
                           : fmt::format("it begins with '{}'", printable(text.substr(0, 32)));
  const auto hint = std::find_if(kHints.begin(), kHints.end(), [text](const Hint& candidate) {
    return text.starts_with(candidate.begins_with);
  });
  if (hint != kHints.end()) {
    result += fmt::format(", which looks like {}", hint->text);
  }
  return result;
}

}  // namespace energon
