// The states of each set of golden files are restored and continue as they did when they were
// written. Files written today equal the newest set, byte for byte (tests/support/golden.h).

#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/state_forms.h"
#include "io/json.h"
#include "tests/energon/loader/every_stage.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/golden.h"

using energon::LoaderOptions;
using energon::PipelineFactory;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::WorkerConfig;
using energon::testing::check_golden;
using energon::testing::describe_next;
using energon::testing::golden_lines;
using energon::testing::golden_path;
using energon::testing::golden_sets;
using energon::testing::kTens;
using energon::testing::numbered_dataset;
using energon::testing::read_golden;
using energon::testing::TempDir;

namespace {

// A position of one rank: after `before` calls of next().
struct Position {
  std::string name;
  PipelineFactory pipeline;
  LoaderOptions options = {};
  std::size_t before;
  std::size_t after;  // calls that are compared
  bool has_json = false;
};

std::vector<std::string> go_on(const Position& position, const SavableDataLoaderState& state) {
  SavableDataLoader loader(position.pipeline, position.options);
  loader.restore_state_rank(state);
  return describe_next(loader, position.after);
}

// `writing` are the options of the loader that saves.
void check_position(const Position& position, const LoaderOptions& writing) {
  SavableDataLoader loader(position.pipeline, writing);
  describe_next(loader, position.before);
  const SavableDataLoaderState state = loader.save_state_rank();
  check_golden(position.name + ".state", encode_loader_state(state));
  if (position.has_json) {
    check_golden(position.name + ".json", loader_state_to_json(state).dump() + "\n");
  }
  check_golden(position.name + ".next", describe_next(loader, position.after));
  for (const std::string& set : golden_sets()) {
    INFO("set " << set << ", position " << position.name);
    const std::vector<std::string> next = golden_lines(set, position.name + ".next");
    const std::string path = golden_path(set, position.name + ".state");
    CHECK(go_on(position, energon::read_loader_state(path)) == next);
    if (position.has_json) {
      const auto json = nlohmann::ordered_json::parse(read_golden(set, position.name + ".json"));
      CHECK(go_on(position, energon::loader_state_from_json(json)) == next);
    }
  }
}

void check_position(const Position& position) { check_position(position, position.options); }

// Names and base64 of the bytes.
nlohmann::ordered_json to_json(const energon::FlatState& flat) {
  nlohmann::ordered_json json;
  for (const auto& [name, tensor] : flat) {
    json[name] = energon::to_base64(energon::as_text(tensor.data.view));
  }
  return json;
}

energon::FlatState flat_from_json(const nlohmann::ordered_json& json) {
  energon::FlatState flat;
  for (const auto& [name, value] : json.items()) {
    const auto bytes =
        std::make_shared<const std::string>(energon::from_base64(value.get<std::string>()).value());
    flat[name] = {.dtype = energon::DType::kUInt8,
                  .shape = {std::ssize(*bytes)},
                  .data = {energon::as_bytes(*bytes), bytes}};
  }
  return flat;
}

}  // namespace

TEST_CASE("golden: a rank with every stage continues", "[loader][golden]") {
  const TempDir folder;
  check_position({.name = "every_stage",
                  .pipeline = energon::testing::every_stage(numbered_dataset(folder, kTens)),
                  .before = 10,
                  .after = 12,
                  .has_json = true});
}

TEST_CASE("golden: batches of tars and lines in order continue", "[loader][golden]") {
  const TempDir folder;
  energon::testing::write_jsonl(folder, "lines.jsonl", 23);
  check_position({.name = "in_order",
                  .pipeline = energon::testing::batches_in_order(numbered_dataset(folder, kTens),
                                                                 folder.file("lines.jsonl")),
                  .before = 4,
                  .after = 20,
                  .has_json = true});
}

TEST_CASE("golden: draws that are exactly a sum of weights continue", "[loader][golden]") {
  check_position({.name = "tie_of_slices",
                  .pipeline = energon::testing::equal_slices(),
                  .options = {.worker_config = {.seed_offset = energon::testing::kTieOfSlices}},
                  .before = 40,
                  .after = 40});
  check_position({.name = "tie_of_blend",
                  .pipeline = energon::testing::equal_blend(),
                  .options = {.worker_config = {.seed_offset = energon::testing::kTieOfBlend}},
                  .before = 20,
                  .after = 20});
}

TEST_CASE("golden: logical shards that workers saved with offsets continue",
          "[loader][golden][fork]") {
  const TempDir folder;
  const WorkerConfig layout{.rank = 1, .world_size = 2, .logical_shards = 6};
  LoaderOptions writing{.worker_config = layout, .checkpoint_every_batches = 3};
  writing.worker_config.num_workers = 2;
  check_position({.name = "offsets",
                  .pipeline = energon::testing::every_stage(numbered_dataset(folder, kTens)),
                  .options = {.worker_config = layout},
                  .before = 8,
                  .after = 20},
                 writing);
}

TEST_CASE("golden: a job continues from its file and from its flat form", "[loader][golden]") {
  constexpr std::size_t kBefore = 9;
  constexpr std::size_t kAfter = 9;
  const TempDir folder;
  const PipelineFactory pipeline =
      energon::testing::every_stage(numbered_dataset(folder, {30, 25}));
  const auto loader_of = [&](int rank) {
    return SavableDataLoader(pipeline, {.worker_config = {.rank = rank, .world_size = 2}});
  };
  std::vector<SavableDataLoaderState> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    SavableDataLoader loader = loader_of(rank);
    describe_next(loader, kBefore);
    ranks.push_back(loader.save_state_rank());
    check_golden("job.next" + std::to_string(rank), describe_next(loader, kAfter));
  }
  const energon::SavableJobState job = energon::merge_states(ranks);
  check_golden("job.state", encode_job_state(job));
  check_golden("job.flat.json", to_json(flatten_state(job)).dump() + "\n");

  for (const std::string& set : golden_sets()) {
    const auto saved = energon::read_saved_state(golden_path(set, "job.state"));
    const auto flat =
        flat_from_json(nlohmann::ordered_json::parse(read_golden(set, "job.flat.json")));
    for (int rank = 0; rank < 2; ++rank) {
      INFO("set " << set << ", rank " << rank);
      const auto next = golden_lines(set, "job.next" + std::to_string(rank));
      SavableDataLoader from_file = loader_of(rank);
      from_file.restore_state_rank(energon::state_of_rank(saved, rank));
      CHECK(describe_next(from_file, kAfter) == next);
      SavableDataLoader from_names = loader_of(rank);
      from_names.restore_state_rank(unflatten_state(flat, rank));
      CHECK(describe_next(from_names, kAfter) == next);
    }
  }
}
