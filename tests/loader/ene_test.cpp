// The numbered acceptance tests ENE-01 … ENE-24 of the savable loader, those that need no process
// group and no packing: all but ENE-14 and ENE-15. ENE-21 is in failure_test.cpp, ENE-24 in
// tests/energon/rng_test.cpp.

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/loader/basic_data_loader.h"
#include "io/error.h"
#include "io/file_source.h"
#include "tests/loader/loader_fixture.h"

using energon::BasicDataLoader;
using energon::CallContext;
using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::Sample;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::TrainOptions;
using energon::testing::kEpochEnd;
using energon::testing::kFx55;
using energon::testing::label;
using energon::testing::LoaderFixture;
using energon::testing::take;

namespace {

using Labels = std::vector<std::string>;

Labels tail(const Labels& labels, std::size_t from, std::size_t count) {
  return {labels.begin() + static_cast<std::ptrdiff_t>(from),
          labels.begin() + static_cast<std::ptrdiff_t>(from + count)};
}

// A fresh loader, restored.
std::unique_ptr<SavableDataLoader> resumed(const LoaderFixture& fixture, int workers,
                                           const SavableDataLoaderState& state,
                                           const LoaderOptions& options = {}) {
  auto loader = fixture.loader(workers, options);
  loader->restore_state_rank(state);
  return loader;
}

LoaderOptions never_checkpoint() { return {.checkpoint_every_batches = 1'000'000'000}; }

}  // namespace

TEST_CASE("ENE-01 without workers a state at 0 and at 1100 continues identically",
          "[loader][ene]") {
  const LoaderFixture fixture({.shuffle_buffer_size = 42});
  const auto loader = fixture.loader(0);
  const auto start = loader->save_state_rank();
  const Labels reference = take(*loader, 1100);
  const auto later = loader->save_state_rank();
  const Labels rest = take(*loader, 1100);
  Labels both = reference;
  both.insert(both.end(), rest.begin(), rest.end());
  CHECK(take(*resumed(fixture, 0, start), 2200) == both);
  CHECK(take(*resumed(fixture, 0, later), 1100) == rest);
}

TEST_CASE("ENE-02 with workers states at 0, 18 and 127 continue in loaders with other intervals",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({.shuffle_buffer_size = 42, .parallel_slices = 2});
  const auto reference = take(*fixture.loader(2), 300);
  const auto loader = fixture.loader(2);
  std::size_t taken = 0;
  for (const auto& [save_at, follow] :
       {std::pair<std::size_t, std::size_t>{0, 18}, {18, 109}, {127, 28}}) {
    CHECK(take(*loader, save_at - taken) == tail(reference, taken, save_at - taken));
    taken = save_at;
    const auto state = loader->save_state_rank();
    for (const std::int64_t interval : {1, 7, 1000}) {
      CHECK(take(*resumed(fixture, 2, state, {.checkpoint_every_batches = interval}), follow) ==
            tail(reference, save_at, follow));
    }
  }
}

TEST_CASE("ENE-03 six workers, single steps, each in a fresh loader", "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 5});
  const auto reference = take(*fixture.loader(6), 9);
  SavableDataLoaderState state = fixture.loader(6)->save_state_rank();
  for (std::size_t step = 0; step < 9; ++step) {
    const auto loader = resumed(fixture, 6, state);
    CHECK(take(*loader, 1) == tail(reference, step, 1));
    state = loader->save_state_rank();
  }
}

TEST_CASE("ENE-04 restoring and saving at once gives the same state", "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 3, .shuffle_buffer_size = 20});
  for (const int workers : {0, 2}) {
    const auto loader = fixture.loader(workers);
    const auto initial = loader->save_state_rank();
    CHECK(resumed(fixture, workers, initial)->save_state_rank() == initial);
    const auto reference = take(*loader, 5);
    CHECK(take(*resumed(fixture, workers, initial), 5) == reference);
    const auto state = loader->save_state_rank();
    CHECK(loader->save_state_rank() == state);
    CHECK(resumed(fixture, workers, state)->save_state_rank() == state);
    const auto running = resumed(fixture, workers, state, never_checkpoint());
    take(*running, 1);
    const auto after_one = running->save_state_rank();
    CHECK(resumed(fixture, workers, after_one)->save_state_rank() == after_one);
  }
}

TEST_CASE("ENE-05 restore, take one, save: the offset of silent workers is not lost",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({});
  const auto reference = take(*fixture.loader(3), 23);
  const auto first = fixture.loader(3, never_checkpoint());
  take(*first, 10);
  const auto at_ten = first->save_state_rank();
  CHECK(at_ten.worker_states[0].offset == 4);
  CHECK(at_ten.worker_states[1].offset == 3);
  const auto second = resumed(fixture, 3, at_ten, never_checkpoint());
  take(*second, 1);
  const auto at_eleven = second->save_state_rank();
  CHECK(take(*resumed(fixture, 3, at_eleven, never_checkpoint()), 12) == tail(reference, 11, 12));
}

TEST_CASE("ENE-06 with checkpoints after each batch the offset is zero", "[loader][ene][fork]") {
  const LoaderFixture fixture({});
  const auto reference = take(*fixture.loader(3), 50);
  for (const bool sparse : {true, false}) {
    const auto loader = fixture.loader(
        3, sparse ? never_checkpoint() : LoaderOptions{.checkpoint_every_batches = 1});
    take(*loader, 40);
    const auto state = loader->save_state_rank();
    for (const auto& worker : state.worker_states) {
      CHECK(worker.offset == (sparse ? worker.index == 0 ? worker.offset : 0 : 0));
      CHECK(worker.index + worker.offset >= 13);
    }
    CHECK(take(*resumed(fixture, 3, state), 10) == tail(reference, 40, 10));
  }
}

TEST_CASE("ENE-07 fewer checkpoints than batches in flight are refused", "[loader][ene]") {
  const LoaderFixture fixture({});
  CHECK_THROWS_WITH(fixture.loader(2, {.prefetch_factor = 4, .n_checkpoints = 4}),
                    Catch::Contains("n_checkpoints is 4") && Catch::Contains("at least 5"));
  CHECK_NOTHROW(fixture.loader(2, {.prefetch_factor = 4, .n_checkpoints = 5}));
}

TEST_CASE("ENE-08 after k batches the next one comes from worker k mod 3", "[loader][ene][fork]") {
  const LoaderFixture fixture({});
  const auto reference = take(*fixture.loader(3), 20);
  const auto loader = fixture.loader(3);
  for (std::size_t k = 0; k < 8; ++k) {
    const auto state = loader->save_state_rank();
    CHECK(state.next_worker_id == static_cast<std::int64_t>(k % 3));
    CHECK(take(*resumed(fixture, 3, state), 12) == tail(reference, k, 12));
    take(*loader, 1);
  }
}

TEST_CASE("ENE-09 an exhausted worker waits for the others, at every save point",
          "[loader][ene][fork]") {
  struct Case {
    std::vector<std::int64_t> counts;
    int workers;
  };
  // Unequal shares of the workers: 5 and 4, 2 1 2, and shares without any sample.
  for (const Case& with : {Case{{9}, 2}, Case{{5}, 3}, Case{{2}, 3}, Case{{1}, 3}}) {
    const LoaderFixture fixture({.batch_size = 2, .repeat = false}, with.counts);
    const auto reference = take(*fixture.loader(with.workers), 24);
    const auto loader = fixture.loader(with.workers);
    for (std::size_t k = 0; k < 12; ++k) {
      INFO(with.counts[0] << " samples, " << with.workers << " workers, saved after " << k);
      CHECK(take(*resumed(fixture, with.workers, loader->save_state_rank()), 12) ==
            tail(reference, k, 12));
      take(*loader, 1);
    }
  }
}

TEST_CASE("ENE-10 a state after the last batch, before and after the end was seen",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 4, .repeat = false});
  for (const int workers : {0, 2}) {
    const auto reference = take(*fixture.loader(workers), 40);
    const auto end = static_cast<std::size_t>(
        std::find(reference.begin(), reference.end(), kEpochEnd) - reference.begin());
    const auto loader = fixture.loader(workers);
    take(*loader, end);
    const auto before = loader->save_state_rank();
    CHECK_FALSE(before.epoch_finished);
    CHECK(take(*resumed(fixture, workers, before), 15) == tail(reference, end, 15));
    take(*loader, 1);
    const auto after = loader->save_state_rank();
    CHECK(after.epoch_finished);
    CHECK(after.next_worker_id == 0);
    CHECK(take(*resumed(fixture, workers, after), 15) == tail(reference, end + 1, 15));
    CHECK(take(*loader, 15) == tail(reference, end + 1, 15));
  }
}

