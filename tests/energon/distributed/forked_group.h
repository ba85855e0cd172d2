// Groups of forked processes: the ranks of a job in a test.
//
// Catch2's assertions do not work in children: a rank returns a string, and the parent asserts on
// the strings of all.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "energon/distributed/comm.h"

namespace energon::testing {

/// How one rank ended.
struct RankReport {
  std::string text;  ///< what the body returned; "error <code>: <message>" for an Error
  bool exited = false;
  int signal = 0;
  std::chrono::milliseconds took = {};  ///< until the body was done, as measured by the rank
};

/// Runs `body` on `size` forked processes at once.
std::vector<RankReport> run_ranks(int size, const std::function<std::string(int rank)>& body);

/// The same with a Comm over socketpairs. A rank that ends hangs up on the others.
std::vector<RankReport> run_group(int size, const std::function<std::string(Comm& comm)>& body,
                                  const CommOptions& options = {
                                      .timeout = std::chrono::seconds(20)});

/// Only the texts of the ranks.
std::vector<std::string> texts(const std::vector<RankReport>& reports);

/// "<code>: <message>" of the Error that `body` throws, else "no error".
std::string error_of(const std::function<void()>& body);

/// Calls each collective with every root. Returns the results of this rank, and the expected ones.
std::string exercise(Comm& comm);
std::string expected_exercise(int rank, int size);

}  // namespace energon::testing
