// The effect of a metadataset's media filter on the samples and states of a pipeline.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "io/prepare/media_update.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/pipeline.h"

using energon::CookContext;
using energon::DataOptions;
using energon::Error;
using energon::ErrorCode;
using energon::FolderMediaUpdate;
using energon::MediaUpdate;
using energon::Sample;
using energon::SavableDataLoader;
using energon::TrainOptions;
using energon::testing::numbered_key;
using energon::testing::numbers;
using energon::testing::TempDir;

namespace {

constexpr std::int64_t kSamples = 30;

// Sample i is 10 * i wide; m.yaml leaves out those below `least`.
class FilteredData {
 public:
  explicit FilteredData(int least) {
    write_prepared(folder_, {.name = "d", .counts = {10, 10, 10}});
    MediaUpdate update(folder_.file("d"));
    for (std::int64_t i = 0; i < kSamples; ++i) {
      update.add(numbered_key(i) + ".txt", {.width = 10 * i});
    }
    update.commit();
    write(least);
  }

  void write(int least) const {
    folder_.write("m.yaml", fmt::format("__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
                                        "    - path: d\n      media_filter: {{min_width: {}}}\n",
                                        least));
  }

  SavableDataLoader loader(TrainOptions options = {}) const {
    options.shuffle_buffer_size = 7;
    options.parallel_slices = 2;
    return SavableDataLoader(train_dataset(folder_.file("m.yaml"), {}, options), {});
  }

  energon::PipelineData open() const { return energon::open_data(folder_.file("m.yaml")); }

 private:
  TempDir folder_;
};

std::vector<std::int64_t> take(SavableDataLoader& loader, int count) {
  std::vector<std::int64_t> found;
  for (int i = 0; i < count; ++i) {
    for (const std::int64_t number : numbers(*loader.next())) {
      found.push_back(number);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a pipeline delivers only samples that match the media filter", "[wrappers][media]") {
  const FilteredData data(200);
  SavableDataLoader loader = data.loader();
  const std::vector<std::int64_t> first = take(loader, 40);
  const std::set<std::int64_t> all(first.begin(), first.end());
  CHECK(*all.begin() == 20);
  CHECK(all.size() == 10);
  SavableDataLoader again = data.loader();
  CHECK(take(again, 40) == first);
  // Like excluded samples, they count in the length and keep the places of the others.
  CHECK(data.open().leaves.at(0).length == kSamples);
}

TEST_CASE("a pipeline with a media filter is resumed", "[wrappers][media]") {
  const FilteredData data(150);
  SavableDataLoader loader = data.loader();
  take(loader, 11);
  const auto state = loader.save_state_rank();
  SavableDataLoader resumed = data.loader();
  resumed.restore_state_rank(state);
  CHECK(take(resumed, 25) == take(loader, 25));
}

TEST_CASE("a state belongs to one media filter", "[wrappers][media]") {
  const FilteredData data(150);
  SavableDataLoader loader = data.loader();
  take(loader, 3);
  const auto state = loader.save_state_rank();
  data.write(151);
  SavableDataLoader other = data.loader();
  try {
    other.restore_state_rank(state);
    FAIL("a state of another filter was taken");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kMismatch);
    CHECK_THAT(error.what(), Catch::Contains("width >= 150") && Catch::Contains("width >= 151"));
  }
}

TEST_CASE("a cooker gets the media metadata of its sample", "[wrappers][media]") {
  const FilteredData data(250);
  TrainOptions options;
  options.task_encoder.cookers.push_back({.cook = [](Sample crude, CookContext& context) {
    crude.set("width", context.primary_media(".txt")->width.value_or(0));
    return crude;
  }});
  SavableDataLoader loader = data.loader(options);
  for (int i = 0; i < 10; ++i) {
    CAPTURE(i);
    const auto sample = loader.next();
    CHECK(sample->integer("width") == 10 * numbers(*sample).at(0));
  }
}

TEST_CASE("a cooker gets the media metadata of files in a folder", "[wrappers][media]") {
  const TempDir folder;
  write_prepared(folder, {.name = "d", .counts = {10}});
  folder.write("files/sub/0.jpg", "");
  {
    FolderMediaUpdate update(folder.file("files"));
    for (std::int64_t i = 0; i < 10; ++i) {
      update.add(fmt::format("sub/{}.jpg", i), {.width = 100 + i});
    }
    update.commit();
  }
  folder.write("m.yaml",
               "__class__: MetadatasetV2\nsplits:\n  train:\n    path: d\n"
               "    aux: {images: filesystem://files}\n");
  TrainOptions options;
  options.task_encoder.cookers.push_back({.cook = [](Sample crude, CookContext& context) {
    const std::string name = fmt::format("sub/{}.jpg", numbers(crude).at(0));
    crude.set("width", context.aux_media("images", name)->width.value_or(0));
    return crude;
  }});
  SavableDataLoader loader(train_dataset(folder.file("m.yaml"), {}, options), {});
  for (int i = 0; i < 10; ++i) {
    CAPTURE(i);
    const auto sample = loader.next();
    CHECK(sample->integer("width") == 100 + numbers(*sample).at(0));
  }
}