TEST_CASE(
    "ENE-11 an epoch goes on after a pause, then a full new one follows; the size is the rank's",
    "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 4, .repeat = false});
  for (const int workers : {0, 2}) {
    const auto loader = fixture.loader(workers);
    REQUIRE(loader->size());
    const auto size = static_cast<std::size_t>(*loader->size());
    CHECK(size == (workers == 0 ? 14U : 14U));
    std::set<std::int64_t> seen;
    std::size_t batches = 0;
    const auto look = [&](std::size_t count) {
      for (std::size_t i = 0; i < count; ++i, ++batches) {
        const auto batch = loader->next();
        REQUIRE(batch);
        for (const std::int64_t number : energon::testing::numbers(*batch)) {
          CHECK(seen.insert(number).second);
        }
      }
    };
    look(3);
    look(3);
    look(size - batches);
    CHECK(seen.size() == 55);
    CHECK_FALSE(loader->next());
    seen.clear();
    batches = 0;
    look(size);
    CHECK(seen.size() == 55);
    CHECK_FALSE(loader->next());
  }
}

TEST_CASE("ENE-12 states that do not fit are refused with both numbers, and nothing is applied",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 2});
  const auto two = fixture.loader(2);
  take(*two, 3);
  const auto state = two->save_state_rank();
  CHECK_THROWS_WITH(two->restore_state_rank(state),
                    Catch::Contains("2 workers") && Catch::Contains("stop()"));
  const auto expected = take(*fixture.loader(3), 6);
  const auto three = fixture.loader(3);
  CHECK_THROWS_WITH(
      three->restore_state_rank(state),
      Catch::Contains("num_workers: 2, expected 3") &&
          Catch::Contains("worker states: 2 (of logical shards 0, 1), expected 3 (0, 1, 2)"));
  CHECK(take(*three, 6) == expected);
  LoaderOptions other_rank;
  other_rank.worker_config.world_size = 2;
  const auto of_two_ranks = fixture.loader(2, other_rank);
  CHECK_THROWS_WITH(of_two_ranks->restore_state_rank(state),
                    Catch::Contains("world_size: 1, expected 2"));
  other_rank.worker_config.rank = 1;
  CHECK_THROWS_WITH(
      fixture.loader(2, other_rank)->restore_state_rank(of_two_ranks->save_state_rank()),
      Catch::Contains("rank: 0, expected 1"));
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
  // The samples of each worker in order, since the turn of the workers comes twice as often with
  // half the batch.
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
    for (const bool sparse : {false, true}) {
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
                    Catch::Contains("without workers it must be equal"));
  const LoaderFixture single(with_batch(std::nullopt), {40});
  CHECK_THROWS_AS(single.loader(2)->restore_state_rank(state), Error);
}

