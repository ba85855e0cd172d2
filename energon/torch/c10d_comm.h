// A Comm over a process group of libtorch (c10d), of version 1.13 or 2.
//
//   auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
//   auto comm = energon::c10d_comm(group, {.timeout = std::chrono::minutes(2)});
//
// With torch 2, ProcessGroupGloo is a backend. A c10d::ProcessGroup, such as Python's
// torch.distributed.new_group(backend="gloo"), works as well.
//
// All communication is messages between two ranks, so an error can name the rank. The group may be
// part of the job, such as the data-parallel ranks; rank numbers are those within the group.

#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <c10/util/intrusive_ptr.h>

#include "energon/distributed/comm.h"

namespace c10d {
class Backend;
class ProcessGroup;
}  // namespace c10d

namespace energon {

/// Shares ownership of `group`, which must support CPU tensors. Nothing else may use the group
/// while the Comm exists: make a separate group for it. The group's timeout should be no longer
/// than the Comm's, because after an Error, destroying the group may wait that long. Throws Error:
/// kInvalidArgument for null; kUnsupported for a group without a CPU backend (NCCL, XCCL, ...) and
/// for MPI, whose messages cannot be cancelled.
std::unique_ptr<Comm> c10d_comm(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                const CommOptions& options = {});

/// The same over a single backend; torch 2 only.
std::unique_ptr<Comm> c10d_backend_comm(c10::intrusive_ptr<c10d::Backend> backend,
                                        const CommOptions& options = {});

/// The same for a class such as c10d::ProcessGroupGloo, with any base class.
template <class Group>
requires(!std::is_same_v<Group, c10d::ProcessGroup>) std::unique_ptr<Comm> c10d_comm(
    c10::intrusive_ptr<Group> group, const CommOptions& options = {}) {
  if constexpr (std::is_convertible_v<Group*, c10d::ProcessGroup*>) {
    return c10d_comm(c10::intrusive_ptr<c10d::ProcessGroup>(std::move(group)), options);
  } else {
    return c10d_backend_comm(std::move(group), options);
  }
}

}  // namespace energon
