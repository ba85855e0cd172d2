// States of Energon's loader become ours: trees made from our own states are converted back to
// them, and values that do not fit the job are refused with their place and advice.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/megatron/energon_state.h"
#include "energon/sample/sample_ref.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/megatron/energon_trees.h"
#include "tests/support/error_of.h"

namespace energon::testing {

using Catch::Contains;

namespace {

constexpr std::int64_t kMostPoints = 60;

// References in a shuffle buffer, but not the pass in which each was read: Energon does not keep
// it, and it has no effect.
void forget_passes(State& state) {
  for (auto& [name, value] : state.fields) {
    if (name == "references") {
      std::vector<SampleRef> refs = unpack_sample_refs(std::get<std::string>(value), 1000);
      for (SampleRef& ref : refs) {
        ref.repetition = 0;
      }
      SampleRefPacker packer;
      packer.measure(refs);
      packer.add(refs);
      value = packer.take();
    }
  }
  for (State& inner : state.children) {
    forget_passes(inner);
  }
}

// The parts of a state that are compared. Certificates are not, because Energon does not have them.
SavableDataLoaderState compared(SavableDataLoaderState state) {
  for (SavableDatasetCheckpoint& stream : state.checkpoints) {
    stream.certificate = {};
    if (stream.state) {
      forget_passes(*stream.state);
    }
  }
  return state;
}

TrainOptions shuffled() {
  TrainOptions options;
  options.batch_size = 3;
  options.shuffle_buffer_size = 5;
  return options;
}

// A rank without workers that has delivered `count` batches, in Energon's form. The nine tars are
// its slices.
Json saved_by_energon(const LoaderFixture& fixture, std::int64_t count) {
  const auto loader = fixture.loader(0);
  take(*loader, static_cast<std::size_t>(count));
  return energon_rank(loader->save_state_rank(), {9}, false);
}

SavableDataLoaderState imported(const LoaderFixture& fixture, const Json& rank,
                                const std::function<void()>& check_cancelled = nullptr) {
  return import_energon_state(parsed(rank), fixture.pipeline(), {},
                              {.check_cancelled = check_cancelled});
}

std::string refused(const LoaderFixture& fixture, const Json& rank,
                    ErrorCode code = ErrorCode::kMismatch) {
  return error_of([&] { imported(fixture, rank); }, code);
}

// A state after ten batches, modified by `change`.
std::string refused_after(const std::function<void(Json&)>& change,
                          ErrorCode code = ErrorCode::kMismatch) {
  const LoaderFixture fixture(shuffled());
  Json rank = saved_by_energon(fixture, 10);
  change(rank);
  return refused(fixture, rank, code);
}

Json& leaf_of(Json& rank) { return holder_of(rank, "_active_slice_state"); }

}  // namespace

TEST_CASE("A state of Energon equals ours at the same position, at every batch", "[megatron]") {
  TrainOptions options = shuffled();
  SECTION("endless") {}
  SECTION("without a shuffle buffer") { options.shuffle_buffer_size = 0; }
  SECTION("one slice at a time") { options.parallel_slices = 1; }
  SECTION("virtual epochs") { options.virtual_epoch_length = 4; }
  SECTION("drawn with replacement") {
    options.shuffle_over_epochs = {.mode = ShuffleOverEpochs::Mode::kReplacement};
  }
  const LoaderFixture fixture(options);
  const auto loader = fixture.loader(0);
  for (std::int64_t batches = 0; batches < kMostPoints;) {
    const SavableDataLoaderState own = loader->save_state_rank();
    const SavableDataLoaderState found = imported(fixture, energon_rank(own, {9}, false));
    INFO("after " << batches << " batches");
    REQUIRE(describe_loader_state(compared(found)) == describe_loader_state(compared(own)));
    REQUIRE(compared(found) == compared(own));
    while (!loader->next()) {
    }
    ++batches;
  }
}

TEST_CASE("Batches that Energon delivered after its state are skipped", "[megatron]") {
  const LoaderFixture fixture(shuffled());
  Json rank = saved_by_energon(fixture, 6);
  rank["workers"][0]["offset"] = 11;
  const auto whole = fixture.loader(0);
  const Labels labels = take(*whole, 30);
  const auto loader = resumed(fixture, 0, imported(fixture, rank));
  CHECK(take(*loader, 13) == tail(labels, 17, 13));
}

TEST_CASE("A rank without a started worker starts at the beginning", "[megatron]") {
  const LoaderFixture fixture(shuffled());
  const SavableDataLoaderState found = imported(fixture, nullptr);
  CHECK(found.batch_index == 0);
  CHECK(found.checkpoints.at(0).is_start());
  const auto loader = resumed(fixture, 0, found);
  CHECK(take(*loader, 5) == take(*fixture.loader(0), 5));
}

TEST_CASE("Other settings of the job are refused with advice", "[megatron]") {
  const LoaderFixture saved(shuffled());
  const Json rank = saved_by_energon(saved, 10);
  TrainOptions options = shuffled();
  std::string advice;
  SECTION("batch size") {
    options.batch_size = 4;
    advice = "batches of 3 samples, this one has batches of 4 samples";
  }
  SECTION("no batches") {
    options.batch_size.reset();
    advice = "batches of 3 samples, this one has no batches";
  }
  SECTION("size of the shuffle buffer") {
    options.shuffle_buffer_size = 6;
    advice = "check the size of the shuffle buffer";
  }
  SECTION("no shuffle buffer") {
    options.shuffle_buffer_size = 0;
    advice = "check the size of the shuffle buffer";
  }
  SECTION("virtual epochs") {
    options.virtual_epoch_length = 10;
    advice = "check the length of virtual epochs";
  }
  SECTION("slices that are open") {
    options.parallel_slices = 4;
    advice = "Energon has 16 slices open at a time, this job 4";
  }
  SECTION("repetition") {
    options.repeat = false;
    advice = "whether it is repeated";
  }
  SECTION("length of a sequence") {
    options.max_samples_per_sequence = 3;
    advice = "";
  }
  const LoaderFixture other(options);
  CHECK_THAT(refused(other, rank), Contains(advice) && Contains("rank.pt") && !Contains("instead"));
}

TEST_CASE("Other data is refused", "[megatron]") {
  const LoaderFixture saved(shuffled());
  const LoaderFixture other(shuffled(), {2, 2, 3, 4, 10, 10});
  CHECK_THAT(refused(other, saved_by_energon(saved, 10)),
             !Contains("instead") && Contains("rank.pt"));
}

TEST_CASE("Another seed offset is refused", "[megatron]") {
  const LoaderFixture fixture(shuffled());
  const Json rank = saved_by_energon(fixture, 3);
  CHECK_THAT(
      error_of([&] { import_energon_state(parsed(rank), fixture.pipeline(), {.seed_offset = 1}); },
               ErrorCode::kMismatch),
      Contains("check the seed offset") && Contains("_worker_rng"));
}

TEST_CASE("A tree whose numbers contradict each other is refused with its place", "[megatron]") {
  CHECK_THAT(refused_after([](Json& rank) { leaf_of(rank)["_sample_count"] = 35; }),
             Contains("Energon's generator is at another"));
  CHECK_THAT(refused_after([](Json& rank) { leaf_of(rank)["_epoch_count"] = 1; }),
             Contains("Energon's generator is at another"));
  CHECK_THAT(refused_after([](Json& rank) { leaf_of(rank)["_pending_slice_indexes"] = {1}; }),
             Contains("at another position"));
  CHECK_THAT(
      refused_after([](Json& rank) { leaf_of(rank)["_pending_slices_offset"] = 500'000'000; }),
      Contains("opened 500000000 slices") && Contains("check the data"));
  CHECK_THAT(refused_after([](Json& rank) { leaf_of(rank)["_epoch_sample_count"] = 500; },
                           ErrorCode::kCorruptData),
             Contains("_epoch_sample_count") && Contains("at most _sample_count"));
  CHECK_THAT(refused_after([](Json& rank) {
               holder_of(rank, "_active_buffer")["_active_buffer"]["_restore_keys"].erase(1);
             }),
             Contains("3 samples are in Energon's shuffle buffer, expected 4"));
  CHECK_THAT(
      refused_after(
          [](Json& rank) {
            holder_of(rank, "_active_buffer")["_active_buffer"]["_restore_keys"][0] = {"X", 1};
          },
          ErrorCode::kCorruptData),
      Contains("_restore_keys[0]") && Contains("the key of a sample"));
}

TEST_CASE("Every missing or mistyped entry of a tree is named", "[megatron]") {
  const LoaderFixture fixture(shuffled());
  const Json rank = saved_by_energon(fixture, 10);
  int count = 0;
  for (const std::string name :
       {"_pending_slices_offset", "_pending_slice_indexes", "_active_slice_state", "_worker_rng",
        "_sample_count", "_epoch_count", "_epoch_sample_count", "_repetition", "_index",
        "_active_buffer", "_restore_keys", "_sample_index", "base64", "current", "index"}) {
    CAPTURE(name);
    Json missing = rank;
    holder_of(missing, name).erase(name);
    CHECK_THAT(refused(fixture, missing, ErrorCode::kCorruptData),
               Contains("expected a member '" + name + "'"));
    for (const Json& other : {Json("%"), Json(-1), Json(1.5), Json(true)}) {
      Json wrong = rank;
      holder_of(wrong, name)[name] = other;
      CHECK_THAT(refused(fixture, wrong, ErrorCode::kCorruptData), Contains("state."));
      ++count;
    }
  }
  CHECK(count == 60);
}

TEST_CASE("Impossibly high counters are refused at once", "[megatron]") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  for (const std::string name : {"_epoch_count", "_sample_count"}) {
    CAPTURE(name);
    for (const std::int64_t count : {std::int64_t{1'000'000'000'000'000}, kHuge}) {
      CAPTURE(count);
      CHECK_THAT(
          refused_after([&](Json& rank) { leaf_of(rank)[name] = count; }, ErrorCode::kCorruptData),
          Contains(name) && Contains("which no worker exceeds"));
    }
  }
  CHECK_THAT(
      refused_after([kHuge](Json& rank) { leaf_of(rank)["_pending_slices_offset"] = kHuge; }),
      Contains("opened 4611686018427387904 slices"));
  CHECK_THAT(
      refused_after([](Json& rank) { leaf_of(rank)["_epoch_count"] = std::int64_t{1} << 40; }),
      Contains("slices after 1099511627776 epochs"));
}

TEST_CASE("A reference outside the data is refused", "[megatron]") {
  const auto renamed = [](const Json& key, ErrorCode code) {
    return refused_after(
        [&](Json& rank) {
          holder_of(rank, "_active_buffer")["_active_buffer"]["_restore_keys"][0] = key;
        },
        code);
  };
  CHECK_THAT(renamed({"Webdataset", 55}, ErrorCode::kMismatch), Contains("55"));
  CHECK_THAT(
      renamed({"BlendDataset", std::int64_t{1} << 32, "Webdataset", 1}, ErrorCode::kCorruptData),
      Contains("expected an existing dataset"));
}

TEST_CASE("Unsupported stages are refused with an alternative", "[megatron]") {
  const auto renamed = [](const std::string& type) {
    return refused_after(
        [&](Json& rank) { holder_of(rank, "_active_buffer")["__class__"] = type; });
  };
  CHECK_THAT(renamed("PackingDataset"), Contains("import_energon_state()"));
  CHECK_THAT(renamed("GroupBatchDataset"), Contains("a GroupBatchDataset where this one has"));
  CHECK_THAT(refused_after(
                 [](Json& rank) {
                   holder_of(rank, "_active_buffer")["__class__"] = std::string(10'000, 'x');
                 },
                 ErrorCode::kCorruptData),
             Contains("a name of 10000 bytes") && !Contains(std::string(200, 'x')));
  CHECK_THAT(
      refused_after(
          [](Json& rank) { holder_of(rank, "_sample_index")["_generator_sample_keys"] = {"x"}; },
          ErrorCode::kUnsupported),
      Contains("generator function"));
}

TEST_CASE("More batches than the data has is an error, not an endless search", "[megatron]") {
  TrainOptions options = shuffled();
  options.repeat = false;
  const LoaderFixture fixture(options, {1});  // the second worker has no sample
  const Json start = {{"sample_index", 0}, {"offset", 5}, {"state", nullptr}};
  const Json rank = {{"next_worker_id", 0},
                     {"micro_batch_size", 3},
                     {"has_workers", true},
                     {"workers", Json::array({start, start})}};
  CHECK_THAT(
      error_of([&] { import_energon_state(parsed(rank), fixture.pipeline(), {.num_workers = 2}); },
               ErrorCode::kMismatch),
      Contains("5 batches more than this job has") && Contains("worker: 1"));
}

TEST_CASE("A long import can be cancelled", "[megatron]") {
  const LoaderFixture fixture(shuffled());
  Json rank = saved_by_energon(fixture, 6);
  SECTION("while batches are skipped") { rank["workers"][0]["offset"] = std::int64_t{1} << 42; }
  SECTION("while numbers are drawn") { leaf_of(rank)["_epoch_count"] = std::int64_t{1} << 32; }
  int calls = 0;
  CHECK_THAT(error_of(
                 [&] {
                   imported(fixture, rank, [&calls] {
                     if (++calls == 100) {
                       throw Error(ErrorCode::kCancelled, "enough");
                     }
                   });
                 },
                 ErrorCode::kCancelled),
             Contains("enough"));
  CHECK(calls == 100);
}

}  // namespace energon::testing
