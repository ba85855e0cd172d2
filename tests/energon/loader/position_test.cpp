// A position can be saved after any failure: it covers the delivered batches, read from memory that
// outlives the workers.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/checkpoint/loader_state.h"
#include "energon/loader/worker_group.h"
#include "energon/process/fail_point.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/skip.h"

namespace {

using energon::CallContext;
using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::PipelineFactory;
using energon::Sample;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::testing::eventually;
using energon::testing::kEpochEnd;
using energon::testing::label;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::ProcessCounts;
using energon::testing::resumed;
using energon::testing::tail;
using energon::testing::take;

// Runs an action once in the life of a job, when sample `key` is encoded.
class Accident {
 public:
  Accident(std::string key, std::function<void()> action)
      : key_(std::move(key)), action_(std::move(action)) {}

  energon::MapFunction function() const {
    return [this](Sample sample, CallContext&) {
      if (sample.keys.front() == key_ && !std::filesystem::exists(folder_.file("happened"))) {
        folder_.write("happened", "");
        action_();
      }
      return sample;
    };
  }

 private:
  const energon::testing::TempDir folder_;
  const std::string key_;
  const std::function<void()> action_;
};

energon::TrainOptions options_with(const Accident& accident) {
  return {.task_encoder = {.encode_sample = accident.function()},
          .batch_size = 2,
          .shuffle_buffer_size = 7};
}

// The batches of a loader up to its first error, with a consumer that pauses before each batch.
struct Delivered {
  Labels labels;
  Error error;
};

Delivered until_error(SavableDataLoader& loader, std::chrono::milliseconds pause = {}) {
  Delivered delivered{{}, Error(ErrorCode::kInternal, "no error")};
  try {
    while (delivered.labels.size() < 1000) {
      std::this_thread::sleep_for(pause);
      const auto batch = loader.next();
      delivered.labels.push_back(batch ? label(*batch) : kEpochEnd);
    }
  } catch (const Error& error) {
    delivered.error = error;
  }
  return delivered;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The state that `loader` saves after its error continues exactly after the delivered batches.
void check_goes_on(const LoaderFixture& fixture, SavableDataLoader& loader, int workers,
                   const LoaderOptions& options, const Labels& delivered) {
  const SavableDataLoaderState state = loader.save_state_rank();
  const auto other = fixture.loader(workers, options);  // the accident has happened
  const Labels reference = take(*other, delivered.size() + 25);
  REQUIRE(delivered == tail(reference, 0, delivered.size()));
  CHECK(take(*resumed(fixture, workers, state, options), 25) ==
        tail(reference, delivered.size(), 25));
  CHECK(loader.save_state_rank() == state);
  CHECK_THROWS_AS(loader.next(), Error);  // the error stays until a state is restored
  loader.restore_state_rank(state);
  CHECK(take(loader, 25) == tail(reference, delivered.size(), 25));
}

void wait_until_dead(int pid) {
  // The pid stays a zombie until it is reaped, or is gone.
  REQUIRE(eventually([&] {
    std::ifstream stat(fmt::format("/proc/{}/stat", pid));
    std::string number;
    std::string name;
    std::string state;
    return !(stat >> number >> name >> state) || state == "Z";
  }));
}

int parent_of(int pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string word; status >> word;) {
    if (word == "PPid:") {
      status >> pid;
      return pid;
    }
  }
  return -1;
}

}  // namespace

