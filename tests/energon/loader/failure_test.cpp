// Events that end a loader: dead, stuck and failing workers, exhausted memory, a vanished shard.
// Each is an error that names the event, within its time budget, and leaves no processes or files.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/scripted_dataset.h"
#include "wrappers/watch/watchdog.h"

using energon::CallContext;
using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::MapFunction;
using energon::Sample;
using energon::TrainOptions;
using energon::testing::LoaderFixture;
using energon::testing::ProcessCounts;
using energon::testing::take;
using Clock = std::chrono::steady_clock;

namespace {

MapFunction at_call(std::int64_t call, std::function<void()> action) {
  return [call, action = std::move(action)](Sample sample, CallContext& context) {
    if (context.call() == call) {
      action();
    }
    return sample;
  };
}

// The error of the first next() that throws.
Error first_error(energon::SavableDataLoader& loader) {
  try {
    for (int i = 0; i < 1000; ++i) {
      loader.next();
    }
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "no error");
}

void wait_for_death(int pid) {
  // The pid stays a zombie until the fork server reaps it, or is gone.
  for (int i = 0; i < 2000 && ::kill(pid, 0) == 0; ++i) {
    ::usleep(1000);
  }
}

}  // namespace

TEST_CASE("ENE-21 next() reports a killed worker with name and signal, and the position remains",
          "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  const auto before = ProcessCounts::now();
  {
    const auto loader = fixture.loader(3);
    take(*loader, 4);
    const int victim = loader->worker_pids().at(1);
    REQUIRE(::kill(victim, SIGKILL) == 0);
    wait_for_death(victim);
    const auto begin = Clock::now();
    for (int call = 0; call < 2; ++call) {
      CAPTURE(call);
      const Error error = first_error(*loader);
      CHECK(error.code() == ErrorCode::kWorkerDied);
      CHECK(error.context().worker == 1);
      CHECK_THAT(error.what(), Catch::Contains("worker 1") && Catch::Contains("SIGKILL"));
    }
    CHECK(Clock::now() - begin < std::chrono::seconds(5));  // with a timeout of a minute
    CHECK(loader->save_state_rank().batch_index >= 4);
    CHECK(Clock::now() - begin < std::chrono::seconds(5));
  }
  CHECK(ProcessCounts::settled(before) == before);
}

TEST_CASE("stop ends all workers, and reports one that died idle", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  const auto before = ProcessCounts::now();
  {
    const auto loader = fixture.loader(2);
    const auto reference = take(*fixture.loader(2), 12);
    take(*loader, 2);
    const int victim = loader->worker_pids().at(0);
    REQUIRE(::kill(victim, SIGKILL) == 0);
    wait_for_death(victim);
    CHECK_THROWS_WITH(loader->stop(), Catch::Contains("worker 0") && Catch::Contains("SIGKILL"));
    CHECK(loader->worker_pids().empty());
    CHECK(ProcessCounts::settled(before).children == before.children + 1);  // the fork server
    CHECK_NOTHROW(loader->stop());
    CHECK(take(*loader, 10) == std::vector(reference.begin() + 2, reference.end()));
  }
  CHECK(ProcessCounts::settled(before) == before);
}

TEST_CASE("an exception of a user's dataset in a worker has the code of user functions",
          "[loader][fork]") {
  energon::SavableDataLoader loader(
      [](const energon::PipelineContext& /*context*/) {
        return std::make_unique<energon::testing::ScriptedDataset>([](std::int64_t item) {
          if (item == 3) {
            throw std::runtime_error("no luck");
          }
        });
      },
      {.worker_config = {.num_workers = 1}});
  const Error error = first_error(loader);
  CHECK(error.code() == ErrorCode::kUserFunction);
  CHECK_THAT(error.what(), Catch::Contains("no luck"));
}

