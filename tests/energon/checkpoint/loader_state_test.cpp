#include "energon/checkpoint/loader_state.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_forms.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/error_of.h"

using energon::Error;
using energon::ErrorCode;
using energon::SavableDataLoaderState;
using energon::testing::error_of;
using energon::testing::LoaderFixture;

namespace {

SavableDataLoaderState example() {
  SavableDataLoaderState state;
  state.config = energon::Config::parse(R"({"rank": 0})");
  state.checkpoints.resize(2);
  state.checkpoints[0] = {energon::State{"Leaf", {{"position", std::int64_t{4}}}, {}}, 4, 1, 2};
  state.checkpoints[0].turn = {1, 1};
  state.checkpoints[1].logical_shard = 1;
  state.checkpoints[1].turn = {1, 0};
  state.next_worker_id = 1;
  state.epoch = 1;
  state.batch_index = 6;
  state.step_in_epoch = std::nullopt;
  state.micro_batch_size = 8;
  return state;
}

}  // namespace

TEST_CASE("a loader state survives a round trip through bytes and a file", "[loader][state]") {
  const energon::testing::TempDir folder;
  CHECK(energon::decode_loader_state(energon::encode_loader_state(example())) == example());
  energon::write_loader_state(folder.file("rank0.state"), example());
  CHECK(energon::read_loader_state(folder.file("rank0.state")) == example());
}

TEST_CASE("a loader state survives a round trip through JSON", "[loader][state]") {
  SavableDataLoaderState state = example();
  (*state.config)["num_workers"] = 2;
  (*state.config)["pipeline"] = {{"type", "Batch"}, {"inner", {{"type", "Leaf"}}}};
  state.checkpoints[1].certificate = {.digest = UINT64_MAX, .samples = 3};
  for (const std::optional<std::int64_t> step : {std::optional<std::int64_t>(), {6}}) {
    CAPTURE(step);
    state.step_in_epoch = step;
    const auto json = energon::loader_state_to_json(state);
    CHECK(energon::loader_state_from_json(json) == state);
    CHECK(energon::loader_state_from_json(energon::Config::parse(json.dump())) == state);
  }
  const auto refused = [&](const char* pointer, const energon::Config& value) -> std::string {
    auto json = energon::loader_state_to_json(state);
    json[energon::Config::json_pointer(pointer)] = value;
    try {
      energon::loader_state_from_json(json);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kCorruptData);
      const std::string text = error.what();
      return text.substr(0, text.find("; "));
    }
    return "accepted";
  };
  CHECK(refused("/next_worker_id", 2) ==
        "state.next_worker_id: found 2, expected a value in [0, 1]");
  CHECK(refused("/next_worker_id", 0) ==
        "state.next_worker_id: expected 1, which follows from the turns of the checkpoints, "
        "found 0");
  CHECK(refused("/micro_batch_size", 0) ==
        "state.micro_batch_size: found 0, expected a value in [1, 2147483647]");
  CHECK(refused("/epoch_finished", 0) == "state.epoch_finished: expected true or false, found 0");
  CHECK(refused("/config", "x") == "state.config: expected an object, found \"x\"");
  CHECK(refused("/checkpoints", energon::Config::array()) ==
        "state.checkpoints: expected at least one checkpoint");
  CHECK(refused("/checkpoints/0/offset", -1) ==
        "state.checkpoints[0].offset: expected a non-negative integer, found -1");
  CHECK(refused("/checkpoints/0/logical_shard", 1 << 20) ==
        "state.checkpoints[0].logical_shard: expected a valid logical shard, found 1048576");
  CHECK(refused("/checkpoints/1/certificate", "ffffffffffffffg0") ==
        "state.checkpoints[1].certificate: expected 16 hexadecimal digits, found "
        "\"ffffffffffffffg0\"");
  CHECK(refused("/checkpoints/1/certificate", "0xffffffffffffff") ==
        "state.checkpoints[1].certificate: expected 16 hexadecimal digits, found "
        "\"0xffffffffffffff\"");
  CHECK(refused("/checkpoints/0/state/type", nullptr) ==
        "state.checkpoints[0].state.type: expected a string, found null");
}

