// SDL-06 … SDL-09: states, regardless of earlier and later events of their loader; adapters as
// sources.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "protocols/accelerate/dispatch_adapter.h"
#include "protocols/accelerate/shard_adapter.h"
#include "protocols/accelerate/skip_first.h"
#include "protocols/torchdata/stateful_data_loader.h"
#include "protocols/torchdata/stateless_source.h"
#include "tests/protocols/torchdata/stateful_fixture.h"

using energon::BatchSource;
using energon::ErrorCode;
using energon::Sample;
using energon::StatefulDataLoader;
using energon::testing::Batches;
using energon::testing::checkpoints;
using energon::testing::Dict;
using energon::testing::failure_of;
using energon::testing::make;
using energon::testing::pass;
using energon::testing::resume;
using energon::testing::shuffled_batches;
using energon::testing::take;
using energon::testing::through_text;
using energon::testing::uneven_workers;
using energon::testing::worker_pids;

TEST_CASE("SDL-06 a state before the first pass, and right after a load",
          "[protocols][sdl][fork]") {
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    const auto loader = make(uneven_workers(7), workers);
    const Dict before = loader->state_dict();
    CHECK(checkpoints(before).size() == static_cast<std::size_t>(std::max(1, workers)));
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

TEST_CASE("SDL-07 a state for another number of workers is an error at iterate()",
          "[protocols][sdl][fork]") {
  for (const auto& [from, to] : {std::pair{0, 3}, {3, 0}, {3, 2}}) {
    CAPTURE(from, to);
    const auto saved = make(uneven_workers(), from);
    saved->iterate();
    take(*saved, 4);
    const auto loader = make(uneven_workers(), to);
    loader->iterate();
    const Batches first = take(*loader, 3);
    const auto position = loader->source().save_state_rank();
    loader->load_state_dict(saved->state_dict());
    for (int attempt = 0; attempt < 2; ++attempt) {
      CAPTURE(attempt);
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

TEST_CASE("SDL-08 a state that grows is not changed later, and is restored with its own length",
          "[protocols][sdl][fork]") {
  const auto seen = [](const Dict& dict) {
    std::size_t sum = 0;
    for (const Dict& worker : checkpoints(dict)) {
      CAPTURE(worker);
      CHECK(worker.at("offset") == 0);
      sum += worker.at("state").at("fields").at("seen").size();
    }
    return sum;
  };
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
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

TEST_CASE("SDL-09 a state survives text and the end of its loader", "[protocols][sdl][fork]") {
  const auto shuffled = shuffled_batches();
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
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

TEST_CASE("adapters can be the source, forward queries to it, and show its position",
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
    CAPTURE(&adapter - adapters.data());
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
    stateless->restore_state_rank(energon::source_state(
        {"Stateless", {{"epoch", std::int64_t{0}}, {"batches", std::int64_t{1}}}, {}}, {0, 1}));
    CHECK(StatefulDataLoader(adapter(stateless)).warnings() == stateless->warnings());
    CHECK(stateless->warnings().size() == 1);
  }
}
