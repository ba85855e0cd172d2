// Two threads in one loader: calls that change the position are refused while another call runs,
// calls that only read it work, and close() ends the first call.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/loader/basic_data_loader.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/error_of.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"

namespace {

using energon::CallContext;
using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::Sample;
using energon::SavableDataLoader;
using energon::TrainOptions;
using energon::testing::error_of;
using energon::testing::eventually;
using energon::testing::label;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::no_children;
using energon::testing::ProcessFixture;
using energon::testing::take;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TrainOptions calling(std::function<void()> function) {
  TrainOptions options;
  options.batch_size = 2;
  options.task_encoder.encode_sample =
      energon::MapFunction([function = std::move(function)](Sample sample, CallContext&) {
        function();
        return sample;
      });
  return options;
}

TrainOptions sleeping(milliseconds time) {
  return calling([time] { std::this_thread::sleep_for(time); });
}

// next() in its own thread. A check shows when it is in the call.
class Waiting {
 public:
  Waiting(const LoaderFixture& fixture, int workers)
      : loader(fixture.pipeline(), {.worker_config = {.num_workers = workers},
                                    .wait_check = [this] { is_in = true; }}) {}
  void begin() {
    is_in = false;
    thread_ = std::jthread([this] {
      try {
        batch = loader.next();
      } catch (const Error& caught) {
        ended_at = Clock::now();
        error = caught;
      }
    });
    REQUIRE(eventually([this] { return is_in.load(); }));
  }
  void end() { thread_.join(); }

  std::atomic<bool> is_in{false};
  SavableDataLoader loader;
  std::optional<Sample> batch;
  std::optional<Error> error;
  Clock::time_point ended_at;  // when it threw

 private:
  std::jthread thread_;
};

void check_refused(SavableDataLoader& loader, const energon::SavableDataLoaderState& state) {
  const auto refused = [](const auto& call, const char* name) {
    CHECK_THAT(error_of(call, ErrorCode::kInvalidArgument),
               Catch::StartsWith(name) &&
                   Catch::Contains("was called while next() of the same loader ran in another"));
  };
  refused([&] { loader.next(); }, "next()");
  refused([&] { loader.restore_state_rank(state); }, "restore_state_rank()");
  refused([&] { loader.rewind(0); }, "rewind()");
  refused([&] { loader.stop(); }, "stop()");
}

// Immediately, while next() runs.
void check_allowed(SavableDataLoader& loader, const energon::SavableDataLoaderState& state) {
  CHECK(loader.save_state_rank() == state);
  CHECK(loader.state_at(0) == state);
  CHECK(loader.earliest_state() == 0);
  CHECK(loader.stats().consumer.batches == 0);
  // No pids while the first next() is still starting the workers.
  CHECK(loader.worker_pids().size() <=
        static_cast<std::size_t>(loader.options().worker_config.num_workers));
  CHECK_FALSE(loader.batches_left());
  CHECK_FALSE(loader.config().empty());
  CHECK(loader.epoch() == 0);
}

}  // namespace

TEST_CASE_METHOD(ProcessFixture, "a second thread is refused and has no effect",
                 "[loader][two_threads][fork]") {
  for (const int workers : {2, 0}) {
    CAPTURE(workers);
    const LoaderFixture fixture(sleeping(milliseconds(300)));
    const Labels expected = take(*LoaderFixture(sleeping(milliseconds(0))).loader(workers), 6);
    Waiting waiting(fixture, workers);
    const auto state = waiting.loader.save_state_rank();
    waiting.begin();
    check_refused(waiting.loader, state);
    check_allowed(waiting.loader, state);
    waiting.end();
    CHECK_FALSE(waiting.error);
    REQUIRE(waiting.batch);
    Labels found = {label(*waiting.batch)};
    for (std::string& text : take(waiting.loader, 5)) {
      found.push_back(std::move(text));
    }
    CHECK(found == expected);
  }
}

TEST_CASE_METHOD(ProcessFixture, "threads that take turns by chance lose no batch",
                 "[loader][two_threads][fork]") {
  const LoaderFixture fixture(sleeping(milliseconds(1)));
  constexpr std::size_t kBatches = 60;
  for (const int workers : {2, 0}) {
    CAPTURE(workers);
    Labels expected = take(*fixture.loader(workers), kBatches);
    const auto loader = fixture.loader(workers);
    std::mutex mutex;
    Labels found;
    std::atomic<std::size_t> taken{0};
    std::atomic<int> refused{0};
    std::atomic<int> other{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (taken < kBatches) {
          try {
            const auto batch = loader->next();
            const std::lock_guard lock(mutex);
            ++taken;
            found.push_back(batch ? label(*batch) : energon::testing::kEpochEnd);
          } catch (const Error& error) {
            ++(error.code() == ErrorCode::kInvalidArgument ? refused : other);
            std::this_thread::yield();
          }
        }
      });
    }
    threads.clear();
    CHECK(other == 0);
    CHECK(refused > 0);
    const std::size_t more = found.size() - kBatches;  // of threads in next() at the end
    CHECK(more <= 2);
    const auto last = take(*loader, 1);
    Labels all = take(*fixture.loader(workers), found.size() + 1);
    CHECK(last.front() == all.back());
    all.pop_back();
    std::sort(all.begin(), all.end());
    std::sort(found.begin(), found.end());
    CHECK(found == all);
  }
}

