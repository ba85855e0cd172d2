// What a forked child does with the descriptors that it inherits but was not given.
//
// Closing them is wrong: the next file that the child opens gets such a number, and code of the
// user that still knows the number reads or writes that file. Keeping them open is wrong, too: a
// peer never sees the end of a pipe or a socket, a port stays in use, and a lifeline is held by the
// process that watches it. So
//   - regular files and directories stay as they are. They share their offset with the parent, and
//     a lock of flock() is held until the last process has closed the file;
//   - over everything else (sockets, pipes, devices, eventfds, pidfds, memfds, …) goes a
//     placeholder, which is an O_PATH descriptor of "/": the number stays taken, the other side
//     sees the end, and each use fails with EBADF.
// 0, 1 and 2 stay.

#pragma once

#include <span>

#include "io/file.h"

namespace energon {

/// Made before the fork, which takes two descriptors until the object is destroyed. Move-only.
class ForeignDescriptors {
 public:
  /// Throws Error (kResourceExhausted) if no descriptor is left.
  static ForeignDescriptors prepare();

  /// In the child: puts placeholders over all descriptors that are not in `keep`. Never fails: a
  /// number that cannot be replaced is closed. Requires: the process has one thread.
  void replace(std::span<const int> keep);

 private:
  ForeignDescriptors(UniqueFd placeholder, UniqueFd spare)
      : placeholder_(std::move(placeholder)), spare_(std::move(spare)) {}

  UniqueFd placeholder_;
  UniqueFd spare_;  // so that a child at its limit can list its descriptors
};

}  // namespace energon
