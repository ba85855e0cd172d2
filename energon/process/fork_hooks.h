// Hooks that the program around this library runs when a loader forks.
//
// An embedded interpreter must be notified of each fork: it takes its own locks before, so that no
// other thread holds one at that moment, and gives them back in both processes. A loader with
// workers forks twice on the way to a worker: the trainer forks the fork server, which forks the
// workers.
//
// The hooks are options of a loader, not a registration of the process: the fork server needs the
// same hooks as the trainer, and has them as part of the options that it inherits. So no list is
// shared between threads, and loaders of two libraries in one process do not see each other's
// hooks.

#pragma once

#include <functional>
#include <vector>

namespace energon {

/// Functions may be empty. They are called by the forking thread: in the trainer, the one that
/// makes the loader; in the fork server and in a worker, the only thread. The loader keeps copies,
/// which its processes inherit.
struct ForkHooks {
  /// Called right before a fork. If it throws, there is no fork, `parent` is not called, and the
  /// exception leaves the call that wanted to fork.
  std::function<void()> before = nullptr;

  /// Called in the forking process right after a fork, also after one that failed. If it throws,
  /// the child is killed, and the exception leaves the call that forked.
  std::function<void()> parent = nullptr;

  /// Called in the child, once its signals and descriptors are set and before anything else runs
  /// there. A child whose hook throws ends with exit code 112.
  std::function<void()> child = nullptr;

  /// Descriptors that the fork server and the workers keep open, besides regular files and
  /// directories (energon/process/fork.h). Not owned. Closed descriptors are ignored.
  std::vector<int> keep_descriptors = {};
};

}  // namespace energon
