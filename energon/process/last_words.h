// Sends the error that ended a child to the process that reaps it, through a pipe.
//
// A worker that cannot even open its channel has no other way to report why. The pipe is made
// before the fork, and keeps what was written to it after the child has ended.

#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <utility>

#include "io/file.h"

namespace energon {

/// An encoded Error is cut to this many bytes, which are written to a pipe atomically.
inline constexpr std::size_t kLastWordsBytes = 4096;

/// Move-only.
class LastWords {
 public:
  /// Called before the fork. Throws Error (kResourceExhausted).
  static LastWords open();

  /// The descriptor that the child must keep.
  int writing_fd() const { return writing_.get(); }

  /// Called in the child: reports why it ends. Never blocks, never throws.
  void say(const std::exception_ptr& why) const noexcept;

  /// Called in the parent, after the fork.
  void close_writing() { writing_.reset(); }
  /// What the child reported: an encoded Error, empty if it reported nothing. Called after its end.
  std::string heard() const;

 private:
  LastWords(UniqueFd reading, UniqueFd writing)
      : reading_(std::move(reading)), writing_(std::move(writing)) {}

  UniqueFd reading_;
  UniqueFd writing_;
};

}  // namespace energon
