// The acceptance tests SDL-01 … SDL-14 of the stateful loader. SDL-03 is in
// stateless_source_test.cpp.

#include "energon/protocols/stateful_data_loader.h"

#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <stdexcept>

#include <catch2/catch.hpp>

#include "energon/checkpoint/own_position.h"
#include "energon/compat/skip_first.h"
#include "energon/compat/stateless_source.h"
#include "energon/distributed/dispatch_adapter.h"
#include "energon/distributed/shard_adapter.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/order/rng.h"
#include "io/error.h"
#include "tests/energon/compat/growing_dataset.h"
#include "tests/energon/protocols/stateful_fixture.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/recipe/pipeline.h"

using energon::BatchSource;
using energon::Error;
using energon::ErrorCode;
using energon::PipelineContext;
using energon::PipelineFactory;
using energon::Sample;
using energon::State;
using energon::StatefulDataLoader;
using energon::StatefulOptions;
using energon::testing::after;
using energon::testing::Batches;
using energon::testing::Dict;
using energon::testing::failure_of;
using energon::testing::GrowingDataset;
using energon::testing::indexed;
using energon::testing::make;
using energon::testing::pass;
using energon::testing::resume;
using energon::testing::SharedCounters;
using energon::testing::take;
using energon::testing::through_text;
using energon::testing::uneven_workers;
using energon::testing::worker_pids;

