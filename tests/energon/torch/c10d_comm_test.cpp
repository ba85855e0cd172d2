// The Comm over real Gloo groups of forked processes.

#include "energon/torch/c10d_comm.h"

// Under clang in C++20 mode, ATen's headers of libtorch 1.13 compile only after this one.
#include <ATen/core/ivalue.h>
//
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/version.h>

// libtorch's logging defines its own CHECK, so these tests use REQUIRE.
#include <catch2/catch.hpp>

#include "energon/distributed/global_state.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/process/wait.h"
#include "io/error.h"
#include "io/file.h"
#include "protocols/accelerate/dispatch_adapter.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/numbered_batches.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/temp_dir.h"
#include "wrappers/recipe/pipeline.h"

using energon::Comm;
using energon::CommOptions;
using energon::DispatchAdapter;
using energon::testing::exercise;
using energon::testing::expected_exercise;
using energon::testing::numbered_source;
using energon::testing::RankReport;
using energon::testing::run_ranks;
using energon::testing::take;
using energon::testing::TempDir;
using energon::testing::texts;

namespace {

// A deadline that only a hang reaches.
constexpr std::chrono::milliseconds kLongTime = std::chrono::seconds(60);

c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_group(const std::string& store_path, int rank,
                                                      int size) {
  auto options = c10d::ProcessGroupGloo::Options::create(kLongTime);
  options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::FileStore>(store_path, size), rank, size, std::move(options));
}

std::vector<RankReport> run_gloo(int size, const std::function<std::string(Comm&)>& body,
                                 std::chrono::milliseconds timeout = kLongTime) {
  const TempDir folder;
  return run_ranks(size, [&](int rank) {
    const auto comm = energon::c10d_comm(gloo_group(folder.file("store"), rank, size),
                                         CommOptions{.timeout = timeout});
    std::string text = body(*comm);
    return text;
  });
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("each collective over Gloo gives each rank its bytes", "[torch][distributed][fork]") {
  for (const int size : {1, 2, 3, 4, 12}) {
    CAPTURE(size);
    const auto reports = run_gloo(size, exercise);
    for (int rank = 0; rank < size; ++rank) {
      CAPTURE(rank);
      REQUIRE(reports[static_cast<std::size_t>(rank)].text == expected_exercise(rank, size));
    }
  }
}

TEST_CASE("large and empty messages arrive complete over Gloo", "[torch][distributed][fork]") {
  const auto reports = run_gloo(3, [](Comm& comm) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{20'000'000}}) {
      const std::string mine(size, static_cast<char>('a' + comm.rank()));
      if (comm.broadcast(mine, 1) != std::string(size, 'b') ||
          comm.all_gather(mine)[2] != std::string(size, 'c')) {
        return std::string("broken");
      }
    }
    return std::string("whole");
  });
  REQUIRE(texts(reports) == Texts(3, "whole"));
}

TEST_CASE("ACC-07 the dispatcher over Gloo deals as over sockets",
          "[torch][distributed][acc][fork]") {
  const auto dispatch = [](int ranks, std::int64_t count, std::int64_t size, bool split) {
    return texts(run_gloo(ranks, [&](Comm& comm) {
      DispatchAdapter adapter(comm.rank() == 0 ? numbered_source(count, size) : nullptr, comm,
                              {.split_batches = split});
      const std::string batches = take(adapter);
      return fmt::format("{} rem {}", batches, adapter.remainder().value_or(-1));
    }));
  };
  REQUIRE(dispatch(2, 9, 4, false) == Texts{"[0,1,2,3] [8] rem 1", "[4,5,6,7] [0] rem 1"});
  REQUIRE(dispatch(3, 10, 4, false) ==
          Texts{"[0,1,2,3] rem 10", "[4,5,6,7] rem 10", "[8,9,0,1] rem 10"});
  REQUIRE(dispatch(4, 6, 4, false) ==
          Texts{"[0,1] rem 6", "[2,3] rem 6", "[4,5] rem 6", "[0,1] rem 6"});
  REQUIRE(dispatch(4, 1, 4, false) == Texts(4, "[0] rem 1"));
  REQUIRE(dispatch(2, 10, 4, true) == Texts{"[0,1] [4,5] [8] rem 2", "[2,3] [6,7] [9] rem 2"});
}

