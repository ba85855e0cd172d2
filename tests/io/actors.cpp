#include "tests/io/actors.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

#include "io/file.h"

extern char** environ;

namespace energon::testing {
namespace {

std::vector<char*> pointers(const Words& words) {
  std::vector<char*> result;
  for (const std::string& word : words) {
    result.push_back(const_cast<char*>(word.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

pid_t start(const Words& actor, const Words& environment, int start_fd) {
  Words words = {ENERGON_SHARED_ACTOR};
  words.insert(words.end(), actor.begin(), actor.end());
  Words variables = environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  // Sanitizers must be loaded first, so they are not used here.
  variables.insert(variables.begin(),
                   {"LD_PRELOAD=" ENERGON_SHARED_FAULTS, "ASAN_OPTIONS=verify_asan_link_order=0"});
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, start_fd, 3);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, ENERGON_SHARED_ACTOR, &actions, nullptr,
                                  pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw std::runtime_error("cannot start shared_actor");
  }
  return pid;
}

}  // namespace

std::vector<ChildResult> run_actors(const std::vector<Words>& actors, const Words& environment) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe failed");
  }
  UniqueFd start_fd(ends[0]);
  UniqueFd held(ends[1]);
  std::vector<pid_t> pids;
  for (const Words& actor : actors) {
    pids.push_back(start(actor, environment, start_fd.get()));
  }
  held.reset();
  std::vector<ChildResult> results;
  for (const pid_t pid : pids) {
    results.push_back(await_child(pid, std::chrono::seconds(120)));
  }
  return results;
}

}  // namespace energon::testing
