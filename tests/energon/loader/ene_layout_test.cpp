// The acceptance tests of the savable loader about allowed and refused differences between save and
// restore: options, layouts, micro batches, datasets.

#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/job_state.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"

using energon::Error;
using energon::LoaderOptions;
using energon::SavableDataLoader;
using energon::TrainOptions;
using energon::testing::LoaderFixture;
using energon::testing::never_checkpoint;
using energon::testing::take;

TEST_CASE("ENE-07 fewer checkpoints than batches in flight are refused", "[loader][ene][fork]") {
  const LoaderFixture fixture({});
  CHECK_THROWS_WITH(fixture.loader(2, {.prefetch_factor = 4, .n_checkpoints = 4}),
                    Catch::Contains("n_checkpoints is 4") && Catch::Contains("at least 5"));
  CHECK_NOTHROW(fixture.loader(2, {.prefetch_factor = 4, .n_checkpoints = 5}));
}

TEST_CASE("ENE-12 mismatched states are refused with both numbers, and nothing is applied",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  const auto expected = take(*fixture.loader(2), 9);
  const auto two = fixture.loader(2);
  take(*two, 3);
  const auto state = two->save_state_rank();
  CHECK_THROWS_WITH(two->restore_state_rank(state),
                    Catch::Contains("2 workers") && Catch::Contains("stop()"));
  CHECK(take(*two, 6) == energon::testing::tail(expected, 3, 6));

  // A loader that refused `other` delivers the same batches as without it.
  const auto refuse = [&](int workers, const LoaderOptions& options,
                          const energon::SavableDataLoaderState& other,
                          const std::vector<std::string>& parts) {
    const auto fresh = take(*fixture.loader(workers, options), 6);
    const auto loader = fixture.loader(workers, options);
    const auto before = loader->save_state_rank();
    try {
      loader->restore_state_rank(other);
      FAIL("restored");
    } catch (const Error& error) {
      for (const std::string& part : parts) {
        CAPTURE(part);
        CHECK_THAT(error.what(), Catch::Contains(part));
      }
    }
    CHECK(loader->save_state_rank() == before);
    CHECK(take(*loader, 6) == fresh);
  };
  refuse(3, {}, state,
         {"num_workers: 2, expected 3",
          "checkpoints: 2 (of logical shards 0, 1), expected 3 (0, 1, 2)"});
  const auto of_rank = [](int rank) {
    return LoaderOptions{.worker_config = {.rank = rank, .world_size = 2}};
  };
  refuse(2, of_rank(0), state, {"world_size: 1, expected 2"});
  std::vector<energon::SavableDataLoaderState> ranks;
  for (const int rank : {0, 1}) {
    const auto loader = fixture.loader(2, of_rank(rank));
    take(*loader, 2);
    ranks.push_back(loader->save_state_rank());
  }
  refuse(2, of_rank(1), ranks[0], {"rank: 0, expected 1"});
  // Two ranks into one; and rank 0 finds its old file alone after the job shrank.
  const energon::SavableJobState job = energon::merge_states(ranks);
  refuse(2, {}, energon::state_of_rank(job, 0), {"world_size: 2, expected 1"});
  CHECK_THROWS_WITH(energon::state_of_rank(job, 2),
                    Catch::Contains("job of 2 ranks") && Catch::Contains("no rank 2"));
  CHECK_THROWS_WITH(energon::merge_states({ranks[0]}), Catch::Contains("1 of 2 ranks are missing"));
  const std::string file = fixture.folder().file("rank0.state");
  energon::write_loader_state(file, ranks[0]);
  refuse(2, {}, energon::read_loader_state(file), {"world_size: 2, expected 1"});
}

