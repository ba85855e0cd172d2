// SDL-04, SDL-11 and SDL-12: states at the beginning and the end of an epoch.

#include <functional>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "protocols/torchdata/stateful_data_loader.h"
#include "tests/protocols/torchdata/stateful_fixture.h"

using energon::StatefulDataLoader;
using energon::testing::Batches;
using energon::testing::Dict;
using energon::testing::indexed;
using energon::testing::make;
using energon::testing::pass;
using energon::testing::resume;
using energon::testing::shuffled_batches;
using energon::testing::take;
using energon::testing::uneven_workers;
using energon::testing::worker_pids;

TEST_CASE("SDL-04 the state at step 0 continues with the epoch, the state at the end with the next",
          "[protocols][sdl][fork]") {
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    const auto loader = make(uneven_workers(), workers);
    const Dict start = loader->state_dict();
    loader->iterate();
    CHECK(loader->state_dict() == start);
    const Batches first = take(*loader);
    const Dict end = loader->state_dict();
    const Batches second = pass(*loader);
    const auto other = make(uneven_workers(), workers);
    for (StatefulDataLoader* restarted : {loader.get(), other.get()}) {
      CAPTURE(restarted == loader.get());
      resume(*restarted, end);
      CHECK(take(*restarted) == second);
      resume(*restarted, start);
      CHECK(take(*restarted) == first);
      CHECK(pass(*restarted) == second);
    }
  }
}

TEST_CASE("SDL-11 after the last batch only the end follows, and after the end a full epoch",
          "[protocols][sdl][fork]") {
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    const auto saved = make(uneven_workers(7), workers);
    const Batches first = pass(*saved);
    const Dict after_loop = saved->state_dict();
    const Batches second = pass(*saved);
    const auto same = make(uneven_workers(7), workers);
    same->iterate();
    REQUIRE(take(*same, first.size()) == first);
    const Dict in_loop = same->state_dict();

    const auto loader = make(uneven_workers(7), workers);
    resume(*loader, in_loop);
    CHECK_FALSE(loader->next());
    CHECK_FALSE(loader->next());
    CHECK(pass(*loader) == second);
    resume(*loader, after_loop);
    CHECK(take(*loader) == second);
  }
}

TEST_CASE("SDL-12 two epochs, a load and two epochs equal four epochs", "[protocols][sdl][fork]") {
  const auto shuffled = shuffled_batches();
  const auto check = [](const std::function<std::unique_ptr<StatefulDataLoader>()>& fresh) {
    const auto uninterrupted = fresh();
    std::vector<Batches> reference(4);
    for (Batches& epoch : reference) {
      epoch = pass(*uninterrupted);
    }
    REQUIRE(reference[0] != reference[1]);
    const auto saved = fresh();
    pass(*saved);
    pass(*saved);
    const auto loader = fresh();
    loader->load_state_dict(saved->state_dict());
    CHECK(pass(*loader) == reference[2]);
    CHECK(pass(*loader) == reference[3]);
  };
  check([] { return std::make_unique<StatefulDataLoader>(indexed(42)); });
  for (const int workers : {0, 2}) {
    for (const bool persistent : {false, true}) {
      check([&] { return make(shuffled, workers, {.persistent_workers = persistent}); });
    }
  }
}

TEST_CASE("starting a pass during another repeats the same epoch, also after a load",
          "[protocols][fork]") {
  const auto check = [](const std::function<std::unique_ptr<StatefulDataLoader>()>& fresh) {
    const auto loader = fresh();
    const Batches first = pass(*loader);
    loader->iterate();
    take(*loader, 3);
    const Dict dict = loader->state_dict();
    const Batches second = pass(*loader);
    CHECK(second != first);
    const auto resumed = fresh();
    resume(*resumed, dict);
    CHECK(pass(*resumed) == second);
    resume(*resumed, dict);
    take(*resumed, 2);
    CHECK(pass(*resumed) == second);
  };
  check([] { return std::make_unique<StatefulDataLoader>(indexed(42)); });
  for (const int workers : {0, 3}) {
    check([&] { return make(uneven_workers(), workers, {.snapshot_every_n_steps = 17}); });
  }
}

TEST_CASE("workers end with each epoch unless they are persistent", "[protocols][fork]") {
  for (const bool persistent : {false, true}) {
    CAPTURE(persistent);
    const auto loader = make(uneven_workers(), 2, {.persistent_workers = persistent});
    loader->iterate();
    take(*loader, 1);
    const std::vector<int> pids = worker_pids(*loader);
    CHECK(pids.size() == 2);
    take(*loader);
    CHECK(worker_pids(*loader) == (persistent ? pids : std::vector<int>()));
  }
}