TEST_CASE("the workers' answers to get_checkpoint equal what is read from their memory",
          "[loader][position][fork]") {
  for (const std::optional<std::int64_t> interval :
       {std::optional<std::int64_t>(), {0}, {1}, {2}, {5}}) {
    for (const int prefetch : {1, 3}) {
      CAPTURE(interval.value_or(-1), prefetch);
      const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7, .repeat = false});
      const LoaderOptions options{.worker_config = {.num_workers = 2, .logical_shards = 5},
                                  .prefetch_factor = prefetch,
                                  .checkpoint_every_batches = interval};
      energon::FailureLog failures("");
      energon::WaitCheck check(nullptr);
      energon::WorkerGroup group(fixture.pipeline(), options, failures, check);
      group.start(std::vector<energon::SavableDatasetCheckpoint>(5), 0);
      energon::Turns turns(std::vector<energon::Turn>(5), 0);
      std::vector<std::int64_t> delivered(5);
      for (int read = 0; read < 90; ++read) {
        const auto stream = turns.next();
        if (!stream) {
          turns.start_epoch();
          group.start_epoch(turns.epoch());
        } else if (group.read(*stream)) {
          group.take(*stream);
          turns.take(*stream);
          ++delivered[*stream];
        } else {
          turns.end_epoch(*stream);
        }
        if (read == 0) {
          continue;  // the second worker may be about to store its start
        }
        CAPTURE(read);
        const auto answers =
            group.ask_for_checkpoints(delivered, energon::deadline_after(std::chrono::minutes(1)));
        for (std::size_t i = 0; i < delivered.size(); ++i) {
          const std::string found = group.newest_checkpoint(i, {delivered[i], turns.of(i).epoch});
          energon::ByteReader reader(found, "a checkpoint");
          REQUIRE(answers[i] == energon::decode_checkpoint(reader).index);
          REQUIRE((interval != 1 || answers[i] == delivered[i]));
        }
      }
      CHECK(turns.epoch() >= 2);
    }
  }
}

TEST_CASE("a batch that cannot be written into the debug log is not lost",
          "[loader][position][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const energon::testing::TempDir folder;
    const auto loader =
        fixture.loader(workers, {.debug_log_path = folder.file("log-{worker_id}.jsonl")});
    const Labels delivered = take(*loader, 3);
    {
      const energon::testing::FileSizeLimit limit(
          std::filesystem::file_size(folder.file("log-0.jsonl")));
      CHECK_THROWS_WITH(loader->next(), Catch::Contains("debug log"));
    }
    check_goes_on(fixture, *loader, workers, {}, delivered);
  }
}

TEST_CASE("after a worker was killed between two calls, the position can be saved and continued",
          "[loader][position][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  const Labels reference = take(*fixture.loader(2), 40);
  for (const std::size_t taken : {1, 2, 9}) {
    CAPTURE(taken);
    const auto loader = fixture.loader(2);
    take(*loader, taken);
    for (const int victim : loader->worker_pids()) {
      CAPTURE(victim);
      REQUIRE(::kill(victim, SIGKILL) == 0);
      wait_until_dead(victim);
      CHECK(take(*resumed(fixture, 2, loader->save_state_rank()), 20) ==
            tail(reference, taken, 20));
    }
    const SavableDataLoaderState state = loader->save_state_rank();
    // Ends the remaining workers, reports the death, and keeps the position.
    CHECK_THROWS_WITH(loader->stop(), Catch::Contains("SIGKILL"));
    CHECK(loader->save_state_rank() == state);
    CHECK(take(*loader, 20) == tail(reference, taken, 20));
  }
}

TEST_CASE("after the fork server was killed, the position can be saved and continued",
          "[loader][position][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  const Labels reference = take(*fixture.loader(2), 600);
  auto loader = fixture.loader(2);
  take(*loader, 9);
  const int server = parent_of(loader->worker_pids().front());
  REQUIRE(::kill(server, SIGKILL) == 0);
  wait_until_dead(server);
  CHECK(take(*resumed(fixture, 2, loader->save_state_rank()), 20) == tail(reference, 9, 20));
  const Delivered more = until_error(*loader);
  CHECK(more.error.code() == ErrorCode::kWorkerDied);
  CHECK(take(*resumed(fixture, 2, loader->save_state_rank()), 20) ==
        tail(reference, 9 + more.labels.size(), 20));
}

