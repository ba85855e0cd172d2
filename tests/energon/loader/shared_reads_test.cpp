// Workers with large batches read with a second thread: batches, errors and other processes are the
// same as without it.

#include <sched.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>

#include <catch2/catch.hpp>

#include "energon/read/read_helper.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"

using energon::CallContext;
using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::ReadHelper;
using energon::Sample;
using energon::SavableDataLoader;
using energon::testing::LoaderFixture;
using energon::testing::take;

namespace {

constexpr std::size_t kSampleBytes = std::size_t{1} << 20;
constexpr std::int64_t kLargeBatch = 7;  // samples: above ReadHelper::kLeastBytes
constexpr std::int64_t kSmallBatch = 3;  // below

static_assert(kLargeBatch * kSampleBytes > ReadHelper::kLeastBytes);
static_assert((kSmallBatch + 1) * kSampleBytes <= ReadHelper::kLeastBytes);

// The truncation of a tar of neighbors: within the third of the large batches.
constexpr std::uint64_t kCut = 18 * (kSampleBytes + 2048) + 777;

std::size_t threads_of(int pid) {
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task");
  return static_cast<std::size_t>(std::distance(tasks, {}));
}

// The threads of a worker that has made a batch: main, commands, watchdog, and possibly the helper.
std::size_t worker_threads(std::int64_t batch_size) {
  const LoaderFixture fixture({.batch_size = batch_size}, {10, 10}, kSampleBytes);
  const auto loader = fixture.loader(1);
  loader->next();
  return threads_of(loader->worker_pids().at(0));
}

/// This thread and the processes that it forks run on only one core.
class OnOneCore {
 public:
  OnOneCore() {
    ::sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    REQUIRE(::sched_setaffinity(0, sizeof(one), &one) == 0);
  }
  ~OnOneCore() { ::sched_setaffinity(0, sizeof(before_), &before_); }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  cpu_set_t before_{};
};

Error first_read_error(SavableDataLoader& loader) {
  try {
    for (int i = 0; i < 100; ++i) {
      loader.next();
    }
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "no error");
}

}  // namespace

TEST_CASE("workers that share large reads deliver what is read in process", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = kLargeBatch, .shuffle_buffer_size = 5}, {9, 8, 7},
                              kSampleBytes);
  const LoaderOptions options{.worker_config = {.logical_shards = 2}};
  const auto reference = take(*fixture.loader(0, options), 12);
  CHECK(take(*fixture.loader(1, options), 12) == reference);
  CHECK(take(*fixture.loader(2, options), 12) == reference);
}

TEST_CASE("samples larger than a round of reads arrive complete", "[loader][fork]") {
  const LoaderFixture fixture({}, {2, 1}, 19 * kSampleBytes + 12345);
  const auto reference = take(*fixture.loader(0), 6);
  CHECK(take(*fixture.loader(1), 6) == reference);
}

TEST_CASE("the helper thread is started only by large batches, and only in workers",
          "[loader][fork]") {
  const std::size_t alone = worker_threads(kSmallBatch);
  CHECK(alone == 3);
  CHECK(worker_threads(kLargeBatch) == alone + (ReadHelper::can_help() ? 1 : 0));

  const auto before = energon::testing::ProcessCounts::now();
  const LoaderFixture fixture({.batch_size = kLargeBatch}, {10}, kSampleBytes);
  const auto loader = fixture.loader(0);
  loader->next();
  CHECK(energon::testing::ProcessCounts::settled(before).threads == before.threads);
}

TEST_CASE("on one core, there is no helper thread", "[loader][fork]") {
  const OnOneCore on_one_core;
  CHECK_FALSE(ReadHelper::can_help());
  CHECK(worker_threads(kLargeBatch) == worker_threads(kSmallBatch));
}

TEST_CASE("a shard truncated under a worker that shares reads is the error of reading in process",
          "[loader][fork]") {
  const auto error_with = [](int workers) {
    energon::TrainOptions options{.batch_size = kLargeBatch};
    // Truncated by the first sample of the second batch, when each reader has the shard open.
    std::string shard;
    options.task_encoder.encode_sample = [&shard](Sample sample, CallContext& context) {
      if (context.call() == kLargeBatch) {
        std::filesystem::resize_file(shard, kCut);
      }
      return sample;
    };
    const LoaderFixture fixture(options, {30}, kSampleBytes);
    shard = fixture.folder().file("shard-000.tar");
    const Error error = first_read_error(*fixture.loader(workers));
    REQUIRE(error.code() == ErrorCode::kCorruptData);
    CHECK(error.context().path == shard);
    CHECK(error.context().byte_offset == kCut);
    return error.message();
  };
  const std::string message = error_with(0);
  CHECK_THAT(message, Catch::Contains("file ends at byte"));
  CHECK(error_with(1) == message);
}

TEST_CASE("statistics have the CPU time of the helper thread", "[loader][fork][statistics]") {
  const LoaderFixture fixture({.batch_size = kLargeBatch}, {10, 10}, kSampleBytes);
  const auto in_process = fixture.loader(0);
  take(*in_process, 3);
  CHECK(in_process->stats().workers.at(0).helper_cpu.count() == 0);
  if (!ReadHelper::can_help()) {
    return;
  }
  const auto loader = fixture.loader(1);
  // The helper may be late for a batch, but not for all of them.
  CHECK(energon::testing::eventually([&] {
    take(*loader, 1);
    return loader->stats().workers.at(0).helper_cpu.count() > 0;
  }));
}
