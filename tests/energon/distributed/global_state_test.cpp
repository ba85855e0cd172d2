// The state of a whole job, saved on one rank and returned to all: ENE-14.

#include "energon/distributed/global_state.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/checkpoint/rescale.h"
#include "energon/loader/savable_data_loader.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/pipeline.h"

using energon::Comm;
using energon::SavableDataLoader;
using energon::testing::error_of;
using energon::testing::numbered_dataset;
using energon::testing::run_group;
using energon::testing::TempDir;
using energon::testing::texts;

namespace {

class Job {
 public:
  std::unique_ptr<SavableDataLoader> loader(const Comm& comm, std::int64_t seed_offset = 0) const {
    return std::make_unique<SavableDataLoader>(
        energon::train_pipeline(dataset_, {.batch_size = 2, .shuffle_buffer_size = 8}),
        energon::LoaderOptions{.worker_config = {.rank = comm.rank(),
                                                 .world_size = comm.size(),
                                                 .num_workers = 1,
                                                 .seed_offset = seed_offset}});
  }

 private:
  TempDir folder_;
  std::shared_ptr<const energon::Webdataset> dataset_ = numbered_dataset(folder_, {30, 30, 30});
};

std::string take_text(SavableDataLoader& loader, int count) {
  std::string keys;
  for (int i = 0; i < count; ++i) {
    keys += fmt::format("{} ", fmt::join(loader.next()->keys, ","));
  }
  return keys;
}

}  // namespace

TEST_CASE("ENE-14 gathered to rank 0, restored by scattering and from the whole list",
          "[distributed][ene][fork]") {
  const Job job;
  const auto reports = run_group(3, [&](Comm& comm) -> std::string {
    const auto first = job.loader(comm);
    take_text(*first, 7);
    const auto state = save_state_global(*first, comm, 0);
    if (state.has_value() != (comm.rank() == 0)) {
      return "the state is on the wrong rank";
    }
    const std::string rest = take_text(*first, 20);

    const auto scattered = job.loader(comm);
    restore_state_global(*scattered, comm, state, 0);
    if (take_text(*scattered, 20) != rest) {
      return "another order after scattering";
    }
    const auto list = energon::decode_saved_state(
        comm.broadcast(state ? encode_job_state(*state) : std::string(), 0));
    const auto own = job.loader(comm);
    own->restore_state_rank(state_of_rank(list, comm.rank()));
    if (take_text(*own, 20) != rest) {
      return "another order from the list";
    }
    // Every rank may pass the list to the restore, but only the list of rank 0 is used.
    const auto both = job.loader(comm);
    restore_state_global(*both, comm, std::get<energon::SavableJobState>(list), 0);
    return take_text(*both, 20) == rest ? "continued" : "another order from both";
  });
  CHECK(texts(reports) == std::vector<std::string>(3, "continued"));
}

TEST_CASE("ENE-14 a list of another length and an invalid rank are refused on every rank",
          "[distributed][ene][fork]") {
  const Job job;
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const auto reports = run_group(3, [&](Comm& comm) {
      const auto loader = job.loader(comm);
      const std::string fresh = take_text(*job.loader(comm), 5);
      take_text(*loader, 3);
      auto state = save_state_global(*loader, comm, 0);
      if (state) {
        state->ranks.resize(static_cast<std::size_t>(ranks), state->ranks.back());
      }
      const auto other = job.loader(comm);
      const std::string error = error_of([&] { restore_state_global(*other, comm, state, 0); });
      return error + (take_text(*other, 5) == fresh ? ", nothing restored" : ", but restored");
    });
    for (const auto& report : reports) {
      CAPTURE(report.text);
      CHECK_THAT(report.text,
                 Catch::StartsWith("mismatch: ") &&
                     Catch::Contains(fmt::format("a job of {} ranks, but this one has 3", ranks)) &&
                     Catch::EndsWith(", nothing restored"));
    }
  }
  for (const int foreign : {-1, 3}) {
    CAPTURE(foreign);
    const auto saved = run_group(3, [&](Comm& comm) {
      const auto loader = job.loader(comm);
      return error_of([&] { save_state_global(*loader, comm, foreign); });
    });
    const auto restored = run_group(3, [&](Comm& comm) {
      const auto loader = job.loader(comm);
      const auto state = save_state_global(*loader, comm, 0);
      return error_of([&] { restore_state_global(*loader, comm, state, foreign); });
    });
    for (const auto& reports : {saved, restored}) {
      for (const auto& report : reports) {
        CAPTURE(report.text);
        CHECK_THAT(report.text, Catch::StartsWith("invalid_argument: ") &&
                                    Catch::Contains(std::to_string(foreign)));
      }
    }
  }
}

TEST_CASE("the state of a job goes to one rank and back to all", "[distributed][fork]") {
  const Job job;
  for (const int ranks : {2, 3, 4, 12}) {
    CAPTURE(ranks);
    const auto reports = run_group(ranks, [&](Comm& comm) -> std::string {
      const int keeper = comm.size() - 1;
      const auto first = job.loader(comm);
      take_text(*first, 5);
      const auto state = save_state_global(*first, comm, keeper);
      if (state.has_value() != (comm.rank() == keeper)) {
        return "the state is on the wrong rank";
      }
      const std::string rest = take_text(*first, 5);
      const auto second = job.loader(comm);
      restore_state_global(*second, comm, state, keeper);
      return take_text(*second, 5) == rest ? "continued" : "differs";
    });
    CHECK(texts(reports) == std::vector<std::string>(static_cast<std::size_t>(ranks), "continued"));
  }
}

TEST_CASE("errors in the state of a job are thrown on every rank", "[distributed][fork]") {
  const Job job;
  const auto reports = run_group(3, [&](Comm& comm) {
    const auto loader = job.loader(comm);
    auto state = save_state_global(*loader, comm, 0);
    if (comm.rank() == 0) {
      state = rescale(*state, {.world_size = 2, .uneven = energon::Uneven::kSpread});
    }
    const std::string count = error_of([&] { restore_state_global(*loader, comm, state, 0); });
    // Only rank 1 has another configuration.
    const auto odd = job.loader(comm, comm.rank() == 1 ? 5 : 0);
    const auto whole = save_state_global(*loader, comm, 0);
    return count + " | " + error_of([&] { restore_state_global(*odd, comm, whole, 0); });
  });
  for (const auto& report : reports) {
    CAPTURE(report.text);
    CHECK_THAT(report.text, Catch::Contains("a job of 2 ranks, but this one has 3") &&
                                Catch::Contains("| mismatch: rank 1: ") &&
                                Catch::Contains("seed_offset"));
  }
}
