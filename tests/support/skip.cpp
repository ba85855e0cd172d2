#include "tests/support/skip.h"

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

namespace energon::testing {
namespace {

std::string g_reason;  // of the running case, if it was skipped

std::vector<std::string>& skipped_names() {
  static std::vector<std::string> list;
  return list;
}

class SkipListener final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    g_reason.clear();
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    TestEventListenerBase::testCaseEnded(stats);
    if (!g_reason.empty() && stats.totals.assertions.allOk()) {
      skipped_names().push_back(stats.testInfo.name + ": " + g_reason);
    }
  }
};

CATCH_REGISTER_LISTENER(SkipListener)

}  // namespace

void skip_case(std::string_view reason) {
  g_reason = reason;
  WARN("SKIPPED: " << g_reason);
}

const std::vector<std::string>& skipped_cases() { return skipped_names(); }

}  // namespace energon::testing
