// The state of a whole job, saved on one rank and given back to all.

#include "energon/distributed/global_state.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/loader/rescale.h"
#include "io/error.h"
#include "tests/distributed/forked_group.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/pipeline.h"

using energon::Comm;
using energon::SavableDataLoader;
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

std::string take(SavableDataLoader& loader, int count) {
  std::string keys;
  for (int i = 0; i < count; ++i) {
    keys += fmt::format("{} ", fmt::join(loader.next()->keys, ","));
  }
  return keys;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const energon::Error& error) {
    return fmt::format("{}: {}", to_string(error.code()), error.what());
  }
  return "no error";
}

}  // namespace

TEST_CASE("the state of a job goes to one rank and back to all", "[distributed][fork]") {
  const Job job;
  for (const int ranks : {2, 3, 4, 12}) {
    const auto reports = run_group(ranks, [&](Comm& comm) -> std::string {
      const int keeper = comm.size() - 1;
      const auto first = job.loader(comm);
      take(*first, 5);
      const auto state = save_state_global(*first, comm, keeper);
      if (state.has_value() != (comm.rank() == keeper)) {
        return "the state is on the wrong rank";
      }
      const std::string rest = take(*first, 5);
      const auto second = job.loader(comm);
      restore_state_global(*second, comm, state, keeper);
      return take(*second, 5) == rest ? "continued" : "differs";
    });
    CHECK(texts(reports) == std::vector<std::string>(static_cast<std::size_t>(ranks), "continued"));
  }
}

TEST_CASE("what is wrong with the state of a job is thrown on every rank", "[distributed][fork]") {
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
    CHECK_THAT(report.text, Catch::Contains("a job of 2 ranks, this one has 3") &&
                                Catch::Contains("| mismatch: rank 1: ") &&
                                Catch::Contains("seed_offset"));
  }
}
