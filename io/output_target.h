// Where an output really goes: what stands at its path decides.

#pragma once

#include <optional>
#include <string>

#include "io/unique_fd.h"

namespace energon {

/// Where to write what shall be found at a path.
struct OutputTarget {
  /// The file to replace, or to make: `path` with symbolic links followed, so that those stay.
  std::string file = {};
  /// If valid, what is there is no regular file (a character device such as /dev/null, a FIFO, a
  /// descriptor such as /dev/stdout): write here instead, and replace nothing.
  UniqueFd direct = {};
};

/// Throws Error: kInvalidArgument for a folder, a socket, a block device or a FIFO that nobody
/// reads (it is not waited for); kIo; kNotFound if the folder does not exist.
OutputTarget resolve_output(const std::string& path);

/// Throws as resolve_output() for what can never be an output, but opens nothing: to say so at the
/// start of long work.
void check_output(const std::string& path);

/// For a file that was opened for appending with O_NONBLOCK, so that a FIFO was not waited for:
/// takes that away. Throws Error (kInvalidArgument) unless it is a regular file or a character
/// device: others may keep the writer waiting for ever. `path` is named.
void check_can_append(int fd, const std::string& path);

}  // namespace energon