namespace {

// The error of both forms of a state for `value` at `pointer`, if it is the same.
std::string refused_in_both_forms(const char* pointer, const energon::Config& value) {
  SavableDataLoaderState state = example();
  state.config = energon::Config{{"rank", 1}, {"world_size", 2}, {"num_workers", 2}};
  (*state.config)["pipeline"] = {{"type", "Batch"}, {"inner", {{"type", "Leaf"}}}};
  energon::Config json = energon::loader_state_to_json(state);
  json[energon::Config::json_pointer(pointer)] = value;
  const std::string as_json =
      error_of([&] { energon::loader_state_from_json(json); }, ErrorCode::kCorruptData);

  const auto& worker = json.at("checkpoints").at(0);
  state.config = json.at("config");
  state.epoch = json.at("epoch");
  state.batch_index = json.at("batch_index");
  state.step_in_epoch =
      json.at("step_in_epoch").is_null() ? 0 : json.at("step_in_epoch").get<std::int64_t>();
  state.micro_batch_size = json.at("micro_batch_size");
  state.checkpoints[0].turn = {worker.at("turn").at("epoch"), worker.at("turn").at("count")};
  state.checkpoints[0].certificate.samples = worker.at("samples");
  state.checkpoints[0].index = worker.at("index");
  state.checkpoints[0].epoch = worker.at("epoch");
  state.checkpoints[0].offset = worker.at("offset");
  const std::string as_file =
      error_of([&] { energon::decode_loader_state(energon::encode_loader_state(state)); },
               ErrorCode::kCorruptData);
  return as_json == as_file ? as_json : as_json + " but in a file " + as_file;
}

}  // namespace

TEST_CASE("a configuration that no loader has is refused with the path", "[loader][state]") {
  const auto refused = refused_in_both_forms;
  CHECK(refused("/config/world_size", 2) == "no error");
  CHECK(refused("/config/world_size", 0) ==
        "state.config.world_size: expected a value in [1, 1048576], found 0");
  CHECK(refused("/config/world_size", std::int64_t{1} << 32) ==
        "state.config.world_size: expected a value in [1, 1048576], found 4294967296");
  CHECK(refused("/config/world_size", "2") ==
        "state.config.world_size: expected a 64-bit integer, found \"2\"");
  CHECK(refused("/config/rank", 2) == "state.config.rank: expected a value in [0, 1], found 2");
  CHECK(refused("/config/rank", -1) == "state.config.rank: expected a value in [0, 1], found -1");
  CHECK(refused("/config/num_workers", 4097) ==
        "state.config.num_workers: expected a value in [0, 4096], found 4097");
  CHECK(refused("/config/seed_offset", nullptr) ==
        "state.config.seed_offset: expected a 64-bit integer, found null");
  CHECK(refused("/config/logical_shards", 3) ==
        "state.config.logical_shards: expected a value in [4, 1048576], found 3");
  CHECK(refused("/config/pipeline", energon::Config::array({1, 2})) ==
        "state.config.pipeline: expected an object, found a list of 2");
  CHECK(refused("/config/pipeline/inner/type", 5) ==
        "state.config.pipeline.inner.type: expected a string, found 5");
  CHECK(refused("/config/pipeline/inner", energon::Config::array({{{"type", nullptr}}})) ==
        "state.config.pipeline.inner[0].type: expected a string, found null");
  CHECK(refused("/config", {{"world_size", 1 << 20}, {"num_workers", 2}, {"pipeline", {{}}}}) ==
        "state.config: 2097152 workers exceed the limit of 1048576, found an object of 3 members");
  CHECK(refused("/config",
                {{"logical_shards", 4}, {"division", "odd"}, {"pipeline", {{"type", "Leaf"}}}}) ==
        "state.config.division: expected even or energon, found \"odd\"");
}

TEST_CASE("counts whose sums would overflow are refused", "[loader][state]") {
  constexpr std::int64_t kMost = (std::int64_t{1} << 42) / 8;  // of batches of 8
  const auto refused = refused_in_both_forms;
  for (const char* name : {"/batch_index", "/step_in_epoch", "/checkpoints/0/turn/count"}) {
    CAPTURE(name);
    CHECK(refused(name, kMost) == "no error");
    CHECK_THAT(refused(name, kMost + 1), Catch::EndsWith("expected a value in [0, 549755813888]"));
    CHECK_THAT(refused(name, INT64_MAX), Catch::StartsWith("state.") && Catch::EndsWith("888]"));
  }
  for (const char* name : {"/epoch", "/checkpoints/0/turn/epoch", "/checkpoints/0/epoch"}) {
    CAPTURE(name);
    CHECK_THAT(refused(name, INT64_MAX), Catch::EndsWith("expected a value in [0, 2147483647]"));
  }
  // A logical shard is not at an earlier epoch than its loader, and its pipeline is at most one
  // epoch ahead.
  CHECK(refused("/checkpoints/0/turn/epoch", INT32_MAX) == "no error");
  CHECK_THAT(refused("/epoch", INT32_MAX),
             Catch::Contains("turn.epoch: found 1, expected a value in"));
  CHECK_THAT(refused("/checkpoints/0/epoch", INT32_MAX),
             Catch::EndsWith("expected a value in [0, 2]"));
  // The example is at index 4, offset 2.
  CHECK(refused("/checkpoints/0/index", 1 << 16) == "no error");
  CHECK(refused("/checkpoints/0/offset", 1 << 16) == "no error");
  for (const char* name : {"/checkpoints/0/index", "/checkpoints/0/offset"}) {
    CAPTURE(name);
    CHECK_THAT(refused(name, kMost - 4),
               Catch::Contains("state.checkpoints: they count 5497558138"));
  }
  CHECK(refused("/checkpoints/0/index", kMost - 1) ==
        "state.checkpoints[0].offset: found 2, expected a value in [0, 1]");
  CHECK(refused("/checkpoints/0/offset", INT64_MAX) ==
        "state.checkpoints[0].offset: found 9223372036854775807, expected a value in "
        "[0, 549755813884]");
  CHECK_THAT(refused("/checkpoints/0/samples", INT64_MAX),
             Catch::EndsWith("expected a value in [0, 4398046511104]"));
  CHECK(refused("/micro_batch_size", INT64_MAX) ==
        "state.micro_batch_size: found 9223372036854775807, expected a value in [1, 2147483647]");
}

