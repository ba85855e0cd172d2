// The byte form of restore keys: docs/formats/restore_key.md. Private to energon/sample.
//
// A stage is its number, its integers, then kEnd; or kList, the inner keys and kEnd; or kInner and
// the inner key. An integer is (kInteger + number of significant bytes), then these bytes, most
// significant first.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/restore_key.h"

namespace energon::key_form {

inline constexpr char kEnd = 0x00;
inline constexpr char kInner = 0x01;
inline constexpr char kList = 0x02;
inline constexpr int kMaxDepth = 64;

/// The stage with this name in the text form; nothing if there is none.
std::optional<Stage> stage_named(std::string_view name);

/// Appends the number of a stage and its integers. Throws Error (kInternal) if one is negative.
void append_head(std::string& bytes, Stage stage, std::span<const std::int64_t> integers);

/// Throws Error (kInvalidArgument) with the position in the text or the bytes of a key.
[[noreturn]] void fail_at(std::size_t position, std::string_view what);

/// Walks over the byte form of a key, one stage at a time. All members that read throw Error
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

  /// True at the end mark of a list, which is then passed over.
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

}  // namespace energon::key_form
