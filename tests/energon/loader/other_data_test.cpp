// A state belongs to its data: shards with the same names, counts and sizes are distinguished by
// their index files and, if present, by their checksum files.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "io/prepare/prepare.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/error_of.h"
#include "tests/support/tar_builder.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/stages/map.h"

using energon::ErrorCode;
using energon::PipelineFactory;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::testing::error_of;
using energon::testing::TarBuilder;
using energon::testing::TempDir;

namespace {

// One shard of samples with these numbers of bytes.
void write_shard(const TempDir& folder, const std::vector<std::size_t>& sizes, char content) {
  TarBuilder tar;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    tar.file(std::to_string(i) + ".txt", std::string(sizes[i], content));
  }
  folder.write("s.tar", tar.end().text());
}

PipelineFactory pipeline_over(const TempDir& folder) {
  return energon::train_pipeline(
      std::make_shared<const energon::Webdataset>(energon::open_split(folder.path())));
}

SavableDataLoaderState state_of(const PipelineFactory& pipeline, int rank = 0, int ranks = 1) {
  SavableDataLoader loader(pipeline, {.worker_config = {.rank = rank, .world_size = ranks}});
  loader.next();
  return loader.save_state_rank();
}

std::string restored(const PipelineFactory& pipeline, const SavableDataLoaderState& state) {
  return error_of([&] { SavableDataLoader(pipeline).restore_state_rank(state); },
                  ErrorCode::kMismatch);
}

}  // namespace

TEST_CASE("a state of other data with the same names, counts and sizes is refused",
          "[loader][state]") {
  const TempDir here;
  const TempDir there;
  write_shard(here, {100, 900, 100}, 'x');
  write_shard(there, {900, 100, 100}, 'x');
  REQUIRE(std::filesystem::file_size(here.file("s.tar")) ==
          std::filesystem::file_size(there.file("s.tar")));
  const SavableDataLoaderState state = state_of(pipeline_over(here));
  CHECK(restored(pipeline_over(here), state) == "no error");
  CHECK_THAT(restored(pipeline_over(there), state),
             Catch::Contains("config.pipeline.leaves[0].indexes: "));

  SECTION("ranks of two datasets do not form a job") {
    CHECK_THAT(error_of(
                   [&] {
                     energon::merge_states({state_of(pipeline_over(here), 0, 2),
                                            state_of(pipeline_over(there), 1, 2)});
                   },
                   ErrorCode::kMismatch),
               Catch::Contains("rank 1: config.pipeline.leaves[0].indexes: "));
    CHECK_NOTHROW(energon::merge_states(
        {state_of(pipeline_over(here), 0, 2), state_of(pipeline_over(here), 1, 2)}));
  }
  SECTION("a state saved before indices were compared is accepted") {
    SavableDataLoaderState old = state;
    (*old.config)["pipeline"]["leaves"][0].erase("indexes");
    CHECK(restored(pipeline_over(here), old) == "no error");
    CHECK(restored(pipeline_over(there), old) == "no error");
  }
}

TEST_CASE("the state of a prepared dataset is refused when only the digest of an index differs",
          "[loader][state]") {
  const TempDir here;
  const TempDir there;
  write_shard(here, {100, 900, 100}, 'x');
  write_shard(there, {900, 100, 100}, 'x');
  for (const TempDir* folder : {&here, &there}) {
    class Silent final : public energon::ProgressSink {
      void on_progress(const energon::PrepareProgress& /*progress*/) override {}
    } silent;
    energon::prepare(folder->path(), {.split_ratios = {{.part = "train", .weight = 1}}}, silent);
  }
  const auto pipeline = [](const TempDir& folder) { return energon::train_dataset(folder.path()); };
  SavableDataLoaderState state = state_of(pipeline(here));
  CHECK(restored(pipeline(here), state) == "no error");
  CHECK_THAT(restored(pipeline(there), state),
             Catch::Contains("config.pipeline.leaves[0].indexes: "));
  // Nothing else differs.
  (*state.config)["pipeline"]["leaves"][0]["indexes"] =
      (*state_of(pipeline(there)).config)["pipeline"]["leaves"][0]["indexes"];
  CHECK(restored(pipeline(there), state) == "no error");
}

