// A loader among processes and threads that it does not own.

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/loader/savable_data_loader.h"
#include "io/file.h"
#include "tests/energon/loader/job.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/sanitizer.h"

namespace {

using energon::LoaderOptions;
using energon::PipelineFactory;
using energon::SavableDataLoader;
using energon::UniqueFd;
using energon::testing::eventually;
using energon::testing::LoaderFixture;
using energon::testing::no_children;
using energon::testing::ProcessFixture;
using energon::testing::take;

constexpr std::size_t kWorkers = 2;
constexpr int kPrefetch = 2;

enum class Trainer {
  kTaking,   // one batch after the other
  kWaiting,  // forever, so that the workers' rings are full and they are blocked
};

bool all_rings_are_full(const SavableDataLoader& loader) {
  const auto stats = loader.stats();
  return std::all_of(stats.workers.begin(), stats.workers.end(),
                     [](const auto& worker) { return worker.queue_depth == kPrefetch; });
}

// Reports the PIDs of its workers once they work, and then lives until it is killed.
int be_a_trainer(const PipelineFactory& pipeline, Trainer trainer, int report) {
  SavableDataLoader loader(
      pipeline, {.worker_config = {.num_workers = kWorkers}, .prefetch_factor = kPrefetch});
  take(loader, 5);
  if (trainer == Trainer::kWaiting && !eventually([&] { return all_rings_are_full(loader); })) {
    return 1;
  }
  const std::vector<int> pids = loader.worker_pids();
  const auto size = static_cast<ssize_t>(pids.size() * sizeof(int));
  if (::write(report, pids.data(), static_cast<std::size_t>(size)) != size) {
    return 1;
  }
  while (trainer == Trainer::kTaking) {
    loader.next();
  }
  for (;;) {
    ::pause();
  }
}

// Starts a trainer, kills it after `moment`, and returns whether all its processes ended in time.
bool ends_with_its_parent(const PipelineFactory& pipeline, Trainer trainer,
                          std::chrono::microseconds moment) {
  std::array<int, 2> ends = {};
  REQUIRE(::pipe(ends.data()) == 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t parent =
      energon::testing::start_child([&] { return be_a_trainer(pipeline, trainer, writer.get()); });
  writer.reset();
  std::array<int, kWorkers> pids = {};
  REQUIRE(::read(reader.get(), pids.data(), sizeof(pids)) == sizeof(pids));
  energon::wait_any({}, energon::deadline_after(moment));
  for (const int pid : pids) {
    CHECK(::kill(pid, 0) == 0);
  }
  ::kill(parent, SIGKILL);
  return eventually([] { return no_children(true); }, std::chrono::seconds(2));
}

}  // namespace

TEST_CASE_METHOD(ProcessFixture, "X-08 workers end within two seconds of their parent's death",
                 "[loader][cross][fork]") {
  const LoaderFixture fixture({.batch_size = 4}, energon::testing::kFx55, 20'000);
  // Orphans become our children, so that all are found, and none is left as a zombie.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  const auto names = energon::testing::ProcessCounts::now().shared_memory_names;
  std::mt19937 random(8);
  for (int round = 0; round < 40; ++round) {
    const Trainer trainer = round % 4 == 0 ? Trainer::kWaiting : Trainer::kTaking;
    CAPTURE(round);
    CHECK(ends_with_its_parent(fixture.pipeline(), trainer,
                               std::chrono::microseconds(random() % 10'000)));
  }
  CHECK(energon::testing::ProcessCounts::now().shared_memory_names == names);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_CASE_METHOD(ProcessFixture,
                 "X-09 a hundred loaders start while threads allocate, lock and log",
                 "[loader][cross][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    WARN("skipped: a fork copies the locks of AddressSanitizer's allocator as threads hold them");
    return;
  }
  energon::TrainOptions options;
  options.batch_size = 2;
  options.shuffle_buffer_size = 10;
  const PipelineFactory pipeline = energon::testing::in_memory({40, 30}, options);
  const LoaderOptions settings{.worker_config = {.num_workers = 2}};
  const auto expected = [&] {
    SavableDataLoader loader(pipeline, settings);
    return take(loader, 6);
  }();

  const std::unique_ptr<FILE, int (*)(FILE*)> log(std::fopen("/dev/null", "w"), std::fclose);
  std::mutex mutex;
  std::vector<std::string> lines;
  std::atomic<int> running{0};
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread](const std::stop_token& stop) {
      ++running;
      for (std::size_t i = 0; !stop.stop_requested(); ++i) {
        std::string text = fmt::format("thread {}: {}", thread, std::string(i % 5000, 'x'));
        std::fprintf(log.get(), "%s\n", text.c_str());
        const std::lock_guard lock(mutex);
        lines.push_back(std::move(text));
        if (lines.size() > 50) {
          lines.clear();
        }
      }
    });
  }
  REQUIRE(eventually([&] { return running == 4; }));
  for (int start = 0; start < 100; ++start) {
    CAPTURE(start);
    SavableDataLoader loader(pipeline, settings);
    REQUIRE(take(loader, 6) == expected);
  }
}