TEST_CASE("ENE-13 a smaller micro batch continues over smaller last batches and ends of epochs",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 3, .repeat = false}, {20});
  // What each worker delivers, sample by sample; ends of epochs are -1 in both.
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

TEST_CASE("ENE-17 batches are rebuilt from their keys in another loader", "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 3, .shuffle_buffer_size = 11}, kFx55, 300);
  const auto loader = fixture.loader(2);
  const auto other = fixture.loader(2);
  for (int i = 0; i < 50; ++i) {
    const auto batch = loader->next();
    const Sample rebuilt =
        other->restore_sample(energon::RestoreKey::from_text(batch->restore_key.text()));
    CHECK(label(rebuilt) == label(*batch));
    CHECK(rebuilt.keys == batch->keys);
    CHECK(rebuilt.sources.at(0).shard->shard_name == batch->sources.at(0).shard->shard_name);
  }
  for (const char* key : {"LogicalShard(0,1)/Webdataset(0,1)", "Batch(0)[Webdataset(0,1)]",
                          "LogicalShard(2,0)/Batch(0)[Webdataset(0,1)]",
                          "LogicalShard(0,0)/Batch(0)[Webdataset(0,55)]",
                          "LogicalShard(0,0)/Batch(0)[Webdataset(1,5)]"}) {
    CHECK_THROWS_AS(other->restore_sample(energon::RestoreKey::from_text(key)), Error);
  }
}