TEST_CASE("an Error of any code that a function throws in a worker arrives at once",
          "[loader][fork]") {
  for (const ErrorCode code :
       {ErrorCode::kCancelled, ErrorCode::kTimeout, ErrorCode::kWorkerDied, ErrorCode::kInternal}) {
    CAPTURE(static_cast<int>(code));
    const LoaderFixture fixture(
        {.task_encoder = {.encode_sample = at_call(5, [code] { throw Error(code, "no more"); })},
         .batch_size = 2});
    const auto begin = Clock::now();
    const auto loader = fixture.loader(2);
    const Error error = first_error(*loader);
    CHECK(error.code() == code);
    CHECK_THAT(error.what(), Catch::Contains("no more") && Catch::Contains("worker: 0"));
    CHECK(Clock::now() - begin < std::chrono::seconds(20));  // with a timeout of a minute
  }
}

TEST_CASE("a killed fork server is named, not a worker", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  const auto loader = fixture.loader(2);
  take(*loader, 3);
  std::ifstream status("/proc/" + std::to_string(loader->worker_pids().at(0)) + "/status");
  int server = 0;
  for (std::string word; status >> word && server == 0;) {
    if (word == "PPid:") {
      status >> server;
    }
  }
  REQUIRE(::kill(server, SIGKILL) == 0);
  for (int call = 0; call < 2; ++call) {
    CAPTURE(call);
    const Error error = first_error(*loader);
    CHECK(error.code() == ErrorCode::kWorkerDied);
    CHECK_THAT(error.what(),
               Catch::Contains("the fork server is gone (pid " + std::to_string(server) +
                               ", killed by signal 9 (SIGKILL))"));
  }
}

