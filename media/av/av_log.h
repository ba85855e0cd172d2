// FFmpeg's messages as causes of our errors.
//
// FFmpeg prints its messages through one callback of the process. The first scope of the process
// installs one that keeps the messages of threads that are inside a scope and hands all others to
// FFmpeg's default callback.

#pragma once

#include <string>

#include "io/error.h"

namespace energon {

/// While it lives, messages of FFmpeg on this thread are kept, not printed. Scopes may nest; the
/// innermost gets the messages. Must end on the thread that it began on.
class AvLogScope {
 public:
  AvLogScope();
  ~AvLogScope();
  AvLogScope(const AvLogScope&) = delete;
  AvLogScope& operator=(const AvLogScope&) = delete;

  /// The last message at FFmpeg's level "error" or worse, printable; empty if there was none.
  const std::string& last_error() const { return last_error_; }
  void clear() { last_error_.clear(); }
  /// Called by the callback.
  void keep(std::string line) { last_error_ = std::move(line); }

 private:
  AvLogScope* const outer_;
  std::string last_error_;
};

/// "what: last message of FFmpeg (text of the code)"; kResourceExhausted if FFmpeg had no memory or
/// refused a frame above max_pixels, kUnsupported for what FFmpeg cannot read, else kCorruptData.
Error av_error(std::string what, int code, const AvLogScope& log);

}  // namespace energon
