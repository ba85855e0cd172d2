// Runs the ranks of a job on this machine as forked processes with a Comm, in place of the launcher
// and process group of a real job.

#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <vector>

#include "energon/distributed/socket_comm.h"

namespace examples {

/// Runs `body` concurrently in `ranks` processes. Returns whether all of them returned true.
inline bool run_ranks(int ranks, const std::function<bool(energon::Comm& comm)>& body) {
  std::vector<std::vector<energon::UniqueFd>> mesh = energon::socket_mesh(ranks);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 1;
      try {
        energon::SocketComm comm(rank, take_row(mesh, rank));
        code = body(comm) ? 0 : 1;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      std::fflush(stdout);
      ::_exit(code);
    }
    children.push_back(child);
  }
  mesh.clear();
  bool all_well = true;
  for (const pid_t child : children) {
    int status = 0;
    all_well = ::waitpid(child, &status, 0) == child && status == 0 && all_well;
  }
  return all_well;
}

}  // namespace examples
