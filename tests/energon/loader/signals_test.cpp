// Signals to a whole job: the trainer can still take batches and save, and its workers end with it.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/skip.h"

namespace {

using energon::CallContext;
using energon::LoaderOptions;
using energon::Sample;
using energon::SavableDataLoader;
using energon::UniqueFd;
using energon::testing::eventually;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::no_children;
using energon::testing::ProcessFixture;
using energon::testing::take;

constexpr std::array kJobSignals = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};

volatile std::sig_atomic_t signal_that_came = 0;

// Each sample takes a while, so that workers are in the middle of one at most moments.
energon::TrainOptions busy_options() {
  energon::TrainOptions options;
  options.batch_size = 2;
  options.shuffle_buffer_size = 7;
  options.task_encoder.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
    while (std::chrono::steady_clock::now() < end) {
    }
    return sample;
  });
  return options;
}

struct Files {
  std::string log;
  std::string state;
};

// Logs the delivered batches, sets `started` when it is running, and on a signal continues for two
// batches, saves, and exits without ending its workers.
int be_a_trainer(const LoaderFixture& fixture, const LoaderOptions& options, const Files& files,
                 int started) {
  ::setpgid(0, 0);
  for (const int signal : kJobSignals) {
    std::signal(signal, [](int number) { signal_that_came = number; });
  }
  SavableDataLoader loader(fixture.pipeline(), options);
  std::ofstream log(files.log);
  const auto deliver = [&](std::size_t count) {
    for (const std::string& label : take(loader, count)) {
      log << label << '\n';
    }
  };
  deliver(3);
  if (::write(started, "!", 1) != 1) {
    return 1;
  }
  while (signal_that_came == 0) {
    deliver(1);
  }
  deliver(2);
  energon::write_loader_state(files.state, loader.save_state_rank());
  log.flush();
  ::_exit(0);
}

Labels lines_of(const std::string& file) {
  std::ifstream lines(file);
  Labels labels;
  for (std::string line; std::getline(lines, line);) {
    labels.push_back(line);
  }
  return labels;
}

}  // namespace