TEST_CASE("ACC-16 a dispatcher over Gloo saved at every step continues exactly",
          "[torch][distributed][acc][fork]") {
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    const auto reports = run_gloo(ranks, [](Comm& comm) -> std::string {
      const auto make = [&] {
        return std::make_unique<DispatchAdapter>(
            comm.rank() == 0 ? numbered_source(41, 4) : nullptr, comm);
      };
      const std::string epoch = take(*make());
      for (std::size_t step = 0;; ++step) {
        const auto first = make();
        const std::string before = take(*first, step);
        if (first->end_of_dataloader()) {
          return "exact";
        }
        const auto second = make();
        second->restore_state_rank(first->save_state_rank());
        const std::string rest = take(*second);
        if (before + (before.empty() ? "" : " ") + rest != epoch) {
          return fmt::format("after {} came {}", step, rest);
        }
      }
    });
    REQUIRE(texts(reports) == Texts(static_cast<std::size_t>(ranks), "exact"));
  }
}

TEST_CASE("over Gloo the largest timeout means no limit", "[torch][distributed][fork]") {
  const auto reports = run_gloo(2, exercise, std::chrono::milliseconds::max());
  REQUIRE((texts(reports) == Texts{expected_exercise(0, 2), expected_exercise(1, 2)}));
}

TEST_CASE("the state of a job is saved and restored over Gloo", "[torch][distributed][fork]") {
  const TempDir data;
  const auto dataset = energon::testing::numbered_dataset(data, {30, 30, 30});
  for (const int ranks : {2, 3, 4, 12}) {
    CAPTURE(ranks);
    const TempDir folder;
    const auto reports = run_ranks(ranks, [&](int rank) -> std::string {
      // Loaders first: they fork, and a process group has threads.
      const auto make = [&] {
        return std::make_unique<energon::SavableDataLoader>(
            energon::train_pipeline(dataset, {.batch_size = 2, .shuffle_buffer_size = 8}),
            energon::LoaderOptions{
                .worker_config = {.rank = rank, .world_size = ranks, .num_workers = 1}});
      };
      const auto first = make();
      const auto second = make();
      const auto comm = energon::c10d_comm(gloo_group(folder.file("store"), rank, ranks),
                                           CommOptions{.timeout = kLongTime});
      for (int i = 0; i < 4; ++i) {
        first->next();
      }
      restore_state_global(*second, *comm, save_state_global(*first, *comm, 1), 1);
      for (int i = 0; i < 4; ++i) {
        if (second->next()->keys != first->next()->keys) {
          return "differs";
        }
      }
      return "continued";
    });
    REQUIRE(texts(reports) == Texts(static_cast<std::size_t>(ranks), "continued"));
  }
}

TEST_CASE("subgroups of a job do not disturb each other", "[torch][distributed][fork]") {
  // Four processes as two data-parallel groups of two, and all of them as a third group.
  const TempDir folder;
  const auto reports = run_ranks(4, [&](int rank) {
    const auto whole = energon::c10d_comm(gloo_group(folder.file("whole"), rank, 4),
                                          CommOptions{.timeout = kLongTime});
    const auto half =
        energon::c10d_comm(gloo_group(folder.file(rank < 2 ? "low" : "high"), rank % 2, 2),
                           CommOptions{.timeout = kLongTime});
    DispatchAdapter adapter(half->rank() == 0 ? numbered_source(6, 2) : nullptr, *half);
    std::string text = take(adapter);
    for (const std::string& other : whole->all_gather(std::to_string(rank))) {
      text += " " + other;
    }
    return text;
  });
  REQUIRE(texts(reports) == Texts{"[0,1] [4] 0 1 2 3", "[2,3] [5] 0 1 2 3", "[0,1] [4] 0 1 2 3",
                                  "[2,3] [5] 0 1 2 3"});
}