TEST_CASE("a state depends on the parts that dataset.yaml selects", "[loader][state]") {
  const TempDir folder;
  write_shard(folder, {100, 900}, 'x');
  const auto pipeline = [&](const std::optional<std::vector<std::string>>& parts) {
    return energon::train_pipeline(std::make_shared<const energon::Webdataset>(
        energon::open_split(folder.path()), energon::WebdatasetOptions{.part_filter = parts}));
  };
  const auto all = pipeline(std::nullopt);
  const auto some = pipeline(std::vector<std::string>{"txt"});
  const auto others = pipeline(std::vector<std::string>{"jpg"});
  CHECK(restored(all, state_of(all)) == "no error");
  CHECK(restored(some, state_of(some)) == "no error");
  CHECK_THAT(restored(some, state_of(all)), Catch::Contains("leaves[0].parts: not set"));
  CHECK_THAT(restored(all, state_of(some)), Catch::Contains("leaves[0].parts: "));
  CHECK_THAT(restored(others, state_of(some)), Catch::Contains("leaves[0].parts"));
}

TEST_CASE("a copy of a dataset accepts its states", "[loader][state]") {
  const TempDir here;
  const TempDir there;
  write_shard(here, {100, 900}, 'x');
  const SavableDataLoaderState state = state_of(pipeline_over(here));
  std::filesystem::copy(here.file("s.tar"), there.file("s.tar"));
  CHECK(restored(pipeline_over(there), state) == "no error");
}

TEST_CASE("checksums distinguish data with equal indexes", "[loader][state]") {
  const TempDir here;
  const TempDir there;
  const auto prepared = [](const TempDir& folder, char content) {
    energon::testing::write_prepared(folder, {.name = "ds", .counts = {3}, .prefix = {content}});
    return folder.file("ds");
  };
  const std::string first = prepared(here, 'a');
  const std::string second = prepared(there, 'b');
  const auto pipeline = [](const std::string& path) { return energon::train_dataset(path); };
  // Without checksums, they cannot be distinguished.
  CHECK(restored(pipeline(second), state_of(pipeline(first))) == "no error");
  for (const std::string& path : {first, second}) {
    class Silent final : public energon::ProgressSink {
      void on_progress(const energon::PrepareProgress& /*progress*/) override {}
    } silent;
    energon::prepare(path,
                     {.split_ratios = {{.part = "train", .weight = 1}},
                      .existing = energon::Existing::kOverwrite,
                      .checksums = energon::Checksums::kWrite},
                     silent);
  }
  CHECK_THAT(restored(pipeline(second), state_of(pipeline(first))),
             Catch::Contains("config.pipeline.leaves[0].checksums: "));
}

TEST_CASE("a shard name that is not UTF-8 is escaped in a state, another name is refused",
          "[loader][state]") {
  const TempDir folder;
  TarBuilder tar;
  for (const char* part : {"0.txt", "1.txt", "2.txt"}) {
    tar.file(part, part);
  }
  const std::string path = folder.write("caf\xe9.tar", tar.end().text());  // Latin-1
  const PipelineFactory pipeline = energon::train_pipeline(
      std::make_shared<const energon::Webdataset>(energon::open_split(path)));
  SavableDataLoader loader(pipeline);
  REQUIRE(loader.next());
  const std::string file = energon::encode_loader_state(loader.save_state_rank());
  CHECK_THAT(file, Catch::Contains("caf\\\\xe9.tar"));
  SavableDataLoader resumed(pipeline);
  resumed.restore_state_rank(energon::decode_loader_state(file));
  CHECK(resumed.next()->keys == loader.next()->keys);

  const PipelineFactory named = [&](const energon::PipelineContext& context) {
    const auto same = [](energon::Sample sample, energon::CallContext&) { return sample; };
    return std::make_unique<energon::Map>(pipeline(context), same,
                                          energon::StageOptions{.name = "caf\xe9"});
  };
  const SavableDataLoaderState state = SavableDataLoader(named).save_state_rank();
  CHECK_THAT(error_of([&] { energon::encode_loader_state(state); }, ErrorCode::kUnsupported),
             Catch::Contains("not UTF-8"));
}