TEST_CASE_METHOD(ProcessFixture,
                 "a job that is asked to end saves, ends completely, and can be continued",
                 "[loader][signals][fork]") {
  const LoaderFixture fixture(busy_options());
  const LoaderOptions options{.worker_config = {.num_workers = 3}};
  // Orphans become our children, so that all are found.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  std::mt19937 random(18);
  for (const int signal : kJobSignals) {
    for (int round = 0; round < 3; ++round) {
      CAPTURE(signal, round);
      const energon::testing::TempDir folder;
      const Files files{folder.file("log"), folder.file("state")};
      std::array<int, 2> ends{};
      REQUIRE(::pipe(ends.data()) == 0);
      const UniqueFd reader(ends[0]);
      UniqueFd writer(ends[1]);
      const pid_t trainer = energon::testing::start_child(
          [&] { return be_a_trainer(fixture, options, files, writer.get()); });
      writer.reset();
      char started = 0;
      REQUIRE(::read(reader.get(), &started, 1) == 1);
      energon::wait_any({}, energon::deadline_after(std::chrono::microseconds(random() % 20'000)));
      REQUIRE(::kill(-trainer, signal) == 0);  // the whole group
      const auto end = energon::testing::await_child(trainer, std::chrono::seconds(60));
      REQUIRE(end.exit_code == 0);
      CHECK(eventually([] { return no_children(true); }, std::chrono::seconds(5)));

      Labels delivered = lines_of(files.log);
      CHECK(delivered.size() >= 5);
      SavableDataLoader resumed(fixture.pipeline(), options);
      resumed.restore_state_rank(energon::read_loader_state(files.state));
      const Labels rest = take(resumed, 20);
      delivered.insert(delivered.end(), rest.begin(), rest.end());
      SavableDataLoader uninterrupted(fixture.pipeline(), options);
      CHECK(take(uninterrupted, delivered.size()) == delivered);
    }
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_CASE("a worker is ended by SIGKILL, not by termination signals", "[loader][signals][fork]") {
  const LoaderFixture fixture(busy_options());
  const LoaderOptions options{.worker_config = {.num_workers = 2}};
  SavableDataLoader reference(fixture.pipeline(), options);
  const Labels expected = take(reference, 30);
  SavableDataLoader loader(fixture.pipeline(), options);
  Labels found = take(loader, 10);
  for (const int pid : loader.worker_pids()) {
    CAPTURE(pid);
    for (const int signal : kJobSignals) {
      CAPTURE(signal);
      CHECK(::kill(pid, signal) == 0);
    }
  }
  for (std::string& label : take(loader, 20)) {
    found.push_back(std::move(label));
  }
  CHECK(found == expected);
  CHECK(::kill(loader.worker_pids().at(1), SIGKILL) == 0);
  // More than the worker can have finished before.
  CHECK_THROWS_WITH(take(loader, 1000), Catch::Contains("worker 1") && Catch::Contains("SIGKILL"));
}

TEST_CASE_METHOD(ProcessFixture, "a job that is stopped for longer than the timeout continues",
                 "[loader][signals][fork]") {
  energon::TrainOptions slow;
  slow.batch_size = 1;
  slow.task_encoder.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
    for (int i = 0; i < 50; ++i) {  // it also takes a while after continuing
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return sample;
  });
  const LoaderFixture fixture(slow);
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t trainer = energon::testing::start_child([&] {
    ::setpgid(0, 0);
    std::signal(SIGCONT, [](int) {});  // without a handler, the kernel itself resumes a wait
    SavableDataLoader loader(fixture.pipeline(), {.worker_config = {.num_workers = 2},
                                                  .timeout = std::chrono::seconds(2)});
    take(loader, 1);
    if (::write(writer.get(), "!", 1) != 1) {
      return 1;
    }
    take(loader, 6);
    return 0;
  });
  writer.reset();
  char started = 0;
  REQUIRE(::read(reader.get(), &started, 1) == 1);
  REQUIRE(::kill(-trainer, SIGSTOP) == 0);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  REQUIRE(::kill(-trainer, SIGCONT) == 0);
  CHECK(energon::testing::await_child(trainer, std::chrono::seconds(60)).exit_code == 0);
}

TEST_CASE("a handler that a function installs in a worker is called there",
          "[loader][signals][fork]") {
  energon::TrainOptions options;
  options.task_encoder.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
    static const auto before = std::signal(SIGUSR1, [](int number) { signal_that_came = number; });
    sample.fields = {{"was_ignored", std::int64_t{before == SIG_IGN}},
                     {"came", static_cast<std::int64_t>(signal_that_came)}};
    return sample;
  });
  const LoaderFixture fixture(options);
  const auto loader = fixture.loader(1);
  const auto field = [](const Sample& sample, const char* name) {
    return std::get<std::int64_t>(sample.at(name).base());
  };
  const auto first = loader->next();
  CHECK(field(*first, "was_ignored") == 1);
  CHECK(field(*first, "came") == 0);
  REQUIRE(::kill(loader->worker_pids().at(0), SIGUSR1) == 0);
  CHECK(eventually([&] { return field(*loader->next(), "came") == SIGUSR1; }));
  CHECK(signal_that_came == 0);  // in the trainer
}

TEST_CASE("a program started by a function in a worker inherits ignored signals",
          "[loader][signals][fork]") {
  const std::string kill_itself = "sh -c 'kill -TERM $$; exit 7'";
  const std::string with_default = "env --default-signal=TERM ";
  if (std::system((with_default + "true 2> /dev/null").c_str()) != 0) {
    return energon::testing::skip_case("env has no --default-signal here");
  }
  energon::TrainOptions options;
  options.task_encoder.encode_sample = energon::MapFunction([&](Sample sample, CallContext&) {
    const int ignored = std::system(kill_itself.c_str());
    const int ended = std::system((with_default + kill_itself + " 2> /dev/null").c_str());
    sample.fields = {{"goes_on", std::int64_t{WIFEXITED(ignored) && WEXITSTATUS(ignored) == 7}},
                     {"ends", std::int64_t{!WIFEXITED(ended) || WEXITSTATUS(ended) != 7}}};
    return sample;
  });
  const LoaderFixture fixture(options);
  const auto sample = fixture.loader(1)->next();
  CHECK(std::get<std::int64_t>(sample->at("goes_on").base()) == 1);
  CHECK(std::get<std::int64_t>(sample->at("ends").base()) == 1);
}

TEST_CASE_METHOD(ProcessFixture, "handlers, dispositions and mask of the trainer are unchanged",
                 "[loader][signals][fork]") {
  const LoaderFixture fixture(busy_options());
  const auto child = energon::testing::run_in_child([&] {
    std::signal(SIGTERM, [](int number) { signal_that_came = number; });
    std::signal(SIGUSR2, SIG_IGN);
    sigset_t blocked{};
    ::sigaddset(&blocked, SIGHUP);
    ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
    const auto dispositions = [] {
      std::vector<std::uint64_t> all;
      for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction action {};
        ::sigaction(signal, nullptr, &action);
        all.push_back(reinterpret_cast<std::uintptr_t>(action.sa_handler));
        all.push_back(static_cast<std::uint64_t>(action.sa_flags));
      }
      sigset_t mask{};
      ::sigprocmask(SIG_SETMASK, nullptr, &mask);
      for (int signal = 1; signal < NSIG; ++signal) {
        all.push_back(static_cast<std::uint64_t>(::sigismember(&mask, signal)));
      }
      return all;
    };
    const auto before = dispositions();
    const auto loader = fixture.loader(2);
    take(*loader, 5);
    if (dispositions() != before) {
      return 1;
    }
    ::kill(loader->worker_pids().at(0), SIGKILL);
    try {
      take(*loader, 2000);  // more than the worker has made in advance
      return 2;
    } catch (const energon::Error&) {
    }
    if (dispositions() != before) {
      return 3;
    }
    loader->stop();
    return dispositions() == before ? 0 : 4;
  });
  CHECK(child.exit_code == 0);
}
