#include "cli/job/energon_pickle.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "cli/job/energon_pickle_script.h"
#include "cli/job/interrupt.h"
#include "io/error.h"
#include "io/file.h"

extern char** environ;

namespace energon::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeLimit{600};
constexpr std::size_t kMostOutput = std::size_t{4} << 30;
constexpr std::size_t kMostErrors = std::size_t{16} << 10;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorCode::kIo, fmt::format("no pipe can be made: {}", std::strerror(errno)));
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// A running process, which ends with this object at the latest.
class Child {
 public:
  Child(const std::string& program, std::vector<std::string> words)
      : output_(make_pipe()), errors_(make_pipe()) {
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output_.write_end.get(), 1);
    ::posix_spawn_file_actions_adddup2(&actions, errors_.write_end.get(), 2);
    const int error =
        ::posix_spawnp(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      pid_ = -1;
      throw Error(
          ErrorCode::kNotFound,
          fmt::format("the Python interpreter '{}' cannot be run ({}): it reads the pickles; "
                      "name one with --python",
                      printable(program), std::strerror(error)));
    }
    output_.write_end.reset();
    errors_.write_end.reset();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }

  int output() const { return output_.read_end.get(); }
  int errors() const { return errors_.read_end.get(); }

  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  Pipe output_;
  Pipe errors_;
  pid_t pid_ = -1;
};

// Appends what is there. Returns whether there may be more.
bool read_some(int fd, std::string& text, std::size_t most) {
  std::array<char, 1 << 16> piece{};
  const ssize_t count = ::read(fd, piece.data(), piece.size());
  if (count < 0 && errno == EINTR) {
    return true;
  }
  if (count <= 0) {
    return false;
  }
  text.append(piece.data(), static_cast<std::size_t>(count));
  if (text.size() > most) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the reader of pickles wrote more than {} bytes", most));
  }
  return true;
}

// What the child writes until it closes both of its ends.
std::pair<std::string, std::string> read_all(const Child& child, const std::string& names) {
  const Clock::time_point end = Clock::now() + kTimeLimit;
  std::pair<std::string, std::string> texts;
  std::array<pollfd, 2> ends = {{{child.output(), POLLIN, 0}, {child.errors(), POLLIN, 0}}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    check_interrupt();
    if (Clock::now() > end) {
      throw Error(ErrorCode::kTimeout,
                  fmt::format("the reader of pickles was not done with {} after {} s",
                              printable(names), kTimeLimit.count()));
    }
    if (::poll(ends.data(), ends.size(), 100) <= 0) {
      continue;
    }
    if (ends[0].revents != 0 && !read_some(ends[0].fd, texts.first, kMostOutput)) {
      ends[0].fd = -1;
    }
    if (ends[1].revents != 0 && !read_some(ends[1].fd, texts.second, kMostErrors)) {
      ends[1].fd = -1;
    }
  }
  return texts;
}

}  // namespace

std::vector<EnergonRankState> read_energon_pickles(const std::vector<std::string>& files,
                                                   const std::string& python) {
  // -I -S: neither the environment nor installed packages have a say.
  std::vector<std::string> words = {python, "-I", "-S", "-c", kEnergonPickleScript};
  words.insert(words.end(), files.begin(), files.end());
  Child child(python, std::move(words));
  const std::string names = fmt::format("{}", fmt::join(files, ", "));
  auto [json, problems] = read_all(child, names);
  const int status = child.wait();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    while (!problems.empty() && problems.back() == '\n') {
      problems.pop_back();
    }
    const std::string how = WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status))
                                              : fmt::format("signal {}", WTERMSIG(status));
    throw Error(
        ErrorCode::kCorruptData,
        problems.empty()
            ? fmt::format("the reader of pickles ended with {}; it read {}", how, printable(names))
            : fmt::format("no state of Energon's loader was read: {}", printable(problems)));
  }
  try {
    return parse_energon_states(json);
  } catch (Error& error) {
    error.with({.path = python});
    throw;
  }
}

}  // namespace energon::cli
