// A Comm over a process group of libtorch (c10d).
//
//   auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
//   auto comm = energon::c10d_comm(group, {.timeout = std::chrono::minutes(2)});
//
// Everything goes as messages between two ranks, so an error can name the rank. The group may be a
// part of the job, such as the data-parallel ranks: ranks are those within the group.

#pragma once

#include <memory>

#include <c10/util/intrusive_ptr.h>

#include "energon/distributed/comm.h"

namespace c10d {
class ProcessGroup;
}

namespace energon {

/// Takes part in `group`, which must move CPU tensors (Gloo, MPI) and be used for nothing else
/// while the Comm is: make one of its own. Give the group a timeout no longer than that of the
/// Comm: after an Error, destroying the group may wait for as long. Throws Error (kInvalidArgument,
/// kUnsupported for NCCL).
std::unique_ptr<Comm> c10d_comm(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                const CommOptions& options = {});

}  // namespace energon
