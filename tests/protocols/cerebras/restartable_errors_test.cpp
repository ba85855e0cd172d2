// Errors of a restartable loader: invalid states, failing ranks, workers that end unevenly.

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "protocols/cerebras/restartable_data_loader.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/cerebras/counting_loader.h"
#include "tests/support/error_of.h"

namespace energon::testing {

using Catch::Contains;

TEST_CASE("A state that is not JSON text is an error that names worker and step",
          "[protocols][fork]") {
  struct Binary : CountingWorker {
    using CountingWorker::CountingWorker;
    StateDict state_dict() const { return std::string("\xff\xfe"); }
  };
  const int workers = GENERATE(0, 2);
  RestartableDataLoader loader(
      [](const PipelineContext& context) { return Binary(worker_identity(context), 1); },
      with_workers(workers, CheckpointSchedule({1})));
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    CHECK_THAT(error_of([&] { loader.next(); }, ErrorCode::kInvalidArgument),
               Contains("step 1") && Contains("worker: 0"));
  }
}

TEST_CASE("A failure of state_dict() on one rank reaches the others, whatever is thrown",
          "[protocols][fork]") {
  class Failing : public CountingWorker {
   public:
    using CountingWorker::CountingWorker;
    StateDict state_dict() const {
      if (worker().rank == 1) {
        throw std::runtime_error("the diary is lost");
      }
      return CountingWorker::state_dict();
    }
  };
  const std::vector<RankReport> reports = run_group(2, [](Comm& comm) {
    RestartableDataLoader loader(
        [](const PipelineContext& context) { return Failing(worker_identity(context), 1); },
        {.loader = {.worker_config = {.rank = comm.rank(), .world_size = 2}}});
    std::string text;
    try {
      loader.state_dict(comm, 0);
    } catch (const std::exception& error) {
      text = error.what();
    }
    comm.barrier();  // still in step
    return text;
  });
  CHECK(reports.at(0).text == "rank 1: state_dict() failed: the diary is lost");
  CHECK(reports.at(1).text == "the diary is lost");
}

TEST_CASE("A temporary failure leaves no partial checkpoint", "[protocols][fork]") {
  class FailsOnce : public CountingWorker {
   public:
    FailsOnce(const WorkerIdentity& worker, int& failures)
        : CountingWorker(worker, 1), failures_(&failures) {}
    StateDict state_dict() const {
      if (worker().local_worker_id == 1 && --*failures_ >= 0) {
        throw Error(ErrorCode::kIo, "try again");
      }
      return CountingWorker::state_dict();
    }

   private:
    int* failures_;
  };
  int failures = 1;
  RestartableDataLoader loader(
      [&failures](const PipelineContext& context) {
        return FailsOnce(worker_identity(context), failures);
      },
      with_workers(2));
  CHECK(error_of([&] { loader.state_dict(); }, ErrorCode::kIo) == "try again");
  CHECK(loader.state_dict().at("all").size() == 2);
}

TEST_CASE("States that cannot be encoded as text are refused before use", "[protocols]") {
  RestartableDataLoader loader(counting(1));
  CHECK_THAT(error_of([&] { loader.load_state_dict("\xff"); }, ErrorCode::kInvalidArgument),
             Contains("the state to load cannot be written as JSON"));
  StateDict deep;
  for (int i = 0; i < 2000; ++i) {
    StateDict around = StateDict::array();
    around.push_back(std::move(deep));
    deep = std::move(around);
  }
  CHECK_THAT(error_of([&] { loader.load_state_dict(deep); }, ErrorCode::kInvalidArgument),
             Contains("nested deeper than 1000 levels"));
  CHECK(next_key(loader) == "0:0");
}

TEST_CASE("Invalid checkpoints are refused", "[protocols]") {
  RestartableDataLoader loader(counting(1));
  const DataLoaderCheckpoint whole = loader.checkpoints(0)->front();
  CHECK(checkpoint_from_json(to_json(whole)) == whole);
  DataLoaderCheckpoint other = whole;
  other.progress.worker.local_worker_id = 7;
  CHECK_THAT(error_of(
                 [&] {
                   loader.aggregate({whole, other});
                 },
                 ErrorCode::kMismatch),
             Contains("worker 7: there are only 1"));
  const auto refused = [&whole](const std::string& name, const StateDict& value) {
    StateDict json = to_json(whole);
    json[name] = value;
    return error_of([&] { checkpoint_from_json(json); }, ErrorCode::kCorruptData);
  };
  CHECK_THAT(refused("rank", 4294967297), Contains("'rank'") && Contains("4294967297"));
  CHECK_THAT(refused("step", -5.5), Contains("'step'") && Contains("-5.5"));
  CHECK_THAT(refused("world_size", 0), Contains("'world_size'"));
  CHECK_THAT(refused("samples_streamed", UINT64_MAX), Contains("'samples_streamed'"));
  CHECK_THAT(refused("worker_step", "many"), Contains("string"));
}

TEST_CASE("Workers that end unevenly have no state from then on, but lose nothing",
          "[protocols][fork]") {
  // Worker 0 has one batch per epoch, worker 1 has three.
  RestartableOptions options = with_workers(2, CheckpointSchedule::every(1));
  options.run.repeat = false;
  RestartableDataLoader loader(
      [](const PipelineContext& context) {
        const WorkerIdentity worker = worker_identity(context);
        return CountingWorker(worker, 1, worker.local_worker_id == 0 ? 1 : 3);
      },
      options);
  take(loader, 2);
  CHECK(loader.state_dict().at("all").size() == 2);
  CHECK(next_key(loader) == "1:1");
  CHECK_THAT(error_of([&] { loader.state_dict(); }, ErrorCode::kUnsupported),
             Contains("no state of step 3") && Contains("ended before that of the others"));
  CHECK(next_key(loader) == "1:2");
  CHECK(next_key(loader) == "end");
}

}  // namespace energon::testing