TEST_CASE("over Gloo a dead rank ends the others within the timeout, by name",
          "[torch][distributed][fork]") {
  for (const int size : {2, 3, 4}) {
    const auto reports = run_gloo(
        size,
        [](Comm& comm) -> std::string {
          comm.barrier();
          if (comm.rank() == 1) {
            ::kill(::getpid(), SIGKILL);
          }
          comm.gather("state", 0);
          comm.barrier();
          return "not reached";
        },
        std::chrono::seconds(20));
    REQUIRE(reports[1].signal == SIGKILL);
    INFO(reports[0].text);
    REQUIRE_THAT(reports[0].text, Catch::Contains("error worker_died") &&
                                      Catch::Contains("gather to rank 0") &&
                                      Catch::Contains("rank 1 is gone"));
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      if (rank != 1) {
        REQUIRE(reports[rank].exited);
        REQUIRE_THAT(reports[rank].text, Catch::StartsWith("error "));
        REQUIRE(reports[rank].took < std::chrono::seconds(15));
      }
    }
  }
}

TEST_CASE("over Gloo a rank that hangs ends the others after the timeout, by name",
          "[torch][distributed][fork]") {
  const energon::UniqueFd seen(::eventfd(0, EFD_CLOEXEC));
  const auto reports = run_gloo(
      3,
      [&](Comm& comm) -> std::string {
        if (comm.rank() == 1) {
          // The first rank that rank 0 waits for. It lives until rank 0 has given up, without
          // taking part.
          energon::Waitable waitable{.fd = seen.get()};
          return wait_any(std::span(&waitable, 1), energon::deadline_after(kLongTime)) ? "released"
                                                                                       : "never";
        }
        try {
          comm.gather("", 0);
          comm.barrier();
        } catch (const energon::Error& error) {
          if (comm.rank() == 0) {
            ::eventfd_write(seen.get(), 1);
          }
          throw;
        }
        return "not reached";
      },
      std::chrono::seconds(1));
  INFO(reports[0].text);
  REQUIRE_THAT(reports[0].text,
               Catch::Contains("error timeout") && Catch::Contains("rank 1 did not answer"));
  REQUIRE(reports[1].text == "released");
}

TEST_CASE("a process group is required", "[torch][distributed]") {
  REQUIRE_THROWS_WITH(energon::c10d_comm({}), Catch::Contains("no process group"));
  REQUIRE_THROWS_WITH(energon::c10d_comm(c10::intrusive_ptr<c10d::ProcessGroupGloo>()),
                      Catch::Contains("no process group"));
}

namespace {

// A group with a name for which it has no messages.
#if TORCH_VERSION_MAJOR >= 2
using GroupBase = c10d::Backend;
#else
using GroupBase = c10d::ProcessGroup;
#endif
class Named final : public GroupBase {
 public:
  explicit Named(std::string name) : GroupBase(0, 1), name_(std::move(name)) {}
  const std::string getBackendName() const override { return name_; }

 private:
  const std::string name_;
};

}  // namespace

TEST_CASE("groups that cannot send CPU bytes, or cannot time out, are refused",
          "[torch][distributed]") {
  for (const char* name : {"nccl", "xccl", "hccl", "mpi"}) {
    CAPTURE(name);
    try {
      energon::c10d_comm(c10::make_intrusive<Named>(name));
      FAIL("taken: " << name);
    } catch (const energon::Error& error) {
      REQUIRE(error.code() == energon::ErrorCode::kUnsupported);
      REQUIRE_THAT(error.what(), Catch::Contains(name) && Catch::Contains("gloo"));
    }
  }
#if TORCH_VERSION_MAJOR >= 2
  // As created by Python: one for the CPU, or one only for another device.
  const auto of_device = [](c10::DeviceType device) {
    auto group = c10::make_intrusive<c10d::ProcessGroup>(0, 1);
    group->setBackend(device, c10d::ProcessGroup::BackendType::CUSTOM,
                      c10::make_intrusive<Named>("own"));
    return group;
  };
  REQUIRE(energon::c10d_comm(of_device(c10::DeviceType::CPU))->size() == 1);
  REQUIRE_THROWS_WITH(energon::c10d_comm(of_device(c10::DeviceType::CUDA)),
                      Catch::Contains("no backend for CPU tensors") && Catch::Contains("gloo"));
#endif
}
