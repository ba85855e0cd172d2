// Runs the built program `energon` as a user does: arguments in; exit code, stdout and stderr out.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/support/temp_dir.h"

namespace energon::testing {

struct ProgramResult {
  int exit_code = -1;  ///< -1: killed by `signal`
  int signal = 0;
  std::string out;
  std::string err;
};

/// A running program whose standard output is a pipe. Killed by the destructor, and when this
/// process ends in another way, as it does after 180 s. In a case without the tag [fork] it may not
/// fork.
class RunningProgram {
 public:
  explicit RunningProgram(const std::vector<std::string>& arguments);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  /// The next line of its output, without the end of line, or an empty string at the end.
  std::string read_line();
  /// Closes our end of the pipe, as `head` does.
  void close_output() { output_.reset(); }
  void send_signal(int signal);
  pid_t pid() const { return pid_; }
  /// Reads the rest and waits for the end.
  ProgramResult finish();

 private:
  TempDir folder_;  // for stderr
  UniqueFd output_;
  pid_t pid_ = -1;
  std::string text_;  // read, but not asked for yet
};

/// Arguments of a command line, put together with +.
using Words = std::vector<std::string>;
Words operator+(Words words, const Words& more);

/// Runs the program to its end. Standard input is empty; caches go to a folder of the test.
ProgramResult run_energon(const std::vector<std::string>& arguments);

/// The lines of `text` as JSON.
std::vector<nlohmann::json> json_lines(const std::string& text);

/// Lines of `run PATH arguments…`; the program must end with exit code 0.
std::vector<std::string> run_lines(const std::string& path, std::vector<std::string> arguments);

/// The keys of all batches in these lines, in order.
std::vector<std::string> keys_of(const std::vector<std::string>& lines);
std::vector<std::int64_t> numbers_of(const std::vector<std::string>& lines);

}  // namespace energon::testing