TEST_CASE("ENE-12 a state of another dataset is refused, and the differing shards are named",
          "[loader][ene]") {
  const LoaderFixture fixture({});
  const LoaderFixture other({}, {2, 2, 3, 4, 10, 10, 10, 10, 5});
  const auto loader = fixture.loader(0);
  CHECK_THROWS_WITH(
      loader->restore_state_rank(other.loader(0)->save_state_rank()),
      Catch::Contains("shard-008.tar: 5 samples") && Catch::Contains("samples: 56, expected 55"));
}

TEST_CASE("ENE-13 a smaller micro batch that divides the old one continues the same samples",
          "[loader][ene][fork]") {
  const auto with_batch = [](std::optional<std::int64_t> size) {
    return TrainOptions{.batch_size = size};
  };
  const LoaderFixture fixture(with_batch(4), {40});
  const auto numbers_of = [](SavableDataLoader& loader, std::size_t batches) {
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < batches; ++i) {
      const auto more = energon::testing::numbers(*loader.next());
      result.insert(result.end(), more.begin(), more.end());
    }
    return result;
  };
  // The samples of each worker in order, because workers have twice as many turns with half the
  // batch size.
  const auto by_worker = [&](SavableDataLoader& loader, std::size_t batches, std::size_t first) {
    std::vector<std::vector<std::int64_t>> result(2);
    for (std::size_t i = 0; i < batches; ++i) {
      auto& worker = result[(first + i) % 2];
      const auto more = energon::testing::numbers(*loader.next());
      worker.insert(worker.end(), more.begin(), more.end());
    }
    return result;
  };
  const auto smaller = [&](std::int64_t size, int workers) {
    return std::make_unique<SavableDataLoader>(
        energon::train_pipeline(fixture.dataset(), with_batch(size)),
        LoaderOptions{.worker_config = {.num_workers = workers}});
  };
  for (std::size_t k = 0; k < 6; ++k) {
    CAPTURE(k);
    for (const bool sparse : {false, true}) {
      CAPTURE(sparse);
      const auto loader = fixture.loader(2, sparse ? never_checkpoint() : LoaderOptions{});
      numbers_of(*loader, k);
      const auto state = loader->save_state_rank();
      const auto copy = state;
      const auto expected = by_worker(*loader, 8, k);
      const auto halved = smaller(2, 2);
      halved->restore_state_rank(state);
      CHECK(by_worker(*halved, 16, k) == expected);
      CHECK(state == copy);
      const auto again = smaller(2, 2);
      again->restore_state_rank(state);
      CHECK(by_worker(*again, 16, k) == expected);
    }
  }
  const auto state = fixture.loader(2)->save_state_rank();
  CHECK_THROWS_WITH(smaller(3, 2)->restore_state_rank(state),
                    Catch::Contains("micro batch size: 4, expected 3"));
  CHECK_THROWS_WITH(smaller(8, 2)->restore_state_rank(state),
                    Catch::Contains("may only become smaller"));
  CHECK_THROWS_WITH(smaller(2, 0)->restore_state_rank(fixture.loader(0)->save_state_rank()),
                    Catch::Contains("without workers, it must be equal"));
  const LoaderFixture single(with_batch(std::nullopt), {40});
  CHECK_THROWS_AS(single.loader(2)->restore_state_rank(state), Error);
}

