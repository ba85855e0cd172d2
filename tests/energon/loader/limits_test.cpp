// Limits of the system that a loader runs into: an error with its cause and what helps, or less
// address space taken.

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/worker/arena_reserve.h"
#include "energon/worker/channel_sizes.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/error_of.h"
#include "tests/support/refused_call.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"

namespace {

using energon::AddressSpace;
using energon::ChannelOptions;
using energon::Error;
using energon::ErrorCode;
using energon::fit_into;
using energon::LoaderOptions;
using energon::SavableDataLoader;
using energon::testing::error_of;
using energon::testing::LoaderFixture;
using energon::testing::take;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 46;

AddressSpace space(std::uint64_t left, std::uint64_t largest_file = kNoLimit) {
  return {.left_bytes = left, .largest_file_bytes = largest_file};
}

ChannelOptions default_channel() {
  return energon::channel_options({.worker_config = {.num_workers = 4}}, 0);
}

// The fork server of the loader that this process, which has no other child, just made.
pid_t fork_server() {
  std::ifstream children("/proc/self/task/" + std::to_string(::gettid()) + "/children");
  pid_t pid = 0;
  children >> pid;
  return pid;
}

// The error of the first next() of a loader whose workers are under `limit`.
std::string error_under(const LoaderFixture& fixture, int resource, rlim_t limit) {
  std::string text;
  const auto folder = fixture.folder().file("error");
  const auto child = energon::testing::run_in_child([&] {
    const auto loader = fixture.loader(1);
    const rlimit limits{limit, limit};
    if (::prlimit(fork_server(), static_cast<__rlimit_resource>(resource), &limits, nullptr) != 0) {
      return 77;
    }
    std::ofstream(folder) << error_of([&] { loader->next(); }, ErrorCode::kResourceExhausted);
    return 0;
  });
  CHECK(child.exit_code == 0);
  std::getline(std::ifstream(folder), text);
  return text;
}

}  // namespace

TEST_CASE("arenas take what they can need, or their share of what there is", "[loader][limits]") {
  const ChannelOptions wanted = default_channel();
  REQUIRE(wanted.arena.limit_bytes == 2 * kGiB);
  const std::uint64_t all = channel_footprint(wanted);
  CHECK(all > 60 * kGiB);
  CHECK(fit_into(wanted, space(kNoLimit), 4).arena.reserve_bytes == 0);
  std::uint64_t limit_before = 0;
  for (const std::uint64_t left : {kGiB * 3, kGiB * 8, kGiB * 40, kGiB * 100, 7 * all}) {
    CAPTURE(left);
    const ChannelOptions fitted = fit_into(wanted, space(left), 4);
    CHECK(channel_footprint(fitted) <= left / 8);
    CHECK(fitted.arena.reserve_bytes > 0);
    CHECK(fitted.arena.limit_bytes >= limit_before);
    CHECK(fitted.arena.keep_free_bytes <= fitted.arena.limit_bytes);
    limit_before = fitted.arena.limit_bytes;
  }
  CHECK(limit_before == 2 * kGiB);
  CHECK(channel_footprint(fit_into(wanted, space(kNoLimit, kGiB), 4)) <= kGiB);
}

TEST_CASE("an arena is not larger than the machine's memory", "[loader][limits]") {
  ChannelOptions wanted = default_channel();
  wanted.arena.limit_bytes = 1024 * kGiB;
  CHECK(fit_into(wanted, space(kNoLimit), 1).arena.limit_bytes <= energon::physical_memory_bytes());
}

TEST_CASE("address space that cannot do is refused with options and flags", "[loader][limits]") {
  CHECK_THAT(
      error_of([] { fit_into(default_channel(), space(kGiB), 4); }, ErrorCode::kResourceExhausted),
      Catch::Contains("ulimit -v") && Catch::Contains("134217728 bytes") &&
          Catch::Contains("num_workers (--num-workers)") &&
          Catch::Contains("--checkpoint-slot-mib"));
}