namespace {

const Dict& worker_states(const Dict& dict) {
  return dict.at("source").at("loader").at("worker_states");
}

// A sampler with a state of its own: thirty random numbers an epoch, from one generator.
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
    return energon::own_state(
        {"Random", {{"rng", rng_.save()}, {"drawn", drawn_}, {"epoch", epoch_}}, {}},
        {epoch_, drawn_});
  }
  void restore_state_rank(const energon::SavableDataLoaderState& state) override {
    const State& position = own_position_in(state, "Random");
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

TEST_CASE("SDL-01 workers with 0, 100 and 37 samples go on identically", "[protocols][sdl][fork]") {
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

TEST_CASE("SDL-02 map style data goes on identically, whatever the sampler", "[protocols][sdl]") {
  const std::array<std::function<std::shared_ptr<BatchSource>()>, 3> sources = {
      [] { return indexed(std::nullopt); }, [] { return indexed(42); },
      [] { return std::make_shared<RandomNumbers>(); }};
  for (const auto& source : sources) {
    StatefulDataLoader uninterrupted(source());
    const Batches first = pass(uninterrupted);
    const Batches second = pass(uninterrupted);
    for (std::size_t interrupt = 0; interrupt <= first.size(); ++interrupt) {
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

TEST_CASE("SDL-04 from the state at step 0 the epoch follows, from that of the end the next",
          "[protocols][sdl][fork]") {
  for (const int workers : {0, 3}) {
    const auto loader = make(uneven_workers(), workers);
    const Dict start = loader->state_dict();
    loader->iterate();
    CHECK(loader->state_dict() == start);
    const Batches first = take(*loader);
    const Dict end = loader->state_dict();
    const Batches second = pass(*loader);
    const auto other = make(uneven_workers(), workers);
    for (StatefulDataLoader* restarted : {loader.get(), other.get()}) {
      resume(*restarted, end);
      CHECK(take(*restarted) == second);
      resume(*restarted, start);
      CHECK(take(*restarted) == first);
      CHECK(pass(*restarted) == second);
    }
  }
}

TEST_CASE(
    "SDL-05 a second save equals that of the uninterrupted loader, however rare snapshots are",
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
        CHECK(again == uninterrupted->state_dict());
        const auto second = make(uneven_workers(), workers, options);
        resume(*second, again);
        CHECK(second->state_dict() == again);
        CHECK(take(*second) == take(*uninterrupted));
        CHECK(second->state_dict() == uninterrupted->state_dict());
        second->iterate();
        uninterrupted->iterate();
        CHECK(take(*second, interrupt) == take(*uninterrupted, interrupt));
        CHECK(second->state_dict() == uninterrupted->state_dict());
      }
    }
  }
}

TEST_CASE("what follows a snapshot is passed over, not made, and never reaches over an epoch",
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
  for (const Dict& worker : worker_states(dict)) {
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

TEST_CASE("SDL-06 a state before the first pass, and that of a loader that was only loaded",
          "[protocols][sdl][fork]") {
  for (const int workers : {0, 3}) {
    const auto loader = make(uneven_workers(7), workers);
    const Dict before = loader->state_dict();
    CHECK(worker_states(before).size() == static_cast<std::size_t>(std::max(1, workers)));
    CHECK(worker_pids(*loader).empty());
    loader->iterate();
    CHECK(loader->state_dict() == before);
    take(*loader, 5);
    const Dict dict = loader->state_dict();
    const auto other = make(uneven_workers(7), workers);
    other->load_state_dict(dict);
    CHECK(other->state_dict() == dict);
    other->iterate();
    CHECK(other->state_dict() == dict);
    CHECK(take(*other) == take(*loader));
  }
}

TEST_CASE("SDL-07 a state of another number of workers is an error at iterate()",
          "[protocols][sdl][fork]") {
  for (const auto& [from, to] : {std::pair{0, 3}, {3, 0}, {3, 2}}) {
    const auto saved = make(uneven_workers(), from);
    saved->iterate();
    take(*saved, 4);
    const auto loader = make(uneven_workers(), to);
    loader->iterate();
    const Batches first = take(*loader, 3);
    const auto position = loader->source().save_state_rank();
    loader->load_state_dict(saved->state_dict());
    for (int attempt = 0; attempt < 2; ++attempt) {
      const auto [code, text] = failure_of([&] { loader->iterate(); });
      CHECK(code == ErrorCode::kMismatch);
      CHECK_THAT(text, Catch::Contains("num_workers: " + std::to_string(from) + ", expected " +
                                       std::to_string(to)));
      CHECK(failure_of([&] { loader->next(); }).first == ErrorCode::kInvalidArgument);
    }
    CHECK(loader->source().save_state_rank() == position);
    resume(*loader, {});
    CHECK(take(*loader, 3) == first);
  }
}

TEST_CASE("SDL-08 a state that grows is not changed later, and comes back with its own length",
          "[protocols][sdl][fork]") {
  const auto seen = [](const Dict& dict) {
    std::size_t sum = 0;
    for (const Dict& worker : worker_states(dict)) {
      CHECK(worker.at("offset") == 0);
      sum += worker.at("state").at("fields").at("seen").size();
    }
    return sum;
  };
  for (const int workers : {0, 2}) {
    const auto loader = make(uneven_workers(), workers);
    loader->iterate();
    take(*loader, 6);
    const Dict early = loader->state_dict();
    const std::string text = early.dump();
    take(*loader, 8);
    CHECK(early.dump() == text);
    CHECK(seen(early) == 6);
    CHECK(seen(loader->state_dict()) == 14);
    resume(*loader, early);
    CHECK(seen(loader->state_dict()) == 6);
    take(*loader, 3);
    CHECK(seen(loader->state_dict()) == 9);
    CHECK(early.dump() == text);
  }
}

TEST_CASE("SDL-09 a state is the same after it was text, and after what it came from is gone",
          "[protocols][sdl][fork]") {
  const auto shuffled = energon::train_pipeline(
      std::shared_ptr<const energon::LeafDataset>(std::make_shared<energon::testing::MemoryLeaf>(
          "", std::vector<std::int64_t>{30, 20, 50})),
      {.batch_size = 4, .shuffle_buffer_size = 10, .repeat = false});
  for (const int workers : {0, 2}) {
    const auto saved = make(shuffled, workers, {.snapshot_every_n_steps = 5});
    saved->iterate();
    take(*saved, 9);
    Dict dict = saved->state_dict();
    CHECK(through_text(dict) == dict);
    CHECK(through_text(dict).dump() == dict.dump());
    const Batches rest = take(*saved);
    const auto loader = make(shuffled, workers);
    loader->load_state_dict(through_text(dict));
    dict = nullptr;
    loader->iterate();
    CHECK(take(*loader) == rest);
  }
}

TEST_CASE("SDL-10 an error of a worker's start and of a pipeline arrive as they were",
          "[protocols][sdl][fork]") {
  const auto broken_start = [parent = ::getpid()](const PipelineContext& context) {
    if (::getpid() != parent && context.stream == 1) {
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
    for (const bool foreign : {false, true}) {
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
      loader->iterate();  // the epoch again
      CHECK(take(*loader, 3).size() == 3);
    }
  }
}

TEST_CASE("SDL-11 after the last batch only the end follows, after the end a full epoch",
          "[protocols][sdl][fork]") {
  for (const int workers : {0, 3}) {
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

TEST_CASE("SDL-12 two epochs, a load and two epochs are four", "[protocols][sdl][fork]") {
  const auto shuffled = energon::train_pipeline(
      std::shared_ptr<const energon::LeafDataset>(std::make_shared<energon::testing::MemoryLeaf>(
          "", std::vector<std::int64_t>{30, 20, 50})),
      {.batch_size = 4, .shuffle_buffer_size = 10, .repeat = false});
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

TEST_CASE("SDL-13 each worker makes its pipeline once, on a resume too", "[protocols][sdl][fork]") {
  const SharedCounters made;
  const auto counted = [&, parent = ::getpid()](const PipelineContext& context) {
    if (::getpid() != parent) {
      ++made.at(static_cast<std::size_t>(context.stream));
    }
    return std::make_unique<GrowingDataset>(std::to_string(context.stream), 20);
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
    const auto loader = make(uneven_workers(), workers);
    const Dict start = loader->state_dict();
    const Batches first = pass(*loader);
    loader->iterate();
    take(*loader, 10);
    for (const Dict& empty : {Dict::object(), Dict(nullptr)}) {
      loader->load_state_dict(empty);
      CHECK(loader->state_dict() == start);
      CHECK(pass(*loader) == first);
    }
  }
}

TEST_CASE("a pass that is begun while one is under way is the same epoch again, after a load too",
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
    const auto loader = make(uneven_workers(), 2, {.persistent_workers = persistent});
    loader->iterate();
    take(*loader, 1);
    const std::vector<int> pids = worker_pids(*loader);
    CHECK(pids.size() == 2);
    take(*loader);
    CHECK(worker_pids(*loader) == (persistent ? pids : std::vector<int>()));
  }
}

TEST_CASE("adapters can be the source, pass on what is asked of it, and show its position",
          "[protocols][fork]") {
  energon::SingleProcessComm comm;
  using Wrap = std::function<std::shared_ptr<BatchSource>(std::shared_ptr<BatchSource>)>;
  const std::array<Wrap, 3> adapters = {
      [](auto source) { return std::make_shared<energon::ShardAdapter>(source); },
      [&](auto source) { return std::make_shared<energon::DispatchAdapter>(source, comm); },
      [](auto source) {
        return energon::skip_first_batches(std::make_shared<energon::ShardAdapter>(source), 2);
      }};
  for (const Wrap& adapter : adapters) {
    const auto make_loader = [] {
      return std::make_shared<energon::SavableDataLoader>(
          uneven_workers(),
          energon::LoaderOptions{.worker_config = {.num_workers = 2}, .prefetch_factor = 1});
    };
    const auto inner = make_loader();
    StatefulDataLoader saved(adapter(inner));
    saved.iterate();
    take(saved, 9);
    const Dict dict = through_text(saved.state_dict());
    CHECK_THAT(dict.dump(), Catch::Contains(R"({"type":"Loader","loader":{"batch_index":)"));
    CHECK(inner->worker_pids().size() == 2);
    const Batches rest = take(saved);
    CHECK(inner->worker_pids().empty());

    StatefulDataLoader loader(adapter(make_loader()));
    resume(loader, dict);
    CHECK(loader.state_dict() == dict);
    CHECK(take(loader) == rest);
    CHECK(pass(loader) == pass(saved));

    const auto stateless = std::make_shared<energon::StatelessSource>(
        [] { return [] { return std::optional<Sample>(); }; });
    stateless->restore_state_rank(energon::own_state(
        {"Stateless", {{"epoch", std::int64_t{0}}, {"batches", std::int64_t{1}}}, {}}, {0, 1}));
    CHECK(StatefulDataLoader(adapter(stateless)).warnings() == stateless->warnings());
    CHECK(stateless->warnings().size() == 1);
  }
}
