// The acceptance tests ENE-01 … ENE-24 of the savable loader, except those that need a process
// group or packing. Here: a restored loader continues like the saved one. Others:
// ene_layout_test.cpp, ene_delivery_test.cpp, failure_test.cpp (ENE-21),
// tests/energon/order/rng_test.cpp (ENE-24).

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/memory_leaf.h"

using energon::CallContext;
using energon::LoaderOptions;
using energon::Sample;
using energon::SavableDataLoaderState;
using energon::testing::kEpochEnd;
using energon::testing::label;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::never_checkpoint;
using energon::testing::resumed;
using energon::testing::tail;
using energon::testing::take;

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
    CAPTURE(save_at, follow);
    CHECK(take(*loader, save_at - taken) == tail(reference, taken, save_at - taken));
    taken = save_at;
    const auto state = loader->save_state_rank();
    for (const std::int64_t interval : {1, 7, 1000}) {
      CAPTURE(interval);
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
    CAPTURE(step);
    const auto loader = resumed(fixture, 6, state);
    CHECK(take(*loader, 1) == tail(reference, step, 1));
    state = loader->save_state_rank();
  }
}

TEST_CASE("ENE-04 restoring and saving at once gives the same state", "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 3, .shuffle_buffer_size = 20});
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
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

TEST_CASE("ENE-05 restore, take one, save: the offset of idle workers is not lost",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({});
  const auto reference = take(*fixture.loader(3), 23);
  const auto first = fixture.loader(3, never_checkpoint());
  take(*first, 10);
  const auto at_ten = first->save_state_rank();
  CHECK(at_ten.checkpoints[0].offset == 4);
  CHECK(at_ten.checkpoints[1].offset == 3);
  const auto second = resumed(fixture, 3, at_ten, never_checkpoint());
  take(*second, 1);
  const auto at_eleven = second->save_state_rank();
  CHECK(take(*resumed(fixture, 3, at_eleven, never_checkpoint()), 12) == tail(reference, 11, 12));
}

namespace {

// How often each sample was encoded, by any process.
class SharedCounts {
 public:
  explicit SharedCounts(std::size_t samples)
      : bytes_(samples * sizeof(std::atomic<int>)),
        counts_(static_cast<std::atomic<int>*>(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedCounts() { ::munmap(counts_, bytes_); }
  SharedCounts(const SharedCounts&) = delete;
  SharedCounts& operator=(const SharedCounts&) = delete;

  std::atomic<int>& of(std::int64_t sample) { return counts_[sample]; }
  void clear() { std::fill_n(reinterpret_cast<std::byte*>(counts_), bytes_, std::byte{0}); }

 private:
  const std::size_t bytes_;
  std::atomic<int>* const counts_;  // the pages are zero at first
};

}  // namespace

TEST_CASE("ENE-06 a restored loader does not read delivered data, however old the checkpoint",
          "[loader][ene][fork]") {
  constexpr std::int64_t kSamples = 600;
  SharedCounts read(kSamples);
  const energon::MapFunction count = [&read](Sample sample, CallContext&) {
    ++read.of(energon::testing::numbers(sample).front());
    return sample;
  };
  const LoaderFixture fixture({.task_encoder = {.encode_sample = count}, .shuffle_buffer_size = 9},
                              {200, 200, 200});
  const auto reference = take(*fixture.loader(3), 50);
  for (const bool sparse : {false, true}) {
    CAPTURE(sparse);
    LoaderOptions options =
        sparse ? never_checkpoint() : LoaderOptions{.checkpoint_every_batches = 1};
    options.prefetch_factor = 2;  // with more prefetching, a worker would start the next epoch
    const auto loader = fixture.loader(3, options);
    std::set<std::int64_t> delivered;
    for (int i = 0; i < 40; ++i) {
      for (const std::int64_t number : energon::testing::numbers(*loader->next())) {
        delivered.insert(number);
      }
    }
    const auto state = loader->save_state_rank();
    std::vector<std::int64_t> offsets;
    for (const auto& worker : state.checkpoints) {
      offsets.push_back(worker.offset);
    }
    CHECK(offsets ==
          (sparse ? std::vector<std::int64_t>{14, 13, 13} : std::vector<std::int64_t>{0, 0, 0}));
    loader->stop();
    read.clear();
    CHECK(take(*resumed(fixture, 3, state, options), 10) == tail(reference, 40, 10));
    int again = 0;
    for (const std::int64_t number : delivered) {
      again += read.of(number);
    }
    CHECK(again == 0);
    int in_total = 0;
    for (std::int64_t number = 0; number < kSamples; ++number) {
      in_total += read.of(number);
    }
    CHECK(in_total >= 10);
  }
}

TEST_CASE("ENE-08 after k batches the next one comes from worker k mod 3", "[loader][ene][fork]") {
  const LoaderFixture fixture({});
  const auto reference = take(*fixture.loader(3), 20);
  const auto loader = fixture.loader(3);
  for (std::size_t k = 0; k < 8; ++k) {
    CAPTURE(k);
    const auto state = loader->save_state_rank();
    CHECK(state.next_worker_id == static_cast<std::int64_t>(k % 3));
    CHECK(take(*resumed(fixture, 3, state), 12) == tail(reference, k, 12));
    take(*loader, 1);
  }
}

TEST_CASE("ENE-09 an exhausted worker waits for the others, at every save point",
          "[loader][ene][fork]") {
  // Workers with these numbers of batches, of one sample each.
  for (const std::vector<std::int64_t>& lengths :
       {std::vector<std::int64_t>{5, 3}, {1, 0, 4}, {0, 0, 2}}) {
    std::vector<energon::PipelineFactory> of_worker;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      of_worker.push_back(energon::train_pipeline(
          std::make_shared<const energon::testing::MemoryLeaf>(
              fmt::format("worker {} sample ", i), std::vector<std::int64_t>{lengths[i]}),
          {.batch_size = 1, .repeat = false}));
    }
    const auto workers = static_cast<int>(lengths.size());
    const energon::PipelineFactory pipeline = [&](const energon::PipelineContext& context) {
      return of_worker.at(static_cast<std::size_t>(context.local_index))(
          {.config = {}, .local_index = 0, .memory = context.memory, .monitor = context.monitor});
    };
    const auto make = [&] {
      return std::make_unique<energon::SavableDataLoader>(
          pipeline, LoaderOptions{.worker_config = {.num_workers = workers}});
    };
    const std::int64_t batches = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    const auto epoch = static_cast<std::size_t>(batches) + 1;  // with its end
    const auto reference = take(*make(), 4 * epoch);
    CHECK(std::count(reference.begin(), reference.end(), kEpochEnd) == 4);
    CHECK(reference[epoch - 1] == kEpochEnd);
    const auto loader = make();
    for (std::size_t k = 0; k < 2 * epoch; ++k) {
      INFO(fmt::format("{} batches, saved after {}", fmt::join(lengths, ", "), k));
      // The rest of the epoch, and two more epochs.
      const auto restored = make();
      restored->restore_state_rank(loader->save_state_rank());
      const std::size_t rest = epoch - k % epoch + 2 * epoch;
      const std::size_t count = std::min(rest, reference.size() - k);
      CHECK(take(*restored, count) == tail(reference, k, count));
      take(*loader, 1);
    }
  }
}

TEST_CASE("ENE-10 a state after the last batch, before and after the end is reported",
          "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 4, .repeat = false});
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
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
    "ENE-11 an interrupted loop continues, then comes a full epoch, and the size is the rank's",
    "[loader][ene][fork]") {
  const LoaderFixture fixture({.batch_size = 4, .repeat = false});
  for (const int workers : {0, 2}) {
    std::multiset<std::int64_t> samples;  // of all ranks
    for (const int rank : {0, 1}) {
      CAPTURE(workers, rank);
      const LoaderOptions options{.worker_config = {.rank = rank, .world_size = 2}};
      const Labels reference = take(*fixture.loader(workers, options), 40);
      const auto end = static_cast<std::size_t>(
          std::find(reference.begin(), reference.end(), kEpochEnd) - reference.begin());
      const auto loader = fixture.loader(workers, options);
      CHECK(loader->size() == static_cast<std::int64_t>(end));
      // A loop over the epoch that is left after `count` batches, or at its end.
      const auto iterate = [&](std::size_t count) {
        Labels labels;
        while (const auto batch = loader->next()) {
          labels.push_back(label(*batch));
          for (const std::int64_t number : energon::testing::numbers(*batch)) {
            samples.insert(number);
          }
          if (labels.size() == count) {
            break;
          }
        }
        return labels;
      };
      CHECK(iterate(3) == tail(reference, 0, 3));
      CHECK(iterate(3) == tail(reference, 3, 3));
      CHECK(iterate(1000) == tail(reference, 6, end - 6));
      CHECK(iterate(1000) == tail(reference, end + 1, end));
      CHECK(loader->size() == static_cast<std::int64_t>(end));
    }
    CHECK(samples.size() == 2 * 55);
    for (std::int64_t number = 0; number < 55; ++number) {
      CHECK(samples.count(number) == 2);
    }
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
    CAPTURE(workers);
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
