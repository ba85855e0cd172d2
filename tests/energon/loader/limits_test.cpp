// Limits of the system that a loader runs into: an error with its cause and the remedy, or less
// address space.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/worker/channel_sizes.h"
#include "io/error.h"
#include "io/file.h"
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

TEST_CASE("arenas take the space they may need, or their share of the available space",
          "[loader][limits]") {
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

TEST_CASE("insufficient address space is refused with options and flags", "[loader][limits]") {
  CHECK_THAT(
      error_of([] { fit_into(default_channel(), space(kGiB), 4); }, ErrorCode::kResourceExhausted),
      Catch::Contains("ulimit -v") && Catch::Contains("134217728 bytes") &&
          Catch::Contains("lower num_workers") && Catch::Contains("checkpoint_slot_bytes"));
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

TEST_CASE("an error that stops a worker before its first batch is reported with its text",
          "[loader][limits][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  if (!ENERGON_ADDRESS_SANITIZER) {
    CHECK_THAT(error_under(fixture, RLIMIT_AS, kGiB),
               Catch::Contains("worker 0") && Catch::Contains("gave up: cannot map") &&
                   Catch::Contains("arena_limit_bytes") && !Catch::Contains("code 112"));
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

namespace {

/// The memory that workers share with this process, also when the loader has closed it.
class SharedMemoryWatch {
 public:
  /// Adds the memory of the workers that run now.
  void add() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
      if (target.find("memfd:energon") != std::string::npos) {
        energon::UniqueFd memfd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
        if (inodes_.insert(status_of(memfd).st_ino).second) {
          memory_.push_back(std::move(memfd));
        }
      }
    }
  }
  /// Memory that the system has allocated for it.
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const energon::UniqueFd& memfd : memory_) {
      sum += static_cast<std::uint64_t>(status_of(memfd).st_blocks) * 512;
    }
    return sum;
  }
  std::size_t descriptors() const { return memory_.size(); }

 private:
  static struct stat status_of(const energon::UniqueFd& memfd) {
    struct stat status {};
    ::fstat(memfd.get(), &status);
    return status;
  }

  std::set<ino_t> inodes_;
  std::vector<energon::UniqueFd> memory_;
};

// Address space of this process that is shared with workers.
std::uint64_t mapped_bytes() {
  std::uint64_t sum = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:energon") != std::string::npos) {
      std::size_t dash = 0;
      const std::uint64_t begin = std::stoull(line, &dash, 16);
      sum += std::stoull(line.substr(dash + 1), nullptr, 16) - begin;
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("keeping a batch from each of many runs costs only the memory of the batches",
          "[loader][limits][fork]") {
  constexpr std::size_t kRuns = 300;
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  const LoaderFixture fixture({.batch_size = 4}, {40}, 25'000);
  const auto expected = take(*fixture.loader(0), kRuns);
  const auto loader = fixture.loader(1, {.prefetch_factor = 8});
  SharedMemoryWatch watch;
  std::vector<energon::Sample> kept;
  std::uint64_t held_bytes = 0;
  std::size_t descriptors = 0;
  for (std::size_t run = 0; run < kRuns; ++run) {
    CAPTURE(run);
    auto batch = loader->next();
    REQUIRE(batch);
    held_bytes += payload_bytes(*batch);
    kept.push_back(std::move(*batch));
    watch.add();
    loader->stop();
    const std::size_t open = descriptors_of(::getpid()) - watch.descriptors();
    descriptors = run == 0 ? open : descriptors;
    REQUIRE(open == descriptors);
    REQUIRE(watch.bytes() <= held_bytes + 64 * kMiB);
    REQUIRE(mapped_bytes() <= (run + 1) * 17 * kMiB);
  }
  CHECK(watch.descriptors() == kRuns);
  for (std::size_t run = 0; run < kRuns; ++run) {
    CAPTURE(run);
    REQUIRE(energon::testing::label(kept[run]) == expected[run]);
  }
  kept.erase(kept.begin() + 1, kept.end());
  CHECK(energon::testing::label(kept.front()) == expected.front());
  CHECK(watch.bytes() <= payload_bytes(kept.front()) + kMiB);
  CHECK(mapped_bytes() <= 17 * kMiB);
  kept.clear();
  CHECK(watch.bytes() == 0);
  CHECK(mapped_bytes() == 0);
}

TEST_CASE("batches that outlive their loader cost only their own memory",
          "[loader][limits][fork]") {
  const LoaderFixture fixture({.batch_size = 4}, {40}, 25'000);
  SharedMemoryWatch watch;
  std::vector<energon::Sample> kept;
  {
    const auto loader = fixture.loader(2);
    for (int i = 0; i < 20; ++i) {
      kept.push_back(*loader->next());
    }
    watch.add();
  }
  CHECK(watch.descriptors() == 2);
  CHECK(watch.bytes() <= 20 * 110'000 + 20 * 8192);
  CHECK(mapped_bytes() <= (std::uint64_t{256} << 20));
  const auto expected = take(*fixture.loader(2), 20);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CAPTURE(i);
    CHECK(energon::testing::label(kept[i]) == expected[i]);
  }
  kept.clear();
  CHECK(watch.bytes() == 0);
}

TEST_CASE("without workers a loader needs no process, pidfd, eventfd or memfd",
          "[loader][limits][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7});
  const auto expected = take(*fixture.loader(0), 60);
  const auto child = energon::testing::run_in_child([&] {
    std::vector<int> calls = {SYS_memfd_create, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_waitid,
                              SYS_eventfd2};
    if (!ENERGON_ADDRESS_SANITIZER) {  // its leak check runs in a separate process
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
