// The positions of adapters in a state: in files, as JSON, in a flat map, and merged with those of
// other ranks.

#include <memory>
#include <optional>
#include <span>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_forms.h"
#include "energon/distributed/rank_agreement.h"
#include "io/error.h"
#include "protocols/accelerate/shard_adapter.h"
#include "protocols/accelerate/skip_first.h"
#include "protocols/indexed_source.h"
#include "protocols/torchdata/stateless_source.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/accelerate/adapter_fixture.h"
#include "tests/support/error_of.h"

using energon::Comm;
using energon::ErrorCode;
using energon::SavableDataLoaderState;
using energon::ShardAdapter;
using energon::SingleProcessComm;
using energon::testing::CommonEnd;
using energon::testing::error_of;
using energon::testing::keys;
using energon::testing::run_group;
using energon::testing::UnevenLoaders;

TEST_CASE("a state with adapters survives a file, JSON and a flat map", "[protocols]") {
  const UnevenLoaders loaders;
  SingleProcessComm comm;
  const auto adapter = energon::skip_first_batches(loaders.ending(comm, CommonEnd::kRepeat), 2);
  keys(*adapter, 3);
  const SavableDataLoaderState state = adapter->save_state_rank();
  REQUIRE(state.adapters.size() == 2);
  const std::string bytes = encode_loader_state(state);
  CHECK(energon::decode_loader_state(bytes) == state);
  CHECK(energon::loader_state_from_json(loader_state_to_json(state), "state") == state);
  CHECK(energon::unflatten_state(energon::flatten_state(state), 0) == state);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK_THROWS_AS(energon::decode_loader_state(bytes.substr(0, size)), energon::Error);
  }
  SavableDataLoaderState impossible = state;
  for (const std::int64_t batches : {std::int64_t{1} << 60, std::int64_t{-1}}) {
    CAPTURE(batches);
    impossible.adapters[1].fields[1].second = batches;
    CHECK_THAT(error_of([&] { energon::decode_loader_state(encode_loader_state(impossible)); },
                        ErrorCode::kCorruptData),
               Catch::Contains("state.adapters[1].batches"));
    CHECK_THAT(error_of([&] { energon::from_tree(energon::to_tree(impossible)); },
                        ErrorCode::kCorruptData),
               Catch::Contains("state.adapters[1].batches"));
  }
  CHECK(energon::from_tree(energon::to_tree(state)) == state);

  SavableDataLoaderState bare = state;
  bare.adapters.clear();
  CHECK_THAT(
      error_of([&] { loaders.loader(0, 1)->restore_state_rank(state); }, ErrorCode::kMismatch),
      Catch::Contains("SkipFirst over Shard over Loader"));
  CHECK_THAT(error_of([&] { loaders.ending(comm, CommonEnd::kRepeat)->restore_state_rank(bare); },
                      ErrorCode::kMismatch),
             Catch::Contains("it belongs to a Loader"));
  CHECK_THAT(error_of([&] { loaders.ending(comm, CommonEnd::kRepeat)->restore_state_rank(state); },
                      ErrorCode::kMismatch),
             Catch::Contains("it belongs to a SkipFirst over Shard over Loader"));
}

TEST_CASE("the batches left are counted exactly, also after a restore with another batch size",
          "[protocols]") {
  const UnevenLoaders loaders;
  for (const std::int64_t batch_size : {2, 3, 5}) {
    for (const std::size_t before : {0, 1, 7, 30}) {
      const auto first = loaders.loader(0, 1, 4);
      keys(*first, before);
      const auto second = loaders.loader(0, 1, batch_size);
      second->restore_state_rank(first->save_state_rank());
      CAPTURE(batch_size, before);
      keys(*second, 2);
      const auto third = loaders.loader(0, 1, batch_size);
      third->restore_state_rank(second->save_state_rank());
      const std::int64_t left = third->batches_left().value();
      CHECK(second->batches_left() == left);
      CHECK(std::ssize(keys(*third)) == left);
      CHECK(third->batches_left() == third->size());
      CHECK(third->epoch() == 1);
    }
  }
}

TEST_CASE("adapters over adapters count the batches left", "[protocols]") {
  const UnevenLoaders loaders;
  SingleProcessComm comm;
  const auto inner = std::make_shared<ShardAdapter>(loaders.loader(0, 1));
  keys(*inner, 5);
  inner->end_of_dataloader();  // draws one ahead
  CHECK(inner->batches_left() == inner->size().value() - 5);
  {
    ShardAdapter at_end(loaders.loader(0, 1));
    keys(at_end, static_cast<std::size_t>(at_end.size().value()));
    CHECK(at_end.end_of_dataloader());  // the loader is in the next epoch
    CHECK(at_end.batches_left() == 0);
  }
  ShardAdapter outer(inner, {.even_batches = true, .comm = &comm});
  const auto skipping = energon::skip_first_batches(inner, 2);
  CHECK(skipping->batches_left() == inner->size().value() - 7);
  CHECK(std::ssize(keys(outer)) == inner->size().value() - 5);
}

TEST_CASE("sources with their own position are merged, compared and saved rank by rank",
          "[protocols][fork]") {
  const auto stateless = [](int rank) {
    return energon::StatelessSource(
        [] {
          return [left = 9]() mutable {
            return left-- > 0 ? std::optional<energon::Sample>(energon::Sample()) : std::nullopt;
          };
        },
        rank, 2);
  };
  auto first = stateless(0);
  auto second = stateless(1);
  first.next();
  second.next();
  CHECK(energon::merge_states({second.save_state_rank(), first.save_state_rank()}).ranks.size() ==
        2);
  second.next();
  CHECK_THAT(error_of(
                 [&] {
                   energon::merge_states({second.save_state_rank(), first.save_state_rank()});
                 },
                 ErrorCode::kMismatch),
             Catch::Contains("different steps of epoch 0"));

  const auto reports = run_group(2, [](Comm& comm) -> std::string {
    energon::IndexedSource source(
        {.samples = 8, .batch_size = comm.rank() + 1, .processes = 2, .process = comm.rank()},
        [](std::span<const std::int64_t>) { return energon::Sample(); });
    try {
      check_ranks_agree(source, comm);
      return "agree";
    } catch (const energon::Error& error) {
      return error.what();
    }
  });
  for (const auto& report : reports) {
    CAPTURE(report.text);
    CHECK_THAT(report.text, Catch::Contains("batch_size: 2, expected 1"));
  }
}
