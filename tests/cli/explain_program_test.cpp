// States and restore keys of a program with its own functions, explained by the plain program
// `energon`.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/checkpoint/job_state.h"
#include "energon/loader/savable_data_loader.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/tar_builder.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::Mapping;
using energon::Sample;
using energon::SavableDataLoader;
using energon::TrainOptions;
using energon::testing::json_lines;
using energon::testing::kTens;
using energon::testing::numbered_dataset;
using energon::testing::run_energon;
using energon::testing::run_lines;
using energon::testing::TempDir;
using energon::testing::operator+;
using energon::testing::Words;

namespace {

// Counts the characters of a string.
Sample encode(Sample sample, CallContext&) {
  const auto size = static_cast<std::int64_t>(sample.bytes("txt").size());
  sample.fields = {{"length", size}};
  return sample;
}

Mapping total(std::span<Sample> samples) {
  std::int64_t sum = 0;
  for (const Sample& sample : samples) {
    sum += std::get<std::int64_t>(sample.at("length").base());
  }
  return {{"total", sum}};
}

TrainOptions options() {
  TrainOptions options;
  options.task_encoder.encode_sample = energon::MapFunction(encode);
  options.task_encoder.batch = total;
  options.task_encoder.encode_batch =
      energon::MapFunction([](Sample batch, CallContext&) { return batch; });
  options.batch_size = 3;
  options.shuffle_buffer_size = 7;
  return options;
}

// 40 samples with a part `json`; every seventh of them is not JSON.
void write_damaged_json(const TempDir& folder) {
  energon::testing::TarBuilder tar;
  for (int i = 0; i < 40; ++i) {
    tar.file(fmt::format("{:06}.json", i), i % 7 == 3 ? "{damaged" : fmt::format("{}", i));
  }
  folder.write("shard-000.tar", tar.end().text());
}

}  // namespace

TEST_CASE("which-keys, which-step and get explain a job with an encoder",
          "[cli][checkpoint][fork]") {
  const TempDir folder;
  const TempDir states;
  const auto data = numbered_dataset(folder, kTens);
  std::vector<std::vector<Sample>> delivered;  // by rank
  std::vector<energon::SavableDataLoaderState> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    SavableDataLoader loader(energon::train_pipeline(data, options()),
                             {.worker_config = {.rank = rank, .world_size = 2, .num_workers = 2}});
    std::vector<Sample>& batches = delivered.emplace_back();
    for (int step = 0; step < 12; ++step) {
      batches.push_back(*loader.next());
    }
    ranks.push_back(loader.save_state_rank());
  }
  const std::string job = states.file("job.state");
  energon::write_job_state(job, energon::merge_states(ranks));

  const Words flags = {"--batch-size", "3", "--shuffle-buffer-size", "7"};
  for (const std::size_t step : {std::size_t{0}, std::size_t{7}, std::size_t{11}}) {
    const auto result =
        run_energon(Words{"which-keys", folder.path(), job, std::to_string(step)} + flags);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const auto lines = json_lines(result.out);
    REQUIRE(lines.size() == 2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(lines[rank].at("keys") == delivered[rank][step].keys.strings());
      CHECK(lines[rank].at("restore_key") == delivered[rank][step].restore_key.text());
    }
  }
  const Sample& batch = delivered[1][7];
  const auto found =
      run_energon(Words{"which-step", folder.path(), job, std::string(batch.keys[2])} + flags);
  INFO(found.err);
  REQUIRE(found.exit_code == 0);
  const auto steps = json_lines(found.out);
  CHECK(std::any_of(steps.begin(), steps.end(), [&](const auto& line) {
    return line.at("step") == 7 && line.at("rank") == 1 && line.at("position") == 2 &&
           line.at("restore_key") == batch.restore_key.text();
  }));

  const auto got =
      run_energon({"get", folder.path(), "--json", "--restore-key", batch.restore_key.text()});
  INFO(got.err);
  REQUIRE(got.exit_code == 0);
  const auto json = nlohmann::json::parse(got.out);
  CHECK(json.at("keys") == batch.keys.strings());
  CHECK(json.at("as_read") == true);
  CHECK(json.at("samples").at(0).at("parts").at(0).at("name") == "txt");
  const auto single = run_energon({"get", folder.path(), "--restore-key",
                                   "Packing(7)[Map(3)/Webdataset(0,41),Map(9)/Webdataset(0,5)]"});
  CHECK(single.exit_code == 0);
  CHECK_THAT(single.out, Catch::Contains("000041") && Catch::Contains("000005") &&
                             Catch::Contains("as stored in the data"));
  const auto outside =
      run_energon({"get", folder.path(), "--restore-key", "Map(1)/Webdataset(0,55)"});
  CHECK(outside.exit_code == 1);
  CHECK_THAT(outside.err, Catch::Contains("no sample 55 of dataset 0"));

  const auto foreign = run_energon(Words{"which-keys", folder.path(), job, "0"} +
                                   Words{"--batch-size", "3", "--shuffle-buffer-size", "8"});
  CHECK(foreign.exit_code == 1);
  CHECK_THAT(foreign.err, Catch::Contains("8, expected 7"));
}

