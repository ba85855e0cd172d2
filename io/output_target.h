// Resolves where to write an output, depending on what exists at its path.

#pragma once

#include <optional>
#include <string>

#include "io/unique_fd.h"

namespace energon {

/// Where to write the output for a path.
struct OutputTarget {
  /// The file to replace or create: `path` with symbolic links resolved, so that the links stay.
  std::string file = {};
  /// If valid, `path` is a character device such as /dev/null, a FIFO, or a descriptor such as
  /// /dev/stdout: write to `direct`, and replace nothing.
  UniqueFd direct = {};
};

/// Throws Error: kInvalidArgument for a folder, a socket, a block device, or a FIFO without a
/// reader (the call does not wait for one); kIo.
OutputTarget resolve_output(const std::string& path);

/// Checks `path` without opening it, before long work starts. Throws Error: kInvalidArgument if it
/// can never be an output, kNotFound if its folder does not exist, kIo.
void check_output(const std::string& path);

/// Clears O_NONBLOCK of a file that was opened for appending with O_NONBLOCK, so that open() did
/// not wait on a FIFO. Throws Error: kInvalidArgument unless it is a regular file or a character
/// device, because writes to other kinds can block forever; kIo. `path` is named in errors.
void check_can_append(int fd, const std::string& path);

}  // namespace energon
