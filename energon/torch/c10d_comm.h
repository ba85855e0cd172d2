// A Comm over a process group of libtorch (c10d), of version 1.13 or 2.
//
//   auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
//   auto comm = energon::c10d_comm(group, {.timeout = std::chrono::minutes(2)});
//
// With torch 2 ProcessGroupGloo is a backend; a c10d::ProcessGroup, such as Python's
// torch.distributed.new_group(backend="gloo"), is taken just as well.
//
// Everything goes as messages between two ranks, so an error can name the rank. The group may be a
// part of the job, such as the data-parallel ranks: ranks are those within the group.

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

/// Takes part in `group`, which must move CPU tensors and be used for nothing else while the Comm
/// is: make one of its own. Give the group a timeout no longer than that of the Comm: after an
/// Error, destroying the group may wait for as long. Throws Error: kInvalidArgument for none;
/// kUnsupported for a group without a backend for the CPU (NCCL, XCCL, ...) and for MPI, whose
/// messages cannot be given up.
std::unique_ptr<Comm> c10d_comm(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                const CommOptions& options = {});

/// The same over one backend; with torch 2 only.
std::unique_ptr<Comm> c10d_backend_comm(c10::intrusive_ptr<c10d::Backend> backend,
                                        const CommOptions& options = {});

/// The same for a class such as c10d::ProcessGroupGloo, whatever it derives from.
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
