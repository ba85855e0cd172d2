// SDL-01, SDL-02, SDL-05, SDL-13 and SDL-14: stateful loaders that were interrupted continue
// identically. SDL-03 is in stateless_source_test.cpp, SDL-10 in stateful_errors_test.cpp.

#include "protocols/torchdata/stateful_data_loader.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <catch2/catch.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/order/rng.h"
#include "tests/protocols/torchdata/growing_dataset.h"
#include "tests/protocols/torchdata/stateful_fixture.h"

using energon::BatchSource;
using energon::PipelineContext;
using energon::PipelineFactory;
using energon::Sample;
using energon::State;
using energon::StatefulDataLoader;
using energon::StatefulOptions;
using energon::testing::after;
using energon::testing::Batches;
using energon::testing::checkpoints;
using energon::testing::Dict;
using energon::testing::GrowingDataset;
using energon::testing::indexed;
using energon::testing::make;
using energon::testing::pass;
using energon::testing::resume;
using energon::testing::SharedCounters;
using energon::testing::take;
using energon::testing::through_text;
using energon::testing::uneven_workers;

namespace {

// A sampler with its own state: thirty random numbers per epoch, from one generator.
class RandomNumbers final : public BatchSource {
 public:
  std::optional<Sample> next() override {
    if (drawn_ == 30) {
      drawn_ = 0;
      ++epoch_;
      return std::nullopt;
    }
    ++drawn_;
    Sample batch;
    batch.keys = {std::to_string(rng_.randbelow(1000))};
    return batch;
  }
  energon::SavableDataLoaderState save_state_rank() override {
    return energon::source_state(
        {"Random", {{"rng", rng_.save()}, {"drawn", drawn_}, {"epoch", epoch_}}, {}},
        {epoch_, drawn_});
  }
  void restore_state_rank(const energon::SavableDataLoaderState& state) override {
    const State& position = source_position_in(state, "Random");
    rng_.restore(position.bytes("rng"));
    drawn_ = position.integer("drawn");
    epoch_ = position.integer("epoch");
  }
  std::optional<std::int64_t> size() const override { return 30; }
  std::int64_t epoch() const override { return epoch_; }

 private:
  energon::WorkerRng rng_{7};
  std::int64_t drawn_ = 0;
  std::int64_t epoch_ = 0;
};

}  // namespace

TEST_CASE("SDL-01 workers with 0, 100 and 37 samples continue identically",
          "[protocols][sdl][fork]") {
  for (const int workers : {0, 3}) {
    for (const auto batch_size : {std::optional<std::int64_t>(), std::optional<std::int64_t>(7)}) {
      const PipelineFactory pipeline = uneven_workers(batch_size);
      const auto uninterrupted = make(pipeline, workers);
      const Batches first = pass(*uninterrupted);
      const Batches second = pass(*uninterrupted);
      REQUIRE(first.size() == (!batch_size ? 137U : workers == 0 ? 20U : 21U));
      REQUIRE(second.size() == first.size());
      REQUIRE(second != first);
      for (const std::int64_t every : {1, 2, 5}) {
        for (const bool persistent : {true, false}) {
          const StatefulOptions options{.snapshot_every_n_steps = every,
                                        .persistent_workers = persistent};
          for (const std::size_t interrupt : {0, 1, 10}) {
            INFO(workers << " workers, batch " << batch_size.value_or(0) << ", snapshot every "
                         << every << ", persistent " << persistent << ", interrupted at "
                         << interrupt);
            const auto saved = make(pipeline, workers, options);
            saved->iterate();
            take(*saved, interrupt);
            const auto loader = make(pipeline, workers, options);
            resume(*loader, saved->state_dict());
            CHECK(take(*loader) == after(first, interrupt));
            CHECK(pass(*loader) == second);
          }
        }
      }
    }
  }
}

TEST_CASE("SDL-02 map-style data continues identically, whatever the sampler", "[protocols][sdl]") {
  const std::array<std::function<std::shared_ptr<BatchSource>()>, 3> sources = {
      [] { return indexed(std::nullopt); }, [] { return indexed(42); },
      [] { return std::make_shared<RandomNumbers>(); }};
  for (const auto& source : sources) {
    CAPTURE(&source - sources.data());
    StatefulDataLoader uninterrupted(source());
    const Batches first = pass(uninterrupted);
    const Batches second = pass(uninterrupted);
    for (std::size_t interrupt = 0; interrupt <= first.size(); ++interrupt) {
      CAPTURE(interrupt);
      StatefulDataLoader saved(source());
      saved.iterate();
      take(saved, interrupt);
      StatefulDataLoader loader(source());
      resume(loader, through_text(saved.state_dict()));
      CHECK(take(loader) == after(first, interrupt));
      CHECK(pass(loader) == second);
    }
  }
}

