// The settings in the state of an indexed source, and the seed that ranks share.

#include "protocols/indexed_source.h"

#include <functional>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/accelerate/adapter_fixture.h"
#include "tests/protocols/numbered_batches.h"
#include "tests/support/error_of.h"

using energon::Comm;
using energon::ErrorCode;
using energon::IndexedOptions;
using energon::IndexedSource;
using energon::SavableDataLoaderState;
using energon::testing::error_of;
using energon::testing::keys;
using energon::testing::numbered_batch;
using energon::testing::run_group;
using energon::testing::texts;

TEST_CASE("a state of an indexed source is refused under other options, with all differences",
          "[distributed]") {
  const IndexedOptions options = {
      .samples = 40, .batch_size = 4, .shuffle_seed = 7, .processes = 2, .process = 1};
  IndexedSource source(options, numbered_batch);
  keys(source, 3);
  const SavableDataLoaderState state = source.save_state_rank();
  const auto refused = [&](const IndexedOptions& other) {
    IndexedSource fresh(other, numbered_batch);
    const SavableDataLoaderState start = fresh.save_state_rank();
    try {
      fresh.restore_state_rank(state);
    } catch (const energon::Error& error) {
      CHECK(error.code() == energon::ErrorCode::kMismatch);
      CHECK(fresh.save_state_rank() == start);
      return std::string(error.what());
    }
    return std::string("taken");
  };
  IndexedOptions other = options;
  other.process = 0;  // a state of another rank is accepted
  CHECK(refused(other) == "taken");
  other.processes = 4;
  other.batch_size = 2;
  other.shuffle_seed = 8;
  CHECK_THAT(refused(other), Catch::Contains("processes: 2, expected 4") &&
                                 Catch::Contains("batch_size: 4, expected 2") &&
                                 Catch::Contains("shuffle_seed: 7, expected 8"));
  const auto changed = [&](const std::function<void(IndexedOptions&)>& change) {
    IndexedOptions with = options;
    change(with);
    return refused(with);
  };
  CHECK_THAT(changed([](auto& with) { with.samples = 41; }), Catch::Contains("samples: 40"));
  CHECK_THAT(changed([](auto& with) { with.drop_last = true; }), Catch::Contains("drop_last"));
  CHECK_THAT(changed([](auto& with) { with.even_batches = false; }),
             Catch::Contains("even_batches"));
  CHECK_THAT(changed([](auto& with) { with.split_batches = true; }),
             Catch::Contains("split_batches"));
  CHECK_THAT(changed([](auto& with) { with.shuffle_seed.reset(); }),
             Catch::Contains("shuffle_seed"));
  SavableDataLoaderState without = state;
  without.checkpoints[0].state->fields.pop_back();
  CHECK_THAT(error_of([&] { IndexedSource(options, numbered_batch).restore_state_rank(without); },
                      ErrorCode::kMismatch),
             Catch::Contains("field 'settings' is missing"));
}

TEST_CASE("all ranks get the seed of rank 0", "[distributed][fork]") {
  const auto reports = run_group(3, [](Comm& comm) {
    return std::to_string(energon::shared_seed(comm, 40U + static_cast<unsigned>(comm.rank())));
  });
  CHECK(texts(reports) == std::vector<std::string>(3, "40"));
}