TEST_CASE("ENE-13 a smaller micro batch continues over smaller last batches and ends of epochs",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 3, .repeat = false}, {20});
  // The samples that each worker delivers, with -1 for ends of epochs in both.
  const auto streams = [](SavableDataLoader& loader, std::int64_t epochs) {
    std::vector<std::vector<std::int64_t>> result(2);
    while (epochs > 0) {
      if (const auto batch = loader.next()) {
        const auto worker =
            energon::split_key(batch->restore_key, energon::Stage::kLogicalShard, 2, 1).integers[0];
        const auto numbers = energon::testing::numbers(*batch);
        auto& stream = result[static_cast<std::size_t>(worker)];
        stream.insert(stream.end(), numbers.begin(), numbers.end());
      } else {
        --epochs;
        result[0].push_back(-1);
        result[1].push_back(-1);
      }
    }
    return result;
  };
  for (const bool sparse : {false, true}) {
    for (std::size_t k = 0; k <= 20; ++k) {
      INFO("saved after " << k << " steps");
      const auto loader = fixture.loader(2, sparse ? never_checkpoint() : LoaderOptions{});
      take(*loader, k);
      const auto state = loader->save_state_rank();
      const auto expected = streams(*loader, 2);
      SavableDataLoader single(
          energon::train_pipeline(fixture.dataset(), {.batch_size = 1, .repeat = false}),
          {.worker_config = {.num_workers = 2}});
      single.restore_state_rank(state);
      CHECK(streams(single, 2) == expected);
    }
  }
  const LoaderFixture virtual_epochs({.batch_size = 4, .virtual_epoch_length = 5});
  SavableDataLoader halved(energon::train_pipeline(virtual_epochs.dataset(),
                                                   {.batch_size = 2, .virtual_epoch_length = 5}),
                           {.worker_config = {.num_workers = 2}});
  CHECK_THROWS_WITH(halved.restore_state_rank(virtual_epochs.loader(2)->save_state_rank()),
                    Catch::Contains("virtual_epoch_length"));
}

TEST_CASE("ENE-16 layouts with the same global workers give the same global batches",
          "[loader][ene][fork]") {
  struct Layout {
    int world_size;
    int workers;
    std::int64_t micro_batch;
  };
  // Each step takes a global batch of 8 from the ranks in turn; the sets of samples of the steps
  // are compared.
  const energon::testing::TempDir folder;
  const auto dataset = energon::testing::numbered_dataset(folder, std::vector<std::int64_t>(8, 55));
  const auto global_batches = [&dataset](const Layout& layout) {
    std::vector<std::unique_ptr<SavableDataLoader>> ranks;
    for (int rank = 0; rank < layout.world_size; ++rank) {
      ranks.push_back(std::make_unique<SavableDataLoader>(
          energon::train_pipeline(dataset,
                                  {.batch_size = layout.micro_batch, .shuffle_buffer_size = 10}),
          LoaderOptions{.worker_config = {.rank = rank,
                                          .world_size = layout.world_size,
                                          .num_workers = layout.workers}}));
    }
    std::vector<std::set<std::int64_t>> steps;
    for (int step = 0; step < 30; ++step) {
      std::set<std::int64_t> samples;
      for (std::int64_t micro = 0; micro < 8 / (layout.micro_batch * layout.world_size); ++micro) {
        for (const auto& rank : ranks) {
          const auto numbers = energon::testing::numbers(*rank->next());
          samples.insert(numbers.begin(), numbers.end());
        }
      }
      steps.push_back(std::move(samples));
    }
    return steps;
  };
  const auto expected = global_batches({1, 4, 2});
  CHECK(expected.front().size() == 8);
  CHECK(global_batches({2, 2, 2}) == expected);
  CHECK(global_batches({4, 1, 2}) == expected);
  CHECK(global_batches({2, 2, 1}) == expected);
}

TEST_CASE("ENE-23 configurations differ exactly where the loaders do", "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 4});
  const auto config = fixture.loader(2)->config();
  CHECK(config == fixture.loader(2)->config());
  CHECK(config.at("prefetch_factor").is_null());
  CHECK(fixture.loader(2, {.prefetch_factor = 2})->config().at("prefetch_factor") == 2);
  CHECK(fixture.loader(0)->config().at("prefetch_factor").is_null());
  LoaderOptions seeded;
  seeded.worker_config.seed_offset = 5;
  std::vector<std::string> differences;
  energon::compare_configs(fixture.loader(2, seeded)->config(), config, "", differences);
  CHECK(differences.size() == 2);  // the offset, and the seed derived from it
  CHECK_THAT(differences.at(0), Catch::Contains("seed_offset: 5, expected 0"));
}
