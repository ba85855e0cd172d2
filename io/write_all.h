// Writes everything to a descriptor. Failures are errors, not signals.
//
// By default, a write past the file size limit of the process (ulimit -f), or to a pipe without
// readers, raises a signal that ends the process. A library must not change signal handlers.
// Instead, these signals are blocked in the writing thread, and a signal raised by the write is
// consumed: the write fails with EFBIG or EPIPE.

#pragma once

#include <signal.h>

#include "io/bytes.h"
#include "io/error.h"

namespace energon {

/// While an object lives, SIGXFSZ and SIGPIPE do not reach the thread that created it. For
/// third-party code that writes, such as SQLite; write_all() does this itself. Signals that were
/// pending before stay pending. Must be destroyed in the thread that created it.
class WriteSignalsBlocked {
 public:
  WriteSignalsBlocked();
  ~WriteSignalsBlocked();
  WriteSignalsBlocked(const WriteSignalsBlocked&) = delete;
  WriteSignalsBlocked& operator=(const WriteSignalsBlocked&) = delete;

 private:
  sigset_t raised_ = {};  // those of the two that were not pending before
  sigset_t mask_ = {};    // the mask before
};

/// Writes all of `content` at the position of `fd`. Returns 0 or the error number; after an error,
/// it is unknown how much was written. Thread-safe.
int try_write_all(int fd, ByteView content) noexcept;

/// The same, but throws Error (kIo), which names `operation` and `where`.
void write_all(int fd, ByteView content, std::string_view operation, const ErrorContext& where);

}  // namespace energon