TEST_CASE_METHOD(ProcessFixture, "close() ends the next() of another thread and all processes",
                 "[loader][two_threads][fork]") {
  const LoaderFixture fixture(sleeping(milliseconds(60'000)));
  const LoaderFixture quick(sleeping(milliseconds(0)));
  auto fastest = Clock::duration::max();
  for (int round = 0; round < 5; ++round) {
    CAPTURE(round);
    Waiting waiting(fixture, 2);
    waiting.begin();
    const auto begin = Clock::now();
    waiting.loader.close();
    CHECK(Clock::now() - begin < std::chrono::seconds(10));
    CHECK(eventually([] { return no_children(); }));
    waiting.end();
    fastest = std::min(fastest, waiting.ended_at - begin);
    CHECK_FALSE(waiting.batch);
    REQUIRE(waiting.error);
    CHECK(waiting.error->code() == ErrorCode::kCancelled);
    CHECK_THAT(waiting.error->what(), Catch::Contains("close() was called while this call waited"));
    CHECK_THAT(error_of([&] { waiting.loader.next(); }, ErrorCode::kCancelled),
               Catch::Contains("the loader is closed"));
    CHECK(waiting.loader.stats().workers.size() == 2);
    waiting.loader.stop();
    waiting.loader.close();
    const auto resumed = energon::testing::resumed(quick, 2, waiting.loader.save_state_rank());
    CHECK(take(*resumed, 3) == take(*quick.loader(2), 3));
  }
  // It notices within 100 ms, gives the workers 200 ms to end, and kills them before it throws.
  // Fastest of five, as other jobs share the processors.
  CHECK(fastest < milliseconds(600));
}

TEST_CASE("without workers, close() ends next() before the next function",
          "[loader][two_threads]") {
  const LoaderFixture fixture(sleeping(milliseconds(200)));
  const LoaderFixture quick(sleeping(milliseconds(0)));
  Waiting waiting(fixture, 0);
  const Labels first = take(waiting.loader, 2);
  waiting.begin();
  waiting.loader.close();
  waiting.end();
  REQUIRE(waiting.error);
  CHECK(waiting.error->code() == ErrorCode::kCancelled);
  CHECK_THROWS_AS(waiting.loader.restore_state_rank(waiting.loader.save_state_rank()), Error);
  const auto resumed = energon::testing::resumed(quick, 0, waiting.loader.save_state_rank());
  Labels all = first;
  for (std::string& text : take(*resumed, 3)) {
    all.push_back(std::move(text));
  }
  CHECK(all == take(*quick.loader(0), 5));
}

TEST_CASE("a function that next() calls may close the loader, but not change it",
          "[loader][two_threads]") {
  SavableDataLoader* own = nullptr;
  std::string refused;
  const LoaderFixture fixture(calling([&] {
    if (own != nullptr) {
      refused = error_of([&] { own->stop(); }, ErrorCode::kInvalidArgument);
      own->close();
    }
  }));
  SavableDataLoader loader(fixture.pipeline());
  take(loader, 1);
  own = &loader;
  CHECK_THROWS_WITH(loader.next(), Catch::Contains("close() was called"));
  own = nullptr;
  CHECK_THAT(refused, Catch::Contains("was calling a function in this thread"));
  CHECK(loader.save_state_rank().batch_index == 1);
}

TEST_CASE_METHOD(ProcessFixture, "a loader that never ran, and one that failed, can be closed",
                 "[loader][two_threads][fork]") {
  const LoaderFixture fixture(sleeping(milliseconds(0)));
  {
    const auto loader = fixture.loader(2);
    loader->close();
    CHECK(eventually([] { return no_children(); }));
    CHECK(loader->save_state_rank().batch_index == 0);
  }
  const LoaderFixture failing(calling([] { throw std::runtime_error("no"); }));
  const auto loader = failing.loader(1);
  CHECK_THROWS_WITH(loader->next(), Catch::Contains("no"));
  loader->close();
  CHECK(eventually([] { return no_children(); }));
  CHECK_THROWS_WITH(loader->next(), Catch::Contains("closed"));
}

TEST_CASE_METHOD(ProcessFixture, "a child forked while next() runs reports that it is a child",
                 "[loader][two_threads][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    return energon::testing::skip_case("what the thread in next() holds looks lost in the child");
  }
  const LoaderFixture fixture(sleeping(milliseconds(500)));
  Waiting waiting(fixture, 1);
  waiting.begin();
  const auto child = energon::testing::run_in_child([&] {
    try {
      waiting.loader.next();
    } catch (const Error& error) {
      return error.code() == ErrorCode::kCancelled ? 0 : 1;
    }
    return 2;
  });
  CHECK(child.exit_code == 0);
  waiting.end();
  CHECK(waiting.batch);
}

TEST_CASE_METHOD(ProcessFixture, "an iteration of a basic loader is closed by another thread",
                 "[loader][two_threads][fork]") {
  const LoaderFixture fixture(sleeping(milliseconds(60'000)));
  std::atomic<bool> is_in{false};
  const energon::BasicDataLoader loader(fixture.pipeline(), {.worker_config = {.num_workers = 1},
                                                             .wait_check = [&] { is_in = true; }});
  auto batches = loader.iterate();
  std::optional<ErrorCode> code;
  std::jthread thread([&] {
    try {
      batches.next();
    } catch (const Error& error) {
      code = error.code();
    }
  });
  REQUIRE(eventually([&] { return is_in.load(); }));
  batches.close();
  thread.join();
  CHECK(code == ErrorCode::kCancelled);
  CHECK(eventually([] { return no_children(); }));
}
