// Runs the cases of a test program. Exit codes: 0 if all passed, kSkipExitCode if all were skipped,
// 1 if some failed or forked without the tag [fork], or no case matched.

#include <cstdio>

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "tests/support/fork_watch.h"
#include "tests/support/skip.h"

using namespace energon::testing;

namespace {

std::size_t g_cases = 0;

class CaseCounter final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    ++g_cases;
  }
};

CATCH_REGISTER_LISTENER(CaseCounter)

bool only_lists(const Catch::ConfigData& config) {
  return config.listTests || config.listTags || config.listReporters || config.listTestNamesOnly ||
         config.showHelp || config.libIdentify;
}

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv); error != 0) {
    return error;
  }
  if (only_lists(session.configData())) {
    return session.run();
  }
  watch_forks();
  bool failed =
      session.run() != 0;  // run() returns the number of failures, which may equal kSkipExitCode
  if (g_cases == 0) {
    std::fprintf(stderr, "no test case matches\n");
    failed = true;
  }
  for (const std::string& name : untagged_forks()) {
    std::fprintf(stderr, "forks without the tag [fork]: %s\n", name.c_str());
    failed = true;
  }
  for (const std::string& name : skipped_cases()) {
    std::fprintf(stderr, "skipped: %s\n", name.c_str());
  }
  if (failed) {
    return 1;
  }
  return skipped_cases().size() == g_cases ? kSkipExitCode : 0;
}
