// Writing to descriptors: all of it, and failures as errors instead of signals.
//
// A write past the file size limit of the process (ulimit -f), or to a pipe that nobody reads, is
// by default a signal that ends the process. A library must not change what signals do, so they are
// blocked in the writing thread, and what a write has raised is taken away again: the write then
// fails with EFBIG or EPIPE.

#pragma once

#include <signal.h>

#include "io/bytes.h"
#include "io/error.h"

namespace energon {

/// As long as it lives, SIGXFSZ and SIGPIPE don't reach the thread that made it. For the code of
/// others that writes, such as SQLite's; write_all() has its own. Signals that were pending before
/// stay so. Not to be handed to another thread.
class WriteSignalsBlocked {
 public:
  WriteSignalsBlocked();
  ~WriteSignalsBlocked();
  WriteSignalsBlocked(const WriteSignalsBlocked&) = delete;
  WriteSignalsBlocked& operator=(const WriteSignalsBlocked&) = delete;

 private:
  sigset_t raised_ = {};  // of the two, those that were not pending before
  sigset_t mask_ = {};    // as it was
};

/// Writes all of `content` at the position of `fd`. Returns 0 or the error number; how much was
/// written is then unknown. Thread-safe.
int try_write_all(int fd, ByteView content) noexcept;

/// The same, but throws Error (kIo) that names `operation` and `where`.
void write_all(int fd, ByteView content, std::string_view operation, const ErrorContext& where);

}  // namespace energon