TEST_CASE("a new micro batch size is not applied across an epoch that continues",
          "[loader][state]") {
  const energon::LoaderOptions options{.worker_config = {.logical_shards = 1}};
  for (const bool repeat : {true, false}) {
    CAPTURE(repeat);
    const LoaderFixture fixture({.batch_size = 4, .repeat = repeat}, {40});
    const auto saved = fixture.loader(0, options);
    energon::testing::take(*saved, 3);
    SavableDataLoaderState state = saved->save_state_rank();
    state.checkpoints[0].turn = {.epoch = INT32_MAX, .count = 0};
    energon::SavableDataLoader loader(
        energon::train_pipeline(fixture.dataset(), {.batch_size = 2, .repeat = repeat}), options);
    CHECK_THAT(error_of([&] { loader.restore_state_rank(state); }, ErrorCode::kMismatch),
               Catch::Contains("epoch 0 ended at batch 3, but the data continues"));
  }
}

TEST_CASE("a state truncated anywhere or with any bit flipped is refused", "[loader][state]") {
  const std::string bytes = energon::encode_loader_state(example());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    REQUIRE_THROWS_AS(energon::decode_loader_state(bytes.substr(0, length)), Error);
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    CAPTURE(bit);
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    REQUIRE_THROWS_AS(energon::decode_loader_state(flipped), Error);
  }
  REQUIRE_THROWS_AS(energon::decode_loader_state(bytes + "x"), Error);
}

TEST_CASE("a state of another version is refused with both versions", "[loader][state]") {
  std::string bytes = energon::encode_loader_state(example());
  bytes[8] = 9;
  try {
    energon::decode_loader_state(bytes);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUnsupported);
    CHECK_THAT(error.what(), Catch::Contains("version 9") && Catch::Contains("reads version 1"));
  }
}

TEST_CASE("a file that is not a state is named", "[loader][state]") {
  const energon::testing::TempDir folder;
  CHECK_THROWS_WITH(energon::read_loader_state(folder.write("x.state", "PK\3\4 something else")),
                    Catch::Contains("x.state") && Catch::Contains("not a saved loader state"));
}

TEST_CASE("the bytes of the example in docs/formats/checkpoint.md", "[loader][state]") {
  // The page explains each of these bytes. They never change after the first release.
  const std::string_view hex =
      "454e52474e434b50010000008f00000000000000010a0000007b2272616e6b223a307d01000000000000000100"
      "0000000000000100000000000000000600000000000000ffffffffffffffff0800000000000000020000000002"
      "02000000000000000000080204010025040000004c6561660100000008000000706f736974696f6e0004000000"
      "0000000000000000020200000000000000000000000000000000000015559918c6e1f536";
  std::string golden;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    golden.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  CHECK(energon::decode_loader_state(golden) == example());
  CHECK(energon::encode_loader_state(example()) == golden);
}

TEST_CASE("with an interval of 0, workers store a state only at the first batch of each epoch",
          "[loader][state][fork]") {
  const LoaderFixture fixture({.repeat = false}, {10});
  const auto loader = fixture.loader(2, {.checkpoint_every_batches = 0});
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    CAPTURE(epoch);
    // Five batches of each worker in an epoch.
    energon::testing::take(*loader, 7);
    const auto state = loader->save_state_rank();
    CHECK(state.checkpoints[0].index == 5 * epoch + 1);
    CHECK(state.checkpoints[0].offset == 3);
    CHECK(state.checkpoints[1].index == 5 * epoch + 1);
    CHECK(state.checkpoints[1].offset == 2);
    const auto rest = energon::testing::take(*loader, 4);
    CHECK(rest.back() == energon::testing::kEpochEnd);
    CHECK(energon::testing::take(*resumed(fixture, 2, state, {.checkpoint_every_batches = 0}), 4) ==
          rest);
  }
}
