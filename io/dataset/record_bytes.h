// The bytes that our binary files of a dataset have in common: magic bytes, a version, integers and
// texts, and a digest of it all. Private to io. docs/formats/shard_record.md gives the layout.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace energon {

struct RecordFormat {
  std::string_view magic;  ///< 8 bytes
  std::uint64_t version;
  std::string_view what;  ///< for errors, such as "the record of the shards"
};

/// Magic bytes and version.
std::string begin_record(const RecordFormat& format);
void append_u64(std::string& out, std::uint64_t value);
/// The length, then the bytes.
void append_text(std::string& out, std::string_view text);
/// Appends the digest of all bytes before.
void seal_record(std::string& out);

/// Reads what follows the version. `content` and `path`, which errors name, must outlive it.
class RecordReader {
 public:
  /// Throws Error: kCorruptData if magic bytes or digest are wrong, kUnsupported for another
  /// version.
  RecordReader(std::string_view content, const RecordFormat& format, const std::string& path);

  /// Throw Error (kCorruptData) at the end.
  std::uint64_t u64();
  std::string_view text();  ///< in `content`

  /// Bytes before the digest that were not read yet.
  std::size_t left() const { return rest_.size(); }
  /// Throws Error (kCorruptData) that says what is damaged, and then `problem`.
  [[noreturn]] void fail(std::string_view problem) const;

 private:
  std::string_view take(std::uint64_t size);

  std::string_view rest_;
  const RecordFormat format_;
  const std::string& path_;
};

}  // namespace energon
