// A function of the trainer ends a wait of next(), and the stream continues without loss.

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/loader/basic_data_loader.h"
#include "energon/process/wait.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/child_runner.h"

namespace {

using energon::CallContext;
using energon::LoaderOptions;
using energon::Sample;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::TrainOptions;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::ProcessFixture;
using energon::testing::take;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Not a std::exception: any exception of a check must be passed on.
struct Interrupt {
  int number;
};

// Each sample takes `time`.
TrainOptions slow_options(milliseconds time) {
  TrainOptions options;
  options.repeat = false;
  options.batch_size = 2;
  options.shuffle_buffer_size = 7;
  options.task_encoder.encode_sample = energon::MapFunction([time](Sample sample, CallContext&) {
    std::this_thread::sleep_for(time);
    return sample;
  });
  return options;
}

// Only the fourth call in a process takes `time`.
TrainOptions slow_once(milliseconds time) {
  TrainOptions options;
  options.batch_size = 2;
  options.task_encoder.encode_sample =
      energon::MapFunction([time, calls = std::make_shared<int>(0)](Sample sample, CallContext&) {
        if (++*calls == 4) {
          std::this_thread::sleep_for(time);
        }
        return sample;
      });
  return options;
}

struct Interrupted {
  Labels labels;
  int interrupts = 0;
  std::vector<SavableDataLoaderState> states;  // after each interrupt
  std::vector<std::size_t> delivered;          // before the interrupt
};

// The stored states and the numbers of batches after them may differ.
void check_same_place(const SavableDataLoaderState& found, const SavableDataLoaderState& expected) {
  REQUIRE(found.checkpoints.size() == expected.checkpoints.size());
  for (std::size_t i = 0; i < found.checkpoints.size(); ++i) {
    CHECK(found.checkpoints[i].index + found.checkpoints[i].offset ==
          expected.checkpoints[i].index + expected.checkpoints[i].offset);
    CHECK(found.checkpoints[i].turn == expected.checkpoints[i].turn);
    CHECK(found.checkpoints[i].certificate == expected.checkpoints[i].certificate);
  }
  CHECK(found.next_worker_id == expected.next_worker_id);
  CHECK(found.epoch == expected.epoch);
  CHECK(found.epoch_finished == expected.epoch_finished);
  CHECK(found.batch_index == expected.batch_index);
  CHECK(found.step_in_epoch == expected.step_in_epoch);
}

// Takes `count` items. After each interrupt the position must be that before the call.
Interrupted take_interrupted(SavableDataLoader& loader, std::size_t count) {
  Interrupted result;
  SavableDataLoaderState before = loader.save_state_rank();
  while (result.labels.size() < count) {
    try {
      for (std::string& label : take(loader, 1)) {
        result.labels.push_back(std::move(label));
      }
      before = loader.save_state_rank();
    } catch (const Interrupt&) {
      ++result.interrupts;
      result.states.push_back(loader.save_state_rank());
      result.delivered.push_back(result.labels.size());
      check_same_place(result.states.back(), before);
    }
  }
  return result;
}

// The check throws at every second call.
LoaderOptions interrupting(int workers, const std::shared_ptr<int>& calls) {
  return {.worker_config = {.num_workers = workers}, .wait_check = [calls] {
            if (++*calls % 2 == 0) {
              throw Interrupt{*calls};
            }
          }};
}

void check_interrupted_run(int workers, milliseconds time, std::size_t count,
                           energon::EpochPolicy policy) {
  CAPTURE(workers, policy == energon::EpochPolicy::kLoop);
  const LoaderFixture fixture(slow_options(time), {5, 4, 4});
  const LoaderFixture quick(slow_options(milliseconds(0)), {5, 4, 4});
  const auto uninterrupted = quick.loader(workers, {.epoch_policy = policy});
  Labels expected = take(*uninterrupted, count);
  const SavableDataLoaderState expected_state = uninterrupted->save_state_rank();
  for (std::string& label : take(*uninterrupted, 4)) {
    expected.push_back(std::move(label));
  }
  LoaderOptions options = interrupting(workers, std::make_shared<int>(0));
  options.epoch_policy = policy;
  SavableDataLoader loader(fixture.pipeline(), options);
  const Interrupted run = take_interrupted(loader, count);
  CHECK(run.labels == energon::testing::tail(expected, 0, count));
  check_same_place(loader.save_state_rank(), expected_state);
  CHECK(run.interrupts >= 4);
  // A position saved after an interrupt is like any other.
  for (std::size_t i = 0; i < run.states.size(); i += 3) {
    CAPTURE(i, run.delivered[i]);
    const auto resumed =
        energon::testing::resumed(quick, workers, run.states[i], {.epoch_policy = policy});
    CHECK(take(*resumed, 4) == energon::testing::tail(expected, run.delivered[i], 4));
  }
  // No batch is lost if the loader stops there, either.
  loader.stop();
  CHECK(take_interrupted(loader, 4).labels == energon::testing::tail(expected, count, 4));
}

constexpr std::array kPolicies = {energon::EpochPolicy::kStrict, energon::EpochPolicy::kLoop};

}  // namespace