TEST_CASE("after a function threw, the position can be saved and continued",
          "[loader][position][fork]") {
  for (const int workers : {0, 1, 3}) {
    for (const std::optional<std::int64_t> interval :
         {std::optional<std::int64_t>(), {0}, {1}, {3}}) {
      for (const char* key : {"000000", "000007", "000030", "000054"}) {
        CAPTURE(workers, interval.value_or(-1), key);
        const Accident accident(key, [] { throw std::runtime_error("once"); });
        const LoaderFixture fixture(options_with(accident));
        const LoaderOptions options{.checkpoint_every_batches = interval};
        const auto loader = fixture.loader(workers, options);
        const Delivered delivered = until_error(*loader);
        CHECK(delivered.error.code() == ErrorCode::kUserFunction);
        check_goes_on(fixture, *loader, workers, options, delivered.labels);
      }
    }
  }
}

TEST_CASE("an error in the first batch of an epoch leaves the position at the end of the last one",
          "[loader][position][fork]") {
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    int epoch = 0;
    const energon::testing::TempDir folder;
    const LoaderFixture fixture(
        {.task_encoder = {.encode_sample =
                              energon::MapFunction([&folder](Sample sample, CallContext&) {
                                if (std::filesystem::exists(folder.file("broken"))) {
                                  throw std::runtime_error("broken");
                                }
                                return sample;
                              })},
         .batch_size = 2,
         .repeat = false});
    const LoaderOptions options{.checkpoint_every_batches = 1};
    const auto loader = fixture.loader(workers, options);
    Labels labels;
    while (epoch == 0) {
      const auto batch = loader->next();
      epoch += batch ? 0 : 1;
      labels.push_back(batch ? label(*batch) : kEpochEnd);
    }
    const SavableDataLoaderState before = loader->save_state_rank();
    CHECK(before.epoch_finished);
    folder.write("broken", "");
    CHECK_THROWS_AS(loader->next(), Error);
    CHECK(loader->save_state_rank() == before);
    std::filesystem::remove(folder.file("broken"));
    const Labels reference = take(*fixture.loader(workers, options), labels.size() + 10);
    loader->restore_state_rank(loader->save_state_rank());
    CHECK(take(*loader, 10) == tail(reference, labels.size(), 10));
  }
}

TEST_CASE("after a worker died, hung or ran out of memory, the position can be saved and continued",
          "[loader][position][fork]") {
  struct Case {
    std::function<void()> action;
    ErrorCode code;
    LoaderOptions options = {};
  };
  const auto before = ProcessCounts::now();
  for (const Case& with :
       {Case{[] { ::_exit(0); }, ErrorCode::kWorkerDied},
        Case{[] { ::raise(SIGKILL); }, ErrorCode::kWorkerDied},
        Case{[] { ::signal(SIGSEGV, SIG_DFL), ::raise(SIGSEGV); }, ErrorCode::kWorkerDied},
        Case{[] {
               for (;;) {
                 ::pause();
               }
             },
             ErrorCode::kTimeout,
             {.timeout = std::chrono::seconds(2)}},
        Case{[] { throw std::bad_alloc(); }, ErrorCode::kResourceExhausted}}) {
    CAPTURE(to_string(with.code));
    const Accident accident("000030", with.action);
    const LoaderFixture fixture(options_with(accident));
    const auto loader = fixture.loader(2, with.options);
    const Delivered delivered = until_error(*loader);
    CHECK(delivered.error.code() == with.code);
    check_goes_on(fixture, *loader, 2, {}, delivered.labels);
  }
  CHECK(ProcessCounts::settled(before) == before);
}

