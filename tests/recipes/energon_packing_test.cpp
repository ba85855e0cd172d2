// The tests of packing and group batches in Energon's test_dataset.py, by name and numbers.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::LoaderOptions;
using energon::Mapping;
using energon::Sample;
using energon::SavableDataLoader;
using energon::TaskEncoder;
using energon::testing::check_resumes;
using energon::testing::kCaptions;
using energon::testing::Keys;
using energon::testing::Numbers;
using energon::testing::RecipeFolder;
using energon::testing::Stream;
using Selection = std::vector<std::vector<std::size_t>>;

namespace {

std::vector<std::size_t> positions(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> result;
  for (std::size_t i = begin; i < end; ++i) {
    result.push_back(i);
  }
  return result;
}

// Packs know their number of samples.
TaskEncoder packing_encoder(energon::SelectFunction select) {
  TaskEncoder encoder;
  encoder.encode_sample = {};
  encoder.select_samples_to_pack = std::move(select);
  encoder.pack_selected_samples = [](std::span<Sample> samples, CallContext& /*context*/) {
    Mapping fields = energon::list_fields(samples);
    fields.emplace_back("length", static_cast<std::int64_t>(samples.size()));
    return fields;
  };
  encoder.batch = energon::list_fields;
  return encoder;
}

// Lengths of the packs of each batch up to the end of the epoch.
std::vector<Numbers> pack_lengths(const std::vector<Sample>& batches) {
  std::vector<Numbers> result;
  for (const Sample& batch : batches) {
    Numbers lengths;
    std::int64_t samples = 0;
    for (const energon::Value& length : std::get<energon::List>(batch.at("length").base())) {
      lengths.push_back(std::get<std::int64_t>(length.base()));
      samples += lengths.back();
    }
    CHECK(batch.keys.size() == static_cast<std::size_t>(samples));
    result.push_back(lengths);
  }
  return result;
}

std::vector<Sample> epoch(SavableDataLoader& loader) {
  std::vector<Sample> batches;
  while (auto batch = loader.next()) {
    batches.push_back(std::move(*batch));
  }
  return batches;
}

std::vector<Keys> keys_of(const std::vector<Sample>& batches) {
  std::vector<Keys> result;
  for (const Sample& batch : batches) {
    result.push_back(batch.keys.strings());
  }
  return result;
}

void check_restores(SavableDataLoader& loader, const Sample& batch) {
  const Sample rebuilt = loader.restore_sample(batch.restore_key);
  CHECK(rebuilt.keys == batch.keys);
  CHECK(rebuilt.restore_key == batch.restore_key);
  CHECK(digest(rebuilt) == digest(batch));
}

}  // namespace

TEST_CASE("test_packing", "[recipes][dataset][fork]") {
  const RecipeFolder captions(kCaptions);
  const auto make = [&captions](std::int64_t virtual_epoch_length) {
    auto encoder = packing_encoder([](std::span<const Sample> samples) {
      if (samples.size() != 21) {
        throw std::runtime_error("the buffer is not full");
      }
      return Selection{positions(0, 1), positions(1, 5), positions(5, 21)};
    });
    return energon::train_dataset(captions.file("ds"), {},
                                  {.task_encoder = std::move(encoder),
                                   .batch_size = 2,
                                   .packing_buffer_size = 21,
                                   .virtual_epoch_length = virtual_epoch_length});
  };
  SavableDataLoader single(make(6), {});
  CHECK(single.size() == 6);
  const auto batches = epoch(single);
  CHECK(pack_lengths(batches) ==
        std::vector<Numbers>{{1, 4}, {16, 1}, {4, 16}, {1, 4}, {16, 1}, {4, 16}});
  check_restores(single, batches[1]);

  // Rank 0 of two, with two alternating workers.
  const LoaderOptions options{.worker_config = {.world_size = 2, .num_workers = 2}};
  SavableDataLoader loader(make(8), options);
  const auto first = epoch(loader);
  CHECK(pack_lengths(first) ==
        std::vector<Numbers>{{1, 4}, {1, 4}, {16, 1}, {16, 1}, {4, 16}, {4, 16}, {1, 4}, {1, 4}});
  check_restores(loader, first[1]);
  const auto state = loader.save_state_rank();
  const std::vector<Numbers> next = {{16, 1}, {16, 1}, {4, 16}, {4, 16},
                                     {1, 4},  {1, 4},  {16, 1}, {16, 1}};
  const auto second = epoch(loader);
  CHECK(pack_lengths(second) == next);
  SavableDataLoader restored(make(8), options);
  restored.restore_state_rank(state);
  const auto again = epoch(restored);
  CHECK(pack_lengths(again) == next);
  CHECK(keys_of(again) == keys_of(second));
  check_resumes(make(8), options, {3, 8, 9, 12}, 20);
}

TEST_CASE("test_packing_val", "[recipes][dataset]") {
  const RecipeFolder captions(kCaptions);
  std::vector<std::size_t> offered;
  const auto make = energon::val_dataset(
      captions.file("ds"), {.split = "train"},
      {.task_encoder = packing_encoder([&offered](std::span<const Sample> samples) -> Selection {
         offered.push_back(samples.size());
         if (samples.size() < 11) {
           return {};
         }
         return {positions(9, 11), positions(4, 9), positions(1, 4), positions(0, 1)};
       }),
       .batch_size = 2,
       .packing_buffer_size = 11});
  SavableDataLoader loader(make, {});
  const auto batches = epoch(loader);
  CHECK(pack_lengths(batches) ==
        std::vector<Numbers>{{2, 5}, {3, 1}, {2, 5}, {3, 1}, {2, 5}, {3, 1}, {2, 5}, {3, 1}});
  CHECK(offered == std::vector<std::size_t>{11, 11, 11, 11, 50 % 11});
  check_restores(loader, batches[1]);
}

TEST_CASE("test_group_batch", "[recipes][dataset][fork]") {
  const RecipeFolder captions(kCaptions);
  // Batches of 4 from the first shard, of 8 from the second.
  TaskEncoder encoder;
  encoder.encode_sample = [](Sample sample, CallContext& /*context*/) {
    sample.fields = {{"shard", sample.sources.at(0).shard->shard_name}};
    return sample;
  };
  encoder.batch_group_criterion = [](const Sample& sample) {
    const auto& shard = std::get<std::string>(sample.at("shard").base());
    return energon::BatchGroup{.group = shard, .batch_size = shard == "parts/data-0.tar" ? 4 : 8};
  };
  encoder.batch = energon::list_fields;
  const auto make = energon::train_dataset(captions.file("ds"), {}, {.task_encoder = encoder});
  for (const LoaderOptions& options :
       {LoaderOptions{}, LoaderOptions{.worker_config = {.world_size = 2, .num_workers = 2}}}) {
    CAPTURE(options.worker_config.world_size);
    SavableDataLoader loader(make, options);
    for (int i = 0; i < 40; ++i) {
      CAPTURE(i);
      const Sample batch = loader.next().value();
      const auto& shards = std::get<energon::List>(batch.at("shard").base());
      const auto& first = std::get<std::string>(shards.at(0).base());
      CHECK(shards.size() == (first == "parts/data-0.tar" ? 4 : 8));
      CHECK(std::all_of(shards.begin(), shards.end(), [&first](const energon::Value& shard) {
        return std::get<std::string>(shard.base()) == first;
      }));
      check_restores(loader, batch);
    }
    check_resumes(make, options, {1, 40, 41}, 40);
  }
}