TEST_CASE_METHOD(ProcessFixture, "a check ends the wait for a slow worker, and nothing is lost",
                 "[loader][wait_check][fork]") {
  const LoaderFixture fixture(slow_once(milliseconds(2000)));
  const LoaderFixture quick(slow_once(milliseconds(0)));
  const Labels expected = take(*quick.loader(1), 20);
  const pid_t trainer = ::getpid();
  constexpr milliseconds kArmedAfter(450);
  auto fastest = Clock::duration::max();
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    int calls = 0;
    std::optional<Clock::time_point> begin;
    SavableDataLoader loader(fixture.pipeline(),
                             {.worker_config = {.num_workers = 1}, .wait_check = [&] {
                                if (::getpid() != trainer) {
                                  ::abort();  // in a worker it is never called
                                }
                                ++calls;
                                if (begin && Clock::now() - *begin > kArmedAfter) {
                                  throw Interrupt{calls};
                                }
                              }});
    Labels found = take(loader, 1);
    begin = Clock::now();
    calls = 0;
    CHECK_THROWS_AS(take(loader, 1), Interrupt);
    const auto waited = Clock::now() - *begin;
    begin.reset();
    CHECK(waited >= kArmedAfter);
    CHECK(waited < milliseconds(1500));  // before the batch comes
    CHECK(calls >= 2);
    CHECK(calls <= 7);
    fastest = std::min(fastest, waited);
    for (std::string& label : take(loader, 19)) {
      found.push_back(std::move(label));
    }
    CHECK(found == expected);
  }
  // Every 100 ms; fastest of three waits, as other jobs share the processors.
  CHECK(fastest < kArmedAfter + milliseconds(150));
}

TEST_CASE_METHOD(ProcessFixture, "an interrupt shortly before the batch comes ends the wait",
                 "[loader][wait_check][fork]") {
  const LoaderFixture fixture(slow_options(milliseconds(35)));  // 70 per batch, below a check
  std::atomic<bool> is_raised = false;
  LoaderOptions options{.worker_config = {.num_workers = 1}};
  options.wait_check = [&is_raised] {
    if (is_raised.exchange(false)) {
      throw Interrupt{1};
    }
  };
  SavableDataLoader loader(fixture.pipeline(), options);
  Labels labels = take(loader, 1);
  std::thread signal([&is_raised] {
    std::this_thread::sleep_for(milliseconds(20));
    is_raised = true;
  });
  CHECK_THROWS_AS(loader.next(), Interrupt);
  signal.join();
  for (std::string& label : take(loader, 5)) {
    labels.push_back(std::move(label));
  }
  CHECK(labels == take(*fixture.loader(1), 6));
}

TEST_CASE_METHOD(ProcessFixture, "a repeatedly interrupted stream is the same",
                 "[loader][wait_check][fork]") {
  for (const auto policy : kPolicies) {
    check_interrupted_run(2, milliseconds(130), 13, policy);  // beyond the end of an epoch
  }
  check_interrupted_run(1, milliseconds(130), 9, energon::EpochPolicy::kStrict);
}

TEST_CASE("without workers, a repeatedly interrupted stream is the same", "[loader][wait_check]") {
  for (const auto policy : kPolicies) {
    check_interrupted_run(0, milliseconds(25), 13, policy);
  }
}

TEST_CASE("without workers, an interrupt in the first batch of an epoch ends no epoch",
          "[loader][wait_check]") {
  int calls = 0;
  const auto options_of = [&calls](milliseconds time) {
    TrainOptions options = slow_options(milliseconds(0));
    options.task_encoder.encode_sample =
        energon::MapFunction([time, &calls](Sample sample, CallContext&) {
          if (++calls == 14) {  // the first of the second epoch
            std::this_thread::sleep_for(time);
          }
          return sample;
        });
    return options;
  };
  const LoaderFixture quick(options_of(milliseconds(0)), {5, 4, 4});
  const Labels expected = take(*quick.loader(0, {.epoch_policy = energon::EpochPolicy::kLoop}), 9);
  calls = 0;
  const LoaderFixture fixture(options_of(milliseconds(150)), {5, 4, 4});  // a check is then due
  bool is_armed = true;
  SavableDataLoader loader(fixture.pipeline(),
                           {.epoch_policy = energon::EpochPolicy::kLoop, .wait_check = [&] {
                              if (calls >= 14 && std::exchange(is_armed, false)) {
                                throw Interrupt{1};
                              }
                            }});
  const Interrupted run = take_interrupted(loader, 9);
  CHECK(run.delivered == std::vector<std::size_t>{7});
  CHECK(run.labels == expected);
}

