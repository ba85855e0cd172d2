// Whole jobs with adapters: the state of the job on one rank, and automatic checkpoints.

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/autosave/auto_saver.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/rescale.h"
#include "energon/distributed/global_state.h"
#include "protocols/accelerate/skip_first.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/accelerate/adapter_fixture.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

using energon::AutoSaveOptions;
using energon::AutoSavingLoader;
using energon::BatchSource;
using energon::Comm;
using energon::ErrorCode;
using energon::SavableJobState;
using energon::testing::CommonEnd;
using energon::testing::error_of;
using energon::testing::keys;
using energon::testing::run_group;
using energon::testing::split;
using energon::testing::TempDir;
using energon::testing::Texts;
using energon::testing::texts;
using energon::testing::UnevenLoaders;

TEST_CASE(
    "the state of a dispatched job belongs to one rank, and any number of ranks can continue it",
    "[protocols][fork]") {
  const UnevenLoaders loaders;
  const TempDir folder;
  const std::string path = folder.file("job.state");
  const auto gathered = [](Comm& comm, const Texts& own) {
    // In the reading order of rank 0: by step, then by rank.
    std::vector<Texts> ranks;
    for (const std::string& text : comm.all_gather(fmt::format("{}", fmt::join(own, " ")))) {
      ranks.push_back(split(text, ' '));
    }
    Texts all;
    for (std::size_t step = 0; step < ranks[0].size(); ++step) {
      for (const Texts& rank : ranks) {
        all.push_back(rank.at(step));
      }
    }
    return all;
  };
  const auto before = run_group(3, [&](Comm& comm) -> std::string {
    const auto source = loaders.dispatching(comm);
    Texts own = keys(*source, 4);
    const auto job = save_state_global(*source, comm, 0);
    if (job.has_value() != (comm.rank() == 0)) {
      return "a job on the wrong rank";
    }
    if (job) {
      if (job->ranks.size() != 1) {
        return "expected one rank";
      }
      write_job_state(path, *job);
    }
    return fmt::format("{}", fmt::join(gathered(comm, own), " "));
  });
  const Texts reference = keys(*loaders.loader(0, 1));
  CHECK(before[0].text ==
        fmt::format("{}", fmt::join(reference.begin(), reference.begin() + 12, " ")));
  for (const int ranks : {1, 2, 5}) {
    CAPTURE(ranks);
    const auto after = run_group(ranks, [&](Comm& comm) -> std::string {
      const auto source = loaders.dispatching(comm, /*workers=*/2);
      std::optional<SavableJobState> job;
      if (comm.rank() == 0) {
        job = rescale(std::get<SavableJobState>(energon::read_saved_state(path)),
                      {.world_size = 1, .num_workers = 2});
      }
      restore_state_global(*source, comm, job, 0);
      const Texts own = keys(*source, 2);
      if (source->epoch() != 0 || source->save_state_rank().step_in_epoch < 1) {
        return "the ranks do not know where they stand";
      }
      return fmt::format("{}", fmt::join(gathered(comm, own), " "));
    });
    CHECK(after[0].text == fmt::format("{}", fmt::join(reference.begin() + 12,
                                                       reference.begin() + 12 + 2 * ranks, " ")));
  }
  const SavableJobState job = std::get<SavableJobState>(energon::read_saved_state(path));
  CHECK_THAT(error_of([&] { rescale(job, {.world_size = 2}); }, ErrorCode::kInvalidArgument),
             Catch::Contains("one rank of this job reads for all"));
}

TEST_CASE("jobs with adapters save automatically and continue, on other layouts too",
          "[protocols][fork]") {
  const UnevenLoaders loaders;
  for (const bool dispatched : {false, true}) {
    CAPTURE(dispatched);
    const TempDir folder;
    const auto make = [&](Comm& comm) {
      std::shared_ptr<BatchSource> source;
      if (dispatched) {
        source = loaders.dispatching(comm);
      } else {
        source = loaders.ending(comm, CommonEnd::kRepeat);
      }
      return std::make_unique<AutoSavingLoader>(
          source,
          AutoSaveOptions{.folder = folder.path() + "/saved", .every_batches = 4, .comm = &comm});
    };
    const auto steps = [](AutoSavingLoader& loader, std::size_t count) {
      Texts batches;
      while (batches.size() < count) {
        const auto batch = loader.next();
        batches.push_back(batch ? fmt::format("{}", fmt::join(batch->keys, ",")) : "end");
      }
      return fmt::format("{}", fmt::join(batches, " "));
    };
    // Eleven steps; the checkpoint of step 8 is the newest. The next run repeats the last three.
    const auto first = run_group(3, [&](Comm& comm) {
      const auto loader = make(comm);
      steps(*loader, 8);
      return steps(*loader, 3);
    });
    const auto second = run_group(3, [&](Comm& comm) -> std::string {
      const auto loader = make(comm);
      if (loader->saver().step() != 8) {
        return fmt::format("step {}", loader->saver().step());
      }
      return steps(*loader, 3);
    });
    CHECK(texts(second) == texts(first));
    const auto other = run_group(2, [&](Comm& comm) -> std::string {
      const auto loader = make(comm);
      steps(*loader, 2);
      return fmt::format("{} {}", loader->saver().step(), loader->source().epoch());
    });
    CHECK(texts(other) == Texts(2, "10 0"));
  }
}

TEST_CASE("ranks that do not read follow the reading rank, also when it skips",
          "[protocols][fork]") {
  const UnevenLoaders loaders;
  const TempDir folder;
  const std::string path = folder.file("job.state");
  const Texts all = keys(*loaders.loader(0, 1));
  const auto make = [&](Comm& comm) {
    return energon::skip_first_batches(loaders.dispatching(comm), 3);
  };
  const auto saved = run_group(2, [&](Comm& comm) -> std::string {
    const auto source = make(comm);
    const std::string text = fmt::format("{}", fmt::join(keys(*source, 2), " "));
    if (const auto job = save_state_global(*source, comm, 0)) {
      write_job_state(path, *job);
    }
    return text;
  });
  CHECK(texts(saved) == Texts{all[6] + " " + all[8], all[7] + " " + all[9]});
  const auto resumed = run_group(2, [&](Comm& comm) -> std::string {
    const auto source = make(comm);
    std::optional<SavableJobState> job;
    if (comm.rank() == 0) {
      job = std::get<SavableJobState>(energon::read_saved_state(path));
    }
    restore_state_global(*source, comm, job, 0);
    const Texts batches = keys(*source, 2);
    return fmt::format("{} {}", fmt::join(batches, " "),
                       source->save_state_rank().step_in_epoch.value());
  });
  CHECK(resumed[0].text.starts_with(all[10] + " " + all[12]));
  CHECK(resumed[1].text == all[11] + " " + all[13] + " 7");
}