// The place of a state, without its snapshot, because a loader that replayed batches keeps a newer
// snapshot than one that was not interrupted.
Dict place_of(Dict state) {
  if (state.is_object() && state.contains("offset")) {
    state["delivered"] =
        state.at("index").get<std::int64_t>() + state.at("offset").get<std::int64_t>();
    for (const char* name : {"index", "offset", "epoch", "state"}) {
      state.erase(name);
    }
  }
  if (state.is_structured()) {
    for (Dict& member : state) {
      member = place_of(std::move(member));
    }
  }
  return state;
}

TEST_CASE(
    "SDL-05 a second save is at the place of the uninterrupted loader, with any snapshot interval",
    "[protocols][sdl][fork]") {
  for (const int workers : {0, 3}) {
    for (const std::int64_t every : {0, 1, 17}) {
      for (const std::size_t interrupt : {11, 19}) {
        INFO(workers << " workers, snapshot every " << every << ", interrupted at " << interrupt);
        const StatefulOptions options{.snapshot_every_n_steps = every};
        const auto uninterrupted = make(uneven_workers(), workers, options);
        uninterrupted->iterate();
        take(*uninterrupted, interrupt);
        const auto first = make(uneven_workers(), workers, options);
        resume(*first, uninterrupted->state_dict());
        CHECK(take(*first, 2) == take(*uninterrupted, 2));
        const Dict again = first->state_dict();
        CHECK(place_of(again) == place_of(uninterrupted->state_dict()));
        const auto second = make(uneven_workers(), workers, options);
        resume(*second, again);
        CHECK(place_of(second->state_dict()) == place_of(again));
        CHECK(take(*second) == take(*uninterrupted));
        CHECK(place_of(second->state_dict()) == place_of(uninterrupted->state_dict()));
        second->iterate();
        uninterrupted->iterate();
        CHECK(take(*second, interrupt) == take(*uninterrupted, interrupt));
        CHECK(place_of(second->state_dict()) == place_of(uninterrupted->state_dict()));
      }
    }
  }
}

TEST_CASE("batches after a snapshot are skipped, not made, and never cross an epoch",
          "[protocols][sdl][fork]") {
  const SharedCounters made;
  const auto pipeline = [&](const PipelineContext& context) {
    return std::make_unique<GrowingDataset>(std::to_string(context.logical_shard()), 20,
                                            [&](std::int64_t /*item*/) { ++made.at(0); });
  };
  const StatefulOptions never{.snapshot_every_n_steps = 0};
  const auto saved = make(pipeline, 2, never);
  const Batches first = pass(*saved);
  pass(*saved);
  saved->iterate();
  take(*saved, 30);
  const Dict dict = saved->state_dict();
  for (const Dict& worker : checkpoints(dict)) {
    CAPTURE(worker);
    CHECK(worker.at("index") == 41);
    CHECK(worker.at("offset") == 14);
  }
  const Batches rest = take(*saved);
  made.at(0) = 0;
  const auto loader = make(pipeline, 2, never);
  resume(*loader, dict);
  CHECK(take(*loader) == rest);
  CHECK(made.at(0) == 10);
}

TEST_CASE("SDL-13 each worker makes its pipeline once, also on a resume",
          "[protocols][sdl][fork]") {
  const SharedCounters made;
  const auto counted = [&, parent = ::getpid()](const PipelineContext& context) {
    if (::getpid() != parent) {
      ++made.at(static_cast<std::size_t>(context.local_index));
    }
    return std::make_unique<GrowingDataset>(std::to_string(context.local_index), 20);
  };
  const auto counts_are = [&](std::int64_t count) {
    return made.at(0) == count && made.at(1) == count && made.at(2) == count;
  };
  const auto loader = make(counted, 3);
  loader->state_dict();
  loader->iterate();
  loader->state_dict();
  loader->iterate();
  CHECK(counts_are(0));
  take(*loader, 10);
  const Dict dict = loader->state_dict();
  CHECK(counts_are(1));
  const auto resumed = make(counted, 3, {.persistent_workers = true});
  resumed->load_state_dict(dict);
  CHECK(resumed->state_dict() == dict);
  resumed->iterate();
  take(*resumed);
  CHECK(counts_are(2));
  pass(*resumed);
  CHECK(counts_are(2));
}

TEST_CASE("SDL-14 an empty state is a fresh start", "[protocols][sdl][fork]") {
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    const auto loader = make(uneven_workers(), workers);
    const Dict start = loader->state_dict();
    const Batches first = pass(*loader);
    loader->iterate();
    take(*loader, 10);
    for (const Dict& empty : {Dict::object(), Dict(nullptr)}) {
      CAPTURE(empty);
      loader->load_state_dict(empty);
      CHECK(loader->state_dict() == start);
      CHECK(pass(*loader) == first);
    }
  }
}