TEST_CASE("without workers, a policy that skips failures does not skip an interrupt",
          "[loader][wait_check]") {
  // After two samples of this length, the check is due when their pack is selected, where a policy
  // sees every exception.
  const auto packing = [](milliseconds time) {
    TrainOptions options;
    options.packing_buffer_size = 2;
    options.task_encoder.preencode_sample =
        energon::MapFunction([time](Sample sample, CallContext&) {
          std::this_thread::sleep_for(time);
          return sample;
        });
    options.task_encoder.select_samples_to_pack =
        energon::SelectFunction([](std::span<const Sample> samples) {
          std::vector<std::size_t> all(samples.size());
          std::iota(all.begin(), all.end(), 0);
          return std::vector<std::vector<std::size_t>>{all};
        });
    options.task_encoder.pack_selected_samples = energon::PackFunction(
        [](std::span<Sample> samples, CallContext&) { return samples[0].fields; });
    options.errors.standard.action = energon::FailureAction::kSkip;
    return options;
  };
  const LoaderFixture fixture(packing(milliseconds(55)));
  LoaderOptions options = interrupting(0, std::make_shared<int>(0));
  options.checkpoint_every_batches = 1;  // otherwise each interrupt would repeat all batches
  SavableDataLoader loader(fixture.pipeline(), options);
  const Interrupted run = take_interrupted(loader, 8);
  CHECK(run.interrupts >= 4);
  CHECK(loader.stats().newest_reports.empty());
  CHECK(run.labels == take(*LoaderFixture(packing(milliseconds(0))).loader(0), 8));
}

TEST_CASE_METHOD(ProcessFixture, "an iteration of a basic loader can be interrupted, too",
                 "[loader][wait_check][fork]") {
  const LoaderFixture fixture(slow_options(milliseconds(70)));
  const energon::BasicDataLoader loader(fixture.pipeline(),
                                        interrupting(1, std::make_shared<int>(0)));
  auto batches = loader.iterate();
  int interrupts = 0;
  int taken = 0;
  while (taken < 5) {
    try {
      taken += batches.next() ? 1 : 0;
    } catch (const Interrupt&) {
      ++interrupts;
    }
  }
  CHECK(interrupts >= 2);
}

TEST_CASE_METHOD(ProcessFixture, "signals alone end no wait", "[loader][wait_check][fork]") {
  const LoaderFixture fixture(slow_options(milliseconds(30)));
  const Labels expected = take(*LoaderFixture(slow_options(milliseconds(0))).loader(1), 12);
  static std::atomic<int> signals{0};
  signals = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { ++signals; };  // without SA_RESTART: system calls end with EINTR
  struct sigaction before {};
  ::sigaction(SIGALRM, &action, &before);
  itimerval timer{{0, 2000}, {0, 2000}};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
  int calls = 0;
  {
    SavableDataLoader loader(fixture.pipeline(),
                             {.worker_config = {.num_workers = 1}, .wait_check = [&] { ++calls; }});
    CHECK(take(loader, 12) == expected);
  }
  timer = {};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  CHECK(signals > 50);
  CHECK(calls >= 2);
}

TEST_CASE("time in which the process itself was stopped does not end a wait",
          "[loader][wait_check][fork]") {
  const auto child = energon::testing::run_in_child([] {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
      return 2;
    }
    const pid_t waiting = ::getpid();
    const pid_t other = energon::testing::start_child([&] {
      std::this_thread::sleep_for(milliseconds(300));
      ::kill(waiting, SIGSTOP);
      std::this_thread::sleep_for(milliseconds(3000));
      ::kill(waiting, SIGCONT);
      std::this_thread::sleep_for(milliseconds(300));
      return ::write(ends[1], "x", 1) == 1 ? 0 : 1;
    });
    energon::WaitCheck check(nullptr);
    std::array<energon::Waitable, 1> waitables{{{ends[0]}}};
    const bool has_come = wait_any(waitables, energon::deadline_after(milliseconds(2000)), &check);
    energon::testing::await_child(other, std::chrono::seconds(20));
    return has_come ? 0 : 1;
  });
  CHECK(child.exited);
  CHECK(child.exit_code == 0);
}
