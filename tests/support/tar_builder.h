// Builds tar archives in memory, valid ones and deliberately invalid ones:
//
//   const std::string tar = TarBuilder().file("a.txt", "hello").directory("d/").end().text();
//
// Every function appends to the archive. For anything else use header(), whose fields may be set
// freely, and raw().

#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace energon::testing {

inline constexpr std::string_view kUstarMagic{"ustar\00000", 8};
inline constexpr std::string_view kGnuMagic{"ustar  \0", 8};
inline constexpr std::string_view kV7Magic{"\0\0\0\0\0\0\0\0", 8};

/// One header block. Unset fields have the values that tar would write.
struct TarHeaderSpec {
  std::string name;
  std::uint64_t size = 0;
  char type = '0';
  std::string_view magic = kUstarMagic;
  std::string prefix = {};
  std::string link = {};
  std::string size_field = {};      ///< the field's bytes, instead of `size` in octal
  std::string checksum_field = {};  ///< the field's bytes, instead of the valid checksum
};

using PaxPairs = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// A header block with a valid checksum, unless the spec sets one.
std::string tar_header(const TarHeaderSpec& spec);
/// `block` with its checksum recomputed, for use after a change.
std::string with_checksum(std::string block);
/// `value` as a 12-byte GNU base-256 number for the size field.
std::string base256(std::int64_t value);
/// "<length> key=value\n"
std::string pax_record(std::string_view key, std::string_view value);

class TarBuilder {
 public:
  TarBuilder& header(const TarHeaderSpec& spec);
  /// Appends `bytes`, padded to whole blocks.
  TarBuilder& data(std::string_view bytes);
  TarBuilder& raw(std::string_view bytes);

  TarBuilder& file(std::string_view name, std::string_view content);
  TarBuilder& gnu_file(std::string_view name, std::string_view content);
  TarBuilder& v7_file(std::string_view name, std::string_view content);
  TarBuilder& directory(std::string_view name);
  TarBuilder& hard_link(std::string_view name, std::string_view target);
  TarBuilder& symbolic_link(std::string_view name, std::string_view target);
  TarBuilder& fifo(std::string_view name);

  /// Appends a GNU long name ('L'); the member itself must follow.
  TarBuilder& gnu_long_name(std::string_view name);
  TarBuilder& gnu_long_link(std::string_view target);
  /// Appends a pax header; the member itself must follow.
  TarBuilder& pax(PaxPairs records);
  TarBuilder& pax_raw(std::string_view body);
  TarBuilder& pax_global(PaxPairs records);

  /// Appends a GNU sparse file with 1,024 stored bytes and a logical size of 5,000 bytes.
  TarBuilder& gnu_sparse_file(std::string_view name);

  TarBuilder& zero_blocks(int count);
  TarBuilder& end() { return zero_blocks(2); }

  const std::string& text() const { return text_; }
  std::uint64_t size() const { return text_.size(); }

 private:
  TarBuilder& extension(char type, std::string_view magic, std::string_view body);

  std::string text_;
};

}  // namespace energon::testing
