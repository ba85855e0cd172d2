#include "tests/support/fork_watch.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

namespace energon::testing {
namespace {

std::atomic<bool> g_may_fork{false};
std::atomic<bool> g_forked{false};

std::vector<std::string>& names() {
  static std::vector<std::string> list;
  return list;
}

void before_fork() { g_forked.store(true, std::memory_order_relaxed); }

class ForkListener final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    g_may_fork =
        std::find(info.lcaseTags.begin(), info.lcaseTags.end(), "fork") != info.lcaseTags.end();
    g_forked = false;
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    TestEventListenerBase::testCaseEnded(stats);
    if (g_forked && !g_may_fork) {
      names().push_back(stats.testInfo.name);
    }
  }
};

CATCH_REGISTER_LISTENER(ForkListener)

}  // namespace

void watch_forks() {
  if (::pthread_atfork(before_fork, nullptr, nullptr) != 0) {
    throw std::runtime_error("pthread_atfork failed");
  }
}

const std::vector<std::string>& untagged_forks() { return names(); }

bool may_fork() { return g_may_fork; }

}  // namespace energon::testing