TEST_CASE("ENE-18 random augmentation is the same after a restore", "[loader][ene][fork]") {
  const energon::MapFunction augment = [](Sample sample, CallContext& context) {
    sample.fields.emplace_back("noise", std::to_string(context.rng()()));
    return sample;
  };
  const LoaderFixture fixture(
      {.task_encoder = {.encode_sample = augment}, .batch_size = 2, .shuffle_buffer_size = 9});
  for (const int workers : {0, 1, 2}) {
    const auto loader = fixture.loader(workers);
    take(*loader, 7);
    const auto state = loader->save_state_rank();
    const auto expected = take(*loader, 20);
    CHECK(take(*resumed(fixture, workers, state), 20) == expected);
  }
}

TEST_CASE("ENE-19 samples are not in the state", "[loader][ene][fork]") {
  const LoaderFixture fixture({.shuffle_buffer_size = 42}, {20, 20, 20}, 1 << 20);
  const auto loader = fixture.loader(2);
  take(*loader, 10);
  const auto state = loader->save_state_rank();
  CHECK(energon::encode_loader_state(state).size() < 64 * 1024);
  const auto expected = take(*loader, 10);
  CHECK(take(*resumed(fixture, 2, state), 10) == expected);
}

TEST_CASE("ENE-16 layouts with the same global workers give the same global batches",
          "[loader][ene][fork]") {
  struct Layout {
    int world_size;
    int workers;
    std::int64_t micro_batch;
  };
  // Each step takes a global batch of 8 from the ranks in turn; what is compared is the set of
  // samples of each step.
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

TEST_CASE("ENE-20 the debug log tells what was delivered", "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .repeat = false}, {40});
  for (const int workers : {0, 2}) {
    const energon::testing::TempDir folder;
    {
      const auto loader =
          fixture.loader(workers, {.debug_log_path = folder.file("log-{worker_id}.jsonl")});
      take(*loader, 21 + 3);
    }
    const auto lines_of = [&folder](int number) {
      std::vector<energon::Config> lines;
      std::istringstream text(
          energon::read_file(folder.file("log-" + std::to_string(number) + ".jsonl")));
      for (std::string line; std::getline(text, line);) {
        lines.push_back(energon::Config::parse(line));
      }
      return lines;
    };
    const auto lines = lines_of(0);
    REQUIRE(lines.size() == 1 + (1 + 20 + 1) + (1 + 3));
    CHECK(lines[0].at("t") == "SavableDataLoader.__init__");
    CHECK(lines[1].at("t") == "SavableDataLoader.iter");
    std::map<std::int64_t, std::int64_t> next_of_worker;
    for (std::int64_t i = 0; i < 20; ++i) {
      const auto& line = lines[static_cast<std::size_t>(2 + i)];
      CHECK(line.at("t") == "SavableDataLoader.yield");
      CHECK(line.at("iter_idx") == i);
      CHECK(line.at("global_idx") == i);
      CHECK(line.at("keys").size() == 2);
      CHECK(line.at("worker_idx") == next_of_worker[line.at("worker_id").get<std::int64_t>()]++);
    }
    CHECK(lines[22].at("t") == "SavableDataLoader.StopIteration");
    CHECK(lines[24].at("iter_idx") == 0);
    CHECK(lines[24].at("global_idx") == 20);
    for (int worker = 0; worker < workers; ++worker) {
      const auto of_worker = lines_of(worker + 1);
      REQUIRE(of_worker.size() >= 10);
      CHECK(of_worker[3].at("t") == "yield_batch");
      CHECK(of_worker[3].at("w") == worker);
      CHECK(of_worker[3].at("idx") == 3);
    }
  }
}

TEST_CASE("ENE-22 the basic loader has the same order, and several iterations at once",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 4, .repeat = false});
  for (const int workers : {0, 2}) {
    const LoaderOptions options{.worker_config = {.num_workers = workers}};
    const auto expected = take(*fixture.loader(workers), 20);
    BasicDataLoader loader(fixture.pipeline(), options);
    auto first = loader.iterate();
    auto second = loader.iterate();
    for (const std::string& item : expected) {
      for (auto* iteration : {&first, &second}) {
        const auto batch = iteration->next();
        CHECK((batch ? label(*batch) : kEpochEnd) == item);
        if (batch) {
          CHECK(label(loader.restore_sample(batch->restore_key)) == item);
        }
      }
    }
    CHECK(loader.size() == 14);
  }
}