TEST_CASE("the largest timeout means no limit", "[loader][fork]") {
  const LoaderFixture fixture(
      {.task_encoder = {.encode_sample = at_call(0, [] { ::usleep(300'000); })}, .batch_size = 2});
  const auto loader = fixture.loader(2, {.timeout = std::chrono::milliseconds::max()});
  CHECK(take(*loader, 20) == take(*fixture.loader(2), 20));
  CHECK(loader->save_state_rank().batch_index == 20);
}

TEST_CASE("a loader continues from its last state after a worker died", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  const auto reference = take(*fixture.loader(2), 20);
  const auto loader = fixture.loader(2);
  take(*loader, 9);
  const auto state = loader->save_state_rank();
  ::kill(loader->worker_pids().at(1), SIGKILL);
  CHECK(first_error(*loader).code() == ErrorCode::kWorkerDied);
  loader->restore_state_rank(state);
  CHECK(take(*loader, 11) == std::vector(reference.begin() + 9, reference.end()));
}

TEST_CASE("next() throws what a function throws in a worker, with worker and sample",
          "[loader][fork]") {
  const LoaderFixture fixture(
      {.task_encoder = {.encode_sample =
                            at_call(5, [] { throw std::runtime_error("CMYK is not supported"); })},
       .batch_size = 2});
  const auto loader = fixture.loader(2);
  const Error error = first_error(*loader);
  CHECK_THAT(error.what(), Catch::Contains("CMYK is not supported") &&
                               Catch::Contains("worker: 0") && Catch::Contains("sample: "));
  CHECK_THAT(first_error(*loader).what(), Catch::Contains("CMYK"));
}

TEST_CASE("a worker that crashes, exits or aborts in user code is a named death",
          "[loader][fork]") {
  struct Case {
    std::function<void()> action;
    const char* expected;
  };
  for (const Case& with :
       {Case{[] { ::_exit(0); }, "exited with code 0"},
        Case{[] { ::_exit(7); }, "exited with code 7"}, Case{[] { ::raise(SIGSEGV); }, "SIGSEGV"},
        Case{[] { ::raise(SIGKILL); }, "SIGKILL"}}) {
    CAPTURE(with.expected);
    const LoaderFixture fixture({.task_encoder = {.encode_sample = at_call(4,
                                                                           [&with] {
                                                                             ::signal(SIGSEGV,
                                                                                      SIG_DFL);
                                                                             with.action();
                                                                           })},
                                 .batch_size = 2});
    const Error error = first_error(*fixture.loader(2));
    CHECK(error.code() == ErrorCode::kWorkerDied);
    CHECK_THAT(error.what(), Catch::Contains(with.expected) &&
                                 Catch::Contains("making batch 2 of logical shard"));
  }
}

TEST_CASE(
    "a worker without progress is an error after the timeout, and the loader still ends at once",
    "[loader][fork]") {
  const LoaderFixture fixture(
      {.task_encoder = {.encode_sample = at_call(4,
                                                 [] {
                                                   std::mutex mutex;
                                                   std::unique_lock lock(mutex);
                                                   std::condition_variable().wait(
                                                       lock, [] { return false; });
                                                 })},
       .batch_size = 2});
  const auto begin = Clock::now();
  {
    const auto loader = fixture.loader(1, {.timeout = std::chrono::seconds(3)});
    const Error error = first_error(*loader);
    CHECK(error.code() == ErrorCode::kTimeout);
    CHECK_THAT(error.what(), Catch::Contains("worker 0") && Catch::Contains("timeout"));
  }
  CHECK(Clock::now() - begin < std::chrono::seconds(30));
}

TEST_CASE("a watchdog that ends its worker is a named death", "[loader][fork]") {
  const LoaderFixture fixture({.task_encoder = {.encode_sample = at_call(4,
                                                                         [] {
                                                                           for (;;) {
                                                                             ::pause();
                                                                           }
                                                                         })},
                               .batch_size = 2});
  const auto watched = [&](const energon::PipelineContext& context) {
    return std::make_unique<energon::Watchdog>(
        fixture.pipeline()(context),
        energon::WatchdogOptions{.timeout = std::chrono::seconds(2),
                                 .initial_timeout = std::chrono::seconds(30),
                                 .on_timeout = energon::OnTimeout::kEndWorker});
  };
  energon::SavableDataLoader loader(watched, {.worker_config = {.num_workers = 1}});
  const Error error = first_error(loader);
  CHECK(error.code() == ErrorCode::kWorkerDied);
  CHECK_THAT(error.what(), Catch::Contains("making batch 2") && Catch::Contains("watchdog"));
}

TEST_CASE("a save does not wait for a slow sample", "[loader][fork]") {
  const LoaderFixture fixture(
      {.task_encoder = {.encode_sample = at_call(1, [] { ::sleep(120); })}});
  const auto loader = fixture.loader(1);
  take(*loader, 1);
  const auto begin = Clock::now();
  CHECK(loader->save_state_rank().batch_index == 1);
  CHECK(Clock::now() - begin < std::chrono::seconds(30));
}

TEST_CASE(
    "a trainer that keeps every batch gets an error that names the limit, and its batches stay "
    "valid",
    "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 4}, {40}, 100'000);
  std::vector<Sample> kept;
  Error error(ErrorCode::kInternal, "no error");
  {
    const auto loader = fixture.loader(
        1, {.timeout = std::chrono::seconds(8), .arena_limit_bytes = std::uint64_t{4} << 20});
    try {
      for (int i = 0; i < 1000; ++i) {
        kept.push_back(*loader->next());
      }
    } catch (const Error& thrown) {
      error = thrown;
    }
  }
  CHECK(error.code() == ErrorCode::kResourceExhausted);
  CHECK_THAT(error.what(), Catch::Contains("arena_limit"));
  REQUIRE(kept.size() >= 4);
  const auto again = fixture.loader(0);
  for (const Sample& batch : kept) {
    CAPTURE(batch.keys.strings());
    CHECK(energon::testing::label(*again->next()) == energon::testing::label(batch));
  }
}

TEST_CASE("a state larger than its slot is an error that names the option", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 1000}, {2000});
  const Error error = first_error(*fixture.loader(1, {.checkpoint_slot_bytes = 1400}));
  CHECK(error.code() == ErrorCode::kResourceExhausted);
  CHECK_THAT(error.what(), Catch::Contains("checkpoint_slot_bytes"));
}

TEST_CASE("a batch larger than the limit is refused at once", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 40}, {40}, 100'000);
  const Error error =
      first_error(*fixture.loader(1, {.arena_limit_bytes = std::uint64_t{1} << 20}));
  CHECK(error.code() == ErrorCode::kResourceExhausted);
}

TEST_CASE("a value that a function keeps is copied, not given away", "[loader][fork]") {
  // The function keeps the bytes of the first sample and compares them with each later one's: a
  // slot that was published while it still held it would change under its hands.
  const MapFunction keeper = [first = std::make_shared<std::optional<energon::SharedBytes>>(),
                              text = std::make_shared<std::string>()](Sample sample, CallContext&) {
    if (!*first) {
      *first = sample.bytes("bin");
      *text = (*first)->text();
    }
    sample.fields.emplace_back("kept", **first);
    sample.fields.emplace_back("intact", std::int64_t{(*first)->text() == *text});
    return sample;
  };
  const LoaderFixture fixture({.task_encoder = {.encode_sample = keeper}}, {20}, 3000);
  const auto loader = fixture.loader(1);
  std::string expected;
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const auto sample = loader->next();
    CHECK(std::get<std::int64_t>(sample->at("intact").base()) == 1);
    if (expected.empty()) {
      expected = sample->bytes("kept").text();
    }
    CHECK(sample->bytes("kept").text() == expected);
  }
}

TEST_CASE("a vanished shard is an error that names it", "[loader][fork]") {
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const LoaderFixture fixture({.batch_size = 2});
    const auto loader = fixture.loader(workers);
    std::filesystem::remove(fixture.folder().file("shard-005.tar"));
    const Error error = first_error(*loader);
    CHECK(error.code() == ErrorCode::kNotFound);
    CHECK_THAT(error.what(), Catch::Contains("shard-005.tar"));
  }
}

TEST_CASE("loaders that end in the middle of an epoch clean up", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  take(*fixture.loader(2), 3);
  const auto before = ProcessCounts::now();
  for (int i = 0; i < 20; ++i) {
    const auto loader = fixture.loader(i % 4);
    if (i % 3 != 0) {
      take(*loader, static_cast<std::size_t>(i % 7));
    }
  }
  CHECK(ProcessCounts::settled(before) == before);
}

TEST_CASE("two loaders at once do not disturb each other", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  const auto reference = take(*fixture.loader(2), 20);
  const auto first = fixture.loader(2);
  const auto second = fixture.loader(2);
  for (const std::string& expected : reference) {
    CAPTURE(expected);
    CHECK(take(*first, 1).front() == expected);
    CHECK(take(*second, 1).front() == expected);
  }
}

TEST_CASE("a loader may be made in a thread that ends", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  std::unique_ptr<energon::SavableDataLoader> loader;
  std::thread([&] {
    loader = fixture.loader(2);
    take(*loader, 2);
  }).join();
  CHECK(take(*loader, 10).size() == 10);
}

TEST_CASE("in a forked child the loader is inert, and the parent continues", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  const auto reference = take(*fixture.loader(2), 10);
  auto loader = fixture.loader(2);
  take(*loader, 3);
  const auto child = energon::testing::run_in_child([&] {
    const std::vector<std::function<void()>> calls = {
        [&] { loader->stats(); }, [&] { loader->save_state_rank(); }, [&] { loader->stop(); },
        [&] { loader->next(); }};
    int refused = 0;
    for (const auto& call : calls) {
      try {
        call();
      } catch (const Error& error) {
        refused += error.code() == ErrorCode::kCancelled ? 1 : 0;
      }
    }
    loader.reset();
    return refused == 4 ? 0 : 1;
  });
  CHECK(child.exited);
  CHECK(child.exit_code == 0);
  CHECK(take(*loader, 7) == std::vector(reference.begin() + 3, reference.end()));
}
