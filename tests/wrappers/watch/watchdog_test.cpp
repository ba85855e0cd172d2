#include "wrappers/watch/watchdog.h"

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/error_of.h"
#include "tests/support/scripted_dataset.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/watch/timed_stage.h"

using energon::Dataset;
using energon::Error;
using energon::ErrorCode;
using energon::OnTimeout;
using energon::Watchdog;
using energon::WatchdogOptions;
using energon::WatchdogReport;
using energon::testing::ScriptedDataset;
using std::chrono::milliseconds;

namespace {

constexpr std::chrono::hours kNever{1};

// Reports so far; next() can wait for a number of them.
class Reports {
 public:
  void add(const WatchdogReport& report) {
    const std::lock_guard lock(mutex_);
    reports_.push_back(report);
    changed_.notify_all();
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reports_.size() >= count; });
  }
  std::vector<WatchdogReport> all() const {
    const std::lock_guard lock(mutex_);
    return reports_;
  }
  energon::WatchdogHandler handler() {
    return [this](const WatchdogReport& report) { add(report); };
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WatchdogReport> reports_;
};

}  // namespace

TEST_CASE("a watchdog fires repeatedly until the call returns, and in later calls",
          "[wrappers][watchdog]") {
  Reports reports;
  const auto clock = std::make_shared<energon::PipelineClock>();
  std::unique_ptr<Dataset> stage = std::make_unique<ScriptedDataset>([&](std::int64_t item) {
    reports.wait_for(item == 1 ? 3 : item == 2 ? reports.all().size() + 1 : 0);
  });
  stage = std::make_unique<energon::TimedStage>(std::move(stage), "decode", clock,
                                                energon::no_monitor());
  Watchdog watchdog(std::move(stage), {.timeout = milliseconds(100),
                                       .initial_timeout = kNever,
                                       .handler = reports.handler(),
                                       .logical_shard = 5,
                                       .clock = clock});
  watchdog.next();
  CHECK(reports.all().empty());
  watchdog.next();
  watchdog.next();
  const auto all = reports.all();
  REQUIRE(all.size() >= 4);
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(all[i].items == 1);
    CHECK(all[i].times_fired == static_cast<std::int64_t>(i) + 1);
    CHECK(all[i].elapsed >= (i + 1) * milliseconds(100));
    CHECK(all[i].logical_shard == 5);
    CHECK(all[i].stage == "decode");
  }
  CHECK(all.back().items == 2);
  CHECK_THAT(to_string(all[0]), Catch::Contains("logical shard 5") && Catch::Contains("item 1") &&
                                    Catch::Contains("'decode'"));
}

TEST_CASE("the first call has its own timeout", "[wrappers][watchdog]") {
  Reports reports;
  Watchdog watchdog(
      std::make_unique<ScriptedDataset>([&](std::int64_t) { reports.wait_for(1); }),
      {.timeout = kNever, .initial_timeout = milliseconds(5), .handler = reports.handler()});
  watchdog.next();
  CHECK(reports.all().front().times_fired == 1);
  CHECK(reports.all().front().stage.empty());
}

TEST_CASE("without workers a call that took too long throws when it returns",
          "[wrappers][watchdog]") {
  Reports reports;
  Watchdog watchdog(std::make_unique<ScriptedDataset>(
                        [&](std::int64_t item) { reports.wait_for(item == 0 ? 1 : 0); }),
                    {.timeout = kNever,
                     .initial_timeout = milliseconds(5),
                     .handler = reports.handler(),
                     .on_timeout = OnTimeout::kThrow,
                     .logical_shard = 2});
  try {
    watchdog.next();
    FAIL_CHECK("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kTimeout);
    CHECK_THAT(error.what(), Catch::Contains("item 0 of logical shard 2"));
  }
  CHECK(watchdog.next()->keys.front() == "1");
}

TEST_CASE("next throws the exceptions of a handler", "[wrappers][watchdog]") {
  std::mutex mutex;
  std::condition_variable changed;
  bool has_fired = false;
  Watchdog watchdog(std::make_unique<ScriptedDataset>([&](std::int64_t) {
                      std::unique_lock lock(mutex);
                      changed.wait(lock, [&] { return has_fired; });
                    }),
                    {.timeout = milliseconds(5), .handler = [&](const WatchdogReport& report) {
                       const std::lock_guard lock(mutex);
                       has_fired = report.times_fired > 1;  // the first one has thrown by then
                       changed.notify_all();
                       throw std::runtime_error("pager is off");
                     }});
  CHECK_THAT(energon::testing::error_of([&] { watchdog.next(); }, ErrorCode::kUserFunction),
             Catch::Contains("pager is off"));
}

TEST_CASE("a watchdog without a handler or a timeout is refused", "[wrappers][watchdog]") {
  const auto make = [](WatchdogOptions options) {
    Watchdog(std::make_unique<ScriptedDataset>([](std::int64_t) {}), std::move(options));
  };
  CHECK_THROWS_WITH(make({}), Catch::Contains("handler"));
  CHECK_THROWS_WITH(make({.timeout = milliseconds(0), .on_timeout = OnTimeout::kThrow}),
                    Catch::Contains("0 ms"));
  CHECK_NOTHROW(make({.on_timeout = OnTimeout::kThrow}));
}

TEST_CASE("watched pipelines conform", "[wrappers][watchdog][conformance]") {
  const energon::testing::TempDir folder;
  energon::HeapBufferPool memory;
  const auto make =
      energon::train_pipeline(energon::testing::numbered_dataset(folder, energon::testing::kTens),
                              {.batch_size = 2, .repeat = false});
  energon::testing::check_conformance<Dataset>(
      [&]() -> std::unique_ptr<Dataset> {
        return std::make_unique<Watchdog>(
            make({.memory = memory}),
            WatchdogOptions{.timeout = kNever, .on_timeout = OnTimeout::kThrow});
      },
      60);
}