TEST_CASE("ENE-23 configurations differ exactly where the loaders do", "[loader][ene]") {
  const LoaderFixture fixture({.batch_size = 4});
  const auto config = fixture.loader(2)->config();
  CHECK(config == fixture.loader(2)->config());
  CHECK(config.at("prefetch_factor") == 2);
  CHECK(fixture.loader(0)->config().at("prefetch_factor").is_null());
  LoaderOptions seeded;
  seeded.worker_config.seed_offset = 5;
  std::vector<std::string> differences;
  energon::compare_configs(fixture.loader(2, seeded)->config(), config, "", differences);
  CHECK(differences.size() == 2);  // the offset, and the seed that follows from it
  CHECK_THAT(differences.at(0), Catch::Contains("seed_offset: 5, expected 0"));
}

TEST_CASE("stop keeps the position, and the loader can be restored afterwards", "[loader][fork]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 9});
  const auto reference = take(*fixture.loader(2), 20);
  const auto loader = fixture.loader(2);
  const auto start = loader->save_state_rank();
  take(*loader, 7);
  loader->stop();
  CHECK(loader->worker_pids().empty());
  CHECK(take(*loader, 6) == tail(reference, 7, 6));
  CHECK(loader->worker_pids().size() == 2);
  loader->stop();
  loader->restore_state_rank(start);
  CHECK(take(*loader, 20) == reference);
}

TEST_CASE("saves and restores chain at every batch of several epochs, with sparse checkpoints",
          "[loader][fork]") {
  const LoaderFixture fixture(
      {.batch_size = 3, .shuffle_buffer_size = 4, .virtual_epoch_length = 5}, {9, 8});
  const auto reference = take(*fixture.loader(2), 30);
  SavableDataLoaderState state = fixture.loader(2)->save_state_rank();
  for (std::size_t step = 0; step < 28; step += 2) {
    const auto loader = resumed(fixture, 2, state, {.checkpoint_every_batches = 3});
    INFO("step " << step);
    CHECK(take(*loader, 2) == tail(reference, step, 2));
    state = energon::decode_loader_state(energon::encode_loader_state(loader->save_state_rank()));
    CHECK(state.batch_index ==
          static_cast<std::int64_t>(std::count_if(
              reference.begin(), reference.begin() + static_cast<std::ptrdiff_t>(step) + 2,
              [](const std::string& item) { return item != kEpochEnd; })));
  }
}