TEST_CASE("a job whose functions choose the samples of a batch is not explained by a guess",
          "[cli][checkpoint]") {
  const TempDir folder;
  const TempDir states;
  TrainOptions packing = options();
  packing.task_encoder.encode_sample = {};
  packing.task_encoder.encode_batch = {};
  packing.packing_buffer_size = 4;
  packing.task_encoder.select_samples_to_pack = [](std::span<const Sample> samples) {
    std::vector<std::vector<std::size_t>> packs(1);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      packs.front().push_back(i);
    }
    return packs;
  };
  packing.task_encoder.pack_selected_samples = [](std::span<Sample>, CallContext&) {
    return Mapping{{"length", std::int64_t{1}}};
  };
  SavableDataLoader loader(energon::train_pipeline(numbered_dataset(folder, kTens), packing), {});
  const auto batch = loader.next();
  const std::string state = states.file("state");
  energon::write_loader_state(state, loader.save_state_rank());
  const auto refused = run_energon(
      {"which-keys", folder.path(), state, "0", "--batch-size", "3", "--shuffle-buffer-size", "7"});
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Catch::Contains("Packing") && Catch::Contains("--restore-key"));
  // Its keys can be found.
  const auto got =
      run_energon({"get", folder.path(), "--json", "--restore-key", batch->restore_key.text()});
  CHECK(nlohmann::json::parse(got.out).at("keys") == batch->keys.strings());
}

TEST_CASE("which-keys and which-step leave out samples that could not be decoded",
          "[cli][checkpoint][fork]") {
  const TempDir data;
  const TempDir states;
  write_damaged_json(data);
  const std::string state = states.file("state");
  const auto flags = GENERATE(Words{"--num-workers", "0"}, Words{"--num-workers", "2"}) +
                     Words{"--decode",
                           "torchrgb",
                           "--on-error",
                           "skip",
                           "--batch-size",
                           "3",
                           "--shuffle-buffer-size",
                           "5"};
  std::string text;
  for (const std::string& line : run_lines(
           data.path(), flags + Words{"--limit", "24", "--save-after", "20", "--save-to", state})) {
    text += line + "\n";
  }
  const auto delivered = json_lines(text);
  REQUIRE(delivered.size() == 24);
  for (std::size_t step = 0; step < 22; ++step) {
    CAPTURE(step, flags);
    const auto result =
        run_energon(Words{"which-keys", data.path(), state, std::to_string(step)} + flags);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const auto told = json_lines(result.out).at(0);
    CHECK(told.at("delivered") == (step < 20));
    if (step < 20) {
      CHECK(told.at("keys") == delivered[step].at("keys"));
      CHECK(told.at("restore_key") == delivered[step].at("restore_key"));
    }
  }
  const std::string key = delivered[17].at("keys").at(1);
  std::vector<std::size_t> expected;
  for (std::size_t step = 0; step < 20; ++step) {
    const auto keys = delivered[step].at("keys").get<Words>();
    expected.insert(expected.end(), static_cast<std::size_t>(std::ranges::count(keys, key)), step);
  }
  std::vector<std::size_t> steps;
  for (const auto& line :
       json_lines(run_energon(Words{"which-step", data.path(), state, key} + flags).out)) {
    steps.push_back(line.at("step"));
  }
  CHECK(steps == expected);
  const auto ordinal =
      json_lines(run_energon(Words{"which-keys", data.path(), state, "11"} + flags).out);
  CHECK(ordinal.at(0).at("batch") == "the 12th");
}

TEST_CASE("a job whose functions left out samples is not explained without them",
          "[cli][checkpoint]") {
  const TempDir folder;
  const TempDir states;
  TrainOptions skipping = options();
  skipping.task_encoder.encode_sample =
      energon::MapFunction([](Sample sample, CallContext& context) {
        if (sample.keys.front() == "000013") {
          throw energon::SkipSample();
        }
        return encode(std::move(sample), context);
      });
  SavableDataLoader loader(energon::train_pipeline(numbered_dataset(folder, kTens), skipping), {});
  const std::string before = states.file("before");
  const std::string after = states.file("after");
  const Words flags = {"--batch-size", "3", "--shuffle-buffer-size", "7"};
  bool is_left_out = false;
  for (int step = 0; step < 30; ++step) {
    loader.next();
    const auto state = loader.save_state_rank();
    is_left_out = loader.stats().workers.at(0).stages.at(1).skipped > 0;
    energon::write_loader_state(is_left_out ? after : before, state);
    if (is_left_out) {
      break;
    }
  }
  REQUIRE(is_left_out);
  CHECK(run_energon(Words{"which-keys", folder.path(), before, "0"} + flags).exit_code == 0);
  for (const Words& question : {Words{"which-keys", folder.path(), after, "0"},
                                Words{"which-step", folder.path(), after, "000001"}}) {
    const auto refused = run_energon(question + flags);
    CAPTURE(question, refused.out, refused.err);
    CHECK(refused.exit_code == 1);
    CHECK(refused.out.empty());
    CHECK_THAT(refused.err, Catch::Contains("SkipSample") && Catch::Contains(after) &&
                                Catch::Contains("--restore-key"));
  }
}

TEST_CASE("an error names the flags of the job in the state", "[cli][checkpoint]") {
  const TempDir folder;
  const TempDir states;
  SavableDataLoader loader(energon::train_pipeline(numbered_dataset(folder, kTens), options()), {});
  loader.next();
  const std::string state = states.file("state");
  energon::write_loader_state(state, loader.save_state_rank());
  const auto refused = run_energon({"which-keys", folder.path(), state, "0"});
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Catch::Contains("--batch-size 3 --shuffle-buffer-size 7"));
}