TEST_CASE("a loader works under a limit of address space", "[loader][limits][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    return energon::testing::skip_case("the sanitizer needs terabytes of address space");
  }
  const LoaderFixture fixture({.batch_size = 2});
  const auto expected = take(*fixture.loader(2), 40);
  const auto under = [&](std::uint64_t bytes) {
    return energon::testing::run_in_child([&] {
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_AS, &limit);
      try {
        return take(*fixture.loader(2), 40) == expected ? 0 : 1;
      } catch (const Error& error) {
        const std::string text = error.what();
        return text.find("ulimit -v") != std::string::npos ? 3 : 2;
      }
    });
  };
  CHECK(under(4 * kGiB).exit_code == 0);
  CHECK(under(kGiB / 2).exit_code == 3);
}

TEST_CASE("what stops a worker before its first batch is told with its text",
          "[loader][limits][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  if (!ENERGON_ADDRESS_SANITIZER) {
    CHECK_THAT(error_under(fixture, RLIMIT_AS, kGiB),
               Catch::Contains("worker 0") && Catch::Contains("gave up: cannot map") &&
                   Catch::Contains("--arena-limit-mib") && !Catch::Contains("code 112"));
  }
  CHECK_THAT(error_under(fixture, RLIMIT_NOFILE, 12),
             Catch::Contains("worker: 0") && Catch::Contains("Too many open files"));
}

namespace {

std::size_t descriptors_of(pid_t pid) {
  const std::filesystem::directory_iterator entries("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace

TEST_CASE("a worker takes six descriptors in the trainer and two in the fork server",
          "[loader][limits][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  struct Taken {
    std::size_t trainer = 0;
    std::size_t fork_server = 0;
  };
  const auto with = [&](int workers) {
    Taken taken;
    const std::string file = fixture.folder().file("taken");
    const auto child = energon::testing::run_in_child([&] {
      const auto before = descriptors_of(::getpid());
      const auto loader = fixture.loader(workers);
      take(*loader, 40);
      std::ofstream(file) << descriptors_of(::getpid()) - before << ' '
                          << descriptors_of(fork_server());
      return 0;
    });
    CHECK(child.exit_code == 0);
    std::ifstream(file) >> taken.trainer >> taken.fork_server;
    return taken;
  };
  const Taken one = with(1);
  const Taken five = with(5);
  CHECK(five.trainer - one.trainer == 4 * 6);
  CHECK(five.fork_server - one.fork_server == 4 * 2);
}

TEST_CASE("a worker has no more descriptors after many epochs than after the first",
          "[loader][limits][fork]") {
  const energon::testing::TempDir folder;
  const auto dataset = energon::testing::numbered_dataset(folder, std::vector<std::int64_t>(40, 2),
                                                          0, {.open_shards = 3});
  SavableDataLoader loader(energon::val_pipeline(dataset, {.batch_size = 2}),
                           {.worker_config = {.num_workers = 2, .logical_shards = 8}});
  const auto taken = [&] {
    std::vector<std::size_t> counts;
    for (const int pid : loader.worker_pids()) {
      counts.push_back(descriptors_of(pid));
    }
    return counts;
  };
  const auto pass = [&] {
    while (loader.next()) {
    }
  };
  pass();
  const auto first = taken();
  for (int epoch = 0; epoch < 5; ++epoch) {
    CAPTURE(epoch);
    pass();
    CHECK(taken() == first);
  }
}

TEST_CASE("without workers a loader needs no process, pidfd, eventfd or memfd",
          "[loader][limits][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  const auto expected = take(*fixture.loader(0), 60);
  const auto child = energon::testing::run_in_child([&] {
    std::vector<int> calls = {SYS_memfd_create, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_waitid,
                              SYS_eventfd2};
    if (!ENERGON_ADDRESS_SANITIZER) {  // its leak check has a process of its own
      calls.insert(calls.end(), {SYS_clone, SYS_clone3});
    }
    for (const int call : calls) {
      if (!energon::testing::refuse_system_call(static_cast<unsigned>(call), EPERM)) {
        return 77;
      }
    }
    const auto loader = fixture.loader(0);
    auto found = take(*loader, 20);
    const auto resumed = energon::testing::resumed(fixture, 0, loader->save_state_rank());
    for (std::string& label : take(*resumed, 40)) {
      found.push_back(std::move(label));
    }
    const bool is_counted = loader->stats().consumer.batches == 20;
    loader->stop();
    return found == expected && is_counted ? 0 : 1;
  });
  if (child.exit_code == 77) {
    return energon::testing::skip_case("the machine permits no filters of system calls");
  }
  CHECK(child.exit_code == 0);
}
