// SDL-10, calls out of turn and damaged dictionaries of a stateful loader.

#include <unistd.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "protocols/torchdata/stateful_data_loader.h"
#include "tests/protocols/torchdata/growing_dataset.h"
#include "tests/protocols/torchdata/stateful_fixture.h"

using energon::Error;
using energon::ErrorCode;
using energon::PipelineContext;
using energon::StatefulDataLoader;
using energon::testing::Dict;
using energon::testing::failure_of;
using energon::testing::GrowingDataset;
using energon::testing::indexed;
using energon::testing::make;
using energon::testing::resume;
using energon::testing::take;
using energon::testing::uneven_workers;

TEST_CASE("SDL-10 errors of a worker's start and of a pipeline arrive unchanged",
          "[protocols][sdl][fork]") {
  const auto broken_start = [parent = ::getpid()](const PipelineContext& context) {
    if (::getpid() != parent && context.local_index == 1) {
      throw Error(ErrorCode::kNotFound, "the disk of worker 1 is not mounted");
    }
    return std::make_unique<GrowingDataset>("", 5);
  };
  const auto at_start = make(broken_start, 2);
  at_start->iterate();
  const auto [start_code, start_text] = failure_of([&] { take(*at_start); });
  CHECK(start_code == ErrorCode::kNotFound);
  CHECK_THAT(start_text, Catch::StartsWith("the disk of worker 1 is not mounted"));

  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    for (const bool foreign : {false, true}) {
      CAPTURE(foreign);
      const auto broken_item = [foreign](const PipelineContext&) {
        return std::make_unique<GrowingDataset>("", 5, [foreign](std::int64_t item) {
          if (item == 3 && foreign) {
            throw std::runtime_error("item 3 is odd");
          }
          if (item == 3) {
            throw Error(ErrorCode::kCorruptData, "item 3 is odd");
          }
        });
      };
      const auto loader = make(broken_item, workers);
      loader->iterate();
      CHECK(take(*loader, 3).size() == 3);
      const auto [code, text] = failure_of([&] { take(*loader); });
      CHECK(code == (foreign ? ErrorCode::kUserFunction : ErrorCode::kCorruptData));
      CHECK_THAT(text, Catch::Contains("item 3 is odd"));
      loader->iterate();  // restarts the epoch
      CHECK(take(*loader, 3).size() == 3);
    }
  }
}

TEST_CASE("a load ends the pass, and calls out of turn are errors", "[protocols]") {
  StatefulDataLoader loader(indexed(std::nullopt));
  CHECK(failure_of([&] { loader.next(); }).first == ErrorCode::kInvalidArgument);
  loader.iterate();
  const Dict dict = loader.state_dict();
  loader.load_state_dict(dict);
  CHECK(failure_of([&] { loader.next(); }).first == ErrorCode::kInvalidArgument);
  CHECK(failure_of([] { make(uneven_workers(), 0, {.snapshot_every_n_steps = -1}); }).first ==
        ErrorCode::kInvalidArgument);
  CHECK(failure_of([] {
          StatefulDataLoader(uneven_workers(), {.checkpoint_every_batches = 1});
        }).first == ErrorCode::kInvalidArgument);
}

TEST_CASE("the start of the epoch is tested when the pass starts", "[protocols]") {
  const auto loader = make(uneven_workers(), 0);
  loader->iterate();
  take(*loader, 4);
  const Dict good = loader->state_dict();
  const auto rest = take(*loader);
  const auto foreign = make(uneven_workers(8), 0);
  Dict bad = good;
  bad["epoch_start"] = foreign->state_dict()["source"];
  loader->load_state_dict(bad);
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    const auto [code, text] = failure_of([&] { loader->iterate(); });
    CHECK(code == ErrorCode::kMismatch);
    CHECK_THAT(text, Catch::Contains("micro batch size") && Catch::Contains("epoch_start"));
    CHECK(loader->state_dict() == bad);
    CHECK(failure_of([&] { loader->next(); }).first == ErrorCode::kInvalidArgument);
  }
  resume(*loader, good);
  CHECK(take(*loader) == rest);
}

TEST_CASE("a damaged dictionary is refused with the path, and changes nothing", "[protocols]") {
  const auto loader = make(uneven_workers(), 0);
  loader->iterate();
  take(*loader, 4);
  const Dict good = loader->state_dict();
  const auto refused = [&](const std::function<void(Dict&)>& damage) {
    Dict dict = good;
    damage(dict);
    return failure_of([&] { loader->load_state_dict(dict); });
  };
  using Failure = std::pair<ErrorCode, std::string>;
  CHECK(refused([](Dict& dict) { dict["version"] = 2; }).first == ErrorCode::kUnsupported);
  CHECK(refused([](Dict& dict) { dict.erase("epoch_start"); }).first == ErrorCode::kCorruptData);
  CHECK(
      refused([](Dict& dict) { dict["steps"] = "4"; }) ==
      Failure(ErrorCode::kCorruptData, "state_dict.steps: expected a 64-bit integer, found \"4\""));
  CHECK(refused([](Dict& dict) {
          dict["source"]["loader"]["checkpoints"][0]["state"]["fields"]["seen"][2] = 0.5;
        }) == Failure(ErrorCode::kCorruptData,
                      "state_dict.source.loader.checkpoints[0].state.fields.seen[2]: expected a "
                      "64-bit integer, found 0.5"));
  CHECK(refused([](Dict& dict) {
          dict["source"]["loader"]["checkpoints"][0]["certificate"] = "12";
        }).second ==
        "state_dict.source.loader.checkpoints[0].certificate: expected 16 hexadecimal digits, "
        "found \"12\"");
  CHECK(loader->state_dict() == good);
  CHECK(take(*loader).size() == 133);
}
