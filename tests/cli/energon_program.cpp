#include "tests/cli/energon_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <catch2/catch.hpp>

#include "io/file.h"
#include "tests/support/fork_watch.h"

extern char** environ;

namespace energon::testing {
namespace {

constexpr unsigned kLimitSeconds = 180;

void use_own_cache() {
  static const TempDir folder;
  ::setenv("ENERGON_CACHE_DIR", folder.path().c_str(), 1);
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

RunningProgram::RunningProgram(const std::vector<std::string>& arguments) {
  use_own_cache();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe failed");
  }
  output_ = UniqueFd(ends[0]);
  const UniqueFd write_end(ends[1]);
  // The program ends with this process; alarm() below ends this process if the program hangs.
  std::vector<std::string> words = {ENERGON_TEST_GUARD, std::to_string(::getpid()),
                                    may_fork() ? "fork" : "no-fork", ENERGON_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, folder_.file("stderr").c_str(),
                                     O_WRONLY | O_CREAT, 0600);
  const int error =
      ::posix_spawn(&pid_, ENERGON_TEST_GUARD, &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw std::runtime_error("cannot run " ENERGON_PROGRAM);
  }
  ::alarm(kLimitSeconds);
}

RunningProgram::~RunningProgram() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::alarm(0);
}

std::string RunningProgram::read_line() {
  while (text_.find('\n') == std::string::npos) {
    std::array<char, 4096> piece{};
    const ssize_t n = ::read(output_.get(), piece.data(), piece.size());
    if (n <= 0) {
      return std::exchange(text_, "");
    }
    text_.append(piece.data(), static_cast<std::size_t>(n));
  }
  const std::string line = text_.substr(0, text_.find('\n'));
  text_.erase(0, line.size() + 1);
  return line;
}

void RunningProgram::send_signal(int signal) { ::kill(pid_, signal); }

ProgramResult RunningProgram::finish() {
  ProgramResult result;
  std::array<char, 4096> piece{};
  ssize_t n = 0;
  while (output_.get() >= 0 && (n = ::read(output_.get(), piece.data(), piece.size())) > 0) {
    text_.append(piece.data(), static_cast<std::size_t>(n));
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS && !may_fork()) {
    throw std::runtime_error("the program forked in a test case without the tag [fork]");
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.out = std::move(text_);
  result.err = read_file(folder_.file("stderr"));
  return result;
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

ProgramResult run_energon(const std::vector<std::string>& arguments) {
  return RunningProgram(arguments).finish();
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> values;
  for (const std::string& line : split_lines(text)) {
    values.push_back(nlohmann::json::parse(line));
  }
  return values;
}

std::vector<std::string> run_lines(const std::string& path, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"run", path});
  const ProgramResult result = run_energon(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return split_lines(result.out);
}

std::vector<std::string> keys_of(const std::vector<std::string>& lines) {
  std::vector<std::string> keys;
  for (const std::string& line : lines) {
    const auto more = nlohmann::json::parse(line).at("keys").get<std::vector<std::string>>();
    keys.insert(keys.end(), more.begin(), more.end());
  }
  return keys;
}

std::vector<std::int64_t> numbers_of(const std::vector<std::string>& lines) {
  std::vector<std::int64_t> numbers;
  for (const std::string& key : keys_of(lines)) {
    numbers.push_back(std::stoll(key));
  }
  return numbers;
}

}  // namespace energon::testing