TEST_CASE(
    "after a limit or a broken shard ended the stream, the position can be saved and continued",
    "[loader][position][fork]") {
  const LoaderFixture fixture({.batch_size = 4}, energon::testing::kFx55, 50'000);
  SECTION("the arena's limit, because the trainer keeps every batch") {
    const auto loader = fixture.loader(
        1, {.timeout = std::chrono::seconds(4), .arena_limit_bytes = std::uint64_t{4} << 20});
    std::vector<Sample> kept;
    const auto take_all = [&] {
      while (true) {
        kept.push_back(*loader->next());
      }
    };
    CHECK_THROWS_WITH(take_all(), Catch::Contains("arena_limit"));
    const Labels expected = take(*fixture.loader(1), kept.size() + 20);
    CHECK(take(*resumed(fixture, 1, loader->save_state_rank()), 20) ==
          tail(expected, kept.size(), 20));
  }
  SECTION("a state larger than its slot") {
    const LoaderFixture large({.batch_size = 2, .shuffle_buffer_size = 1000}, {2000});
    const auto loader = large.loader(1, {.checkpoint_slot_bytes = 1400});
    const Delivered delivered = until_error(*loader);
    CHECK_THAT(delivered.error.what(), Catch::Contains("checkpoint_slot_bytes"));
    const Labels expected = take(*large.loader(1), delivered.labels.size() + 10);
    CHECK(take(*resumed(large, 1, loader->save_state_rank()), 10) ==
          tail(expected, delivered.labels.size(), 10));
  }
  SECTION("a shard that was truncated and restored") {
    const std::string shard = fixture.folder().file("shard-004.tar");
    const std::string content = content_of(shard);
    const auto time = std::filesystem::last_write_time(shard);
    for (const int workers : {0, 1}) {
      CAPTURE(workers);
      const auto loader = fixture.loader(workers);
      std::filesystem::resize_file(shard, 70'000);
      const Delivered delivered = until_error(*loader);
      CHECK_THAT(delivered.error.what(), Catch::Contains("shard-004.tar"));
      std::ofstream(shard, std::ios::binary) << content;
      std::filesystem::last_write_time(shard, time);
      const Labels expected = take(*fixture.loader(workers), delivered.labels.size() + 20);
      CHECK(take(*resumed(fixture, workers, loader->save_state_rank()), 20) ==
            tail(expected, delivered.labels.size(), 20));
    }
  }
}

TEST_CASE(
    "a worker killed in any state of the protocol leaves a position that is saved and continues",
    "[loader][position][kill][fork]") {
  if (!energon::has_fail_points()) {
    return energon::testing::skip_case("built without fail points");
  }
  for (const char* site : {"arena.acquire", "ring.before_publish", "ring.after_publish",
                           "checkpoint.half_written", "waiting.for_space"}) {
    for (const std::uint64_t nth : {1U, 2U, 6U}) {
      for (const std::optional<std::int64_t> interval : {std::optional<std::int64_t>(), {1}, {2}}) {
        CAPTURE(site, nth, interval.value_or(-1));
        // Armed in only one worker, which then dies some batches later.
        const Accident accident("000010", [site, nth] {
          energon::arm_fail_point(site, energon::FailAction::kKill, nth);
        });
        const LoaderFixture fixture(options_with(accident));
        const LoaderOptions options{.worker_config = {.logical_shards = 3},
                                    .prefetch_factor = 2,
                                    .checkpoint_every_batches = interval};
        const auto loader = fixture.loader(2, options);
        // A worker waits for space if its consumer is slow: at most a thousand pauses, a few are
        // enough.
        const std::chrono::milliseconds pause(site == std::string("waiting.for_space") ? 5 : 0);
        const Delivered delivered = until_error(*loader, pause);
        REQUIRE(delivered.error.code() == ErrorCode::kWorkerDied);
        check_goes_on(fixture, *loader, 2, options, delivered.labels);
      }
    }
  }
}

TEST_CASE("a worker killed before its start leaves its start position",
          "[loader][position][kill][fork]") {
  if (!energon::has_fail_points()) {
    return energon::testing::skip_case("built without fail points");
  }
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  const Labels reference = take(*fixture.loader(2), 30);
  const auto first = fixture.loader(2);
  take(*first, 9);
  const SavableDataLoaderState state = first->save_state_rank();
  for (const char* site : {"worker.init", "checkpoint.half_written"}) {
    CAPTURE(site);
    energon::arm_fail_point(site, energon::FailAction::kKill);  // inherited; not passed here
    const auto loader = resumed(fixture, 2, state);
    energon::disarm_fail_point();
    CHECK(until_error(*loader).error.code() == ErrorCode::kWorkerDied);
    CHECK(loader->save_state_rank() == state);
    CHECK(take(*resumed(fixture, 2, loader->save_state_rank()), 20) == tail(reference, 9, 20));
  }
}
