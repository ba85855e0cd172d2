// What a dying child tells who reaps it: the error that escaped it, through a pipe.
//
// A worker that cannot even open its channel has no other way to say why. The pipe is made before
// the fork; what was written to it stays there after the child's end.

#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "io/error.h"
#include "io/unique_fd.h"

namespace energon {

/// An error as bytes: its code, then its text. At most kLastWordsBytes.
std::string encode_last_words(ErrorCode code, std::string_view text);
/// Nothing if `bytes` is empty.
std::optional<Error> decode_last_words(std::string_view bytes);

/// Longer ones are cut: so many are written at once or not at all.
inline constexpr std::size_t kLastWordsBytes = 4096;

/// Move-only.
class LastWords {
 public:
  /// Before the fork. Throws Error (kResourceExhausted).
  static LastWords open();

  /// What the child must keep.
  int writing_fd() const { return writing_.get(); }

  /// In the child: says why it ends. Never blocks, never throws.
  void say(const std::exception_ptr& why) const noexcept;

  /// In the parent, after the fork.
  void close_writing() { writing_.reset(); }
  /// What the child said, once it ended; empty if nothing.
  std::string heard() const;

 private:
  LastWords(UniqueFd reading, UniqueFd writing)
      : reading_(std::move(reading)), writing_(std::move(writing)) {}

  UniqueFd reading_;
  UniqueFd writing_;
};

}  // namespace energon
