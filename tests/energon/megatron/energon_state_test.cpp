// The JSON of Energon's states: each entry missing, or of another kind; and layouts of jobs.

#include "energon/megatron/energon_state.h"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/energon/megatron/energon_trees.h"
#include "tests/support/error_of.h"

namespace energon::testing {

using Catch::Contains;

namespace {

Json small_rank() {
  const Json worker = {{"sample_index", 3}, {"offset", 1}, {"state", {{"__class__", "X"}}}};
  return {{"next_worker_id", 1},
          {"micro_batch_size", 4},
          {"has_workers", true},
          {"workers", Json::array({worker, worker})}};
}

Json small_file() { return energon_file("a.pt", {small_rank(), nullptr}); }

std::string refused_state(const Json& json) {
  return error_of([&] { parse_energon_states(json.dump()); }, ErrorCode::kCorruptData);
}

std::string refused_layout(std::vector<Json> ranks, WorkerConfig layout,
                           ErrorCode code = ErrorCode::kMismatch) {
  const auto states = parse_energon_states(energon_file("a.pt", std::move(ranks)).dump());
  return error_of([&] { energon_layout(states, layout); }, code);
}

}  // namespace

TEST_CASE("States of Energon are read with all of their numbers", "[megatron]") {
  const auto ranks = parse_energon_states(small_file().dump());
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].path == "a.pt");
  CHECK_FALSE(ranks[0].is_start);
  CHECK(ranks[0].has_workers);
  CHECK(ranks[0].next_worker_id == 1);
  CHECK(ranks[0].micro_batch_size == 4);
  REQUIRE(ranks[0].workers.size() == 2);
  CHECK(ranks[0].workers[1].sample_index == 3);
  CHECK(ranks[0].workers[1].offset == 1);
  CHECK((*ranks[0].workers[1].tree)->value("__class__", "") == "X");
  CHECK(ranks[1].is_start);
}

TEST_CASE("A missing or mistyped entry is named", "[megatron]") {
  const Json::json_pointer parents[] = {Json::json_pointer(""), Json::json_pointer("/files/0"),
                                        Json::json_pointer("/files/0/ranks/0"),
                                        Json::json_pointer("/files/0/ranks/0/workers/1")};
  int count = 0;
  for (const Json::json_pointer& parent : parents) {
    const Json entries = small_file().at(parent);
    for (const auto& [name, value] : entries.items()) {
      CAPTURE(parent.to_string(), name);
      if (name == "is_list") {
        continue;  // for people
      }
      Json missing = small_file();
      missing.at(parent).erase(name);
      CHECK_THAT(refused_state(missing), Contains("expected a member '" + name + "'"));
      if (name == "state") {
        continue;  // read later
      }
      for (const Json& other : {Json("text"), Json(-1), Json(1.5), Json::object(), Json::array()}) {
        if (other.type() == value.type() && name != "workers") {
          continue;
        }
        Json wrong = small_file();
        wrong.at(parent)[name] = other;
        CHECK_THAT(refused_state(wrong), Contains(name));
        ++count;
      }
    }
  }
  CHECK(count > 30);
}

TEST_CASE("Impossible numbers are refused", "[megatron]") {
  const auto with = [](const std::string& place, const Json& value) {
    Json json = small_file();
    json.at(Json::json_pointer(place)) = value;
    return refused_state(json);
  };
  const std::string rank = "/files/0/ranks/0";
  CHECK_THAT(with("/version", 2), Contains("states.version") && Contains("expected 1"));
  CHECK_THAT(with(rank + "/next_worker_id", 2), Contains("below 2, the number of workers"));
  CHECK_THAT(with(rank + "/micro_batch_size", 0), Contains("expected a batch size from 1"));
  CHECK_THAT(with(rank + "/micro_batch_size", std::int64_t{1} << 31),
             Contains("from 1 to 2^31 - 1"));
  CHECK_THAT(with(rank + "/has_workers", false), Contains("exactly one without processes"));
  CHECK_THAT(with(rank + "/workers/0/sample_index", (std::int64_t{1} << 42) + 1),
             Contains("workers[0].sample_index") && Contains("at most what a job can deliver"));
  CHECK_THAT(with(rank + "/workers/0/offset", -1), Contains("non-negative integer"));
}

TEST_CASE("Text that is not JSON, or nested too deeply, is refused", "[megatron]") {
  const auto parse = [](const std::string& text) {
    return error_of([&] { parse_energon_states(text); }, ErrorCode::kCorruptData);
  };
  CHECK_THAT(parse(""), Contains("wrote 0 bytes that are not JSON"));
  CHECK_THAT(parse(R"({"version": 1)"), Contains("not JSON"));
  CHECK_THAT(parse(std::string(2000, '[') + std::string(2000, ']')), Contains("too deeply nested"));
}

TEST_CASE("The layout of a job comes from its states", "[megatron]") {
  const auto states = parse_energon_states(energon_file("a.pt", {small_rank()}).dump());
  CHECK(energon_layout(states, {}).num_workers == 2);
  const WorkerConfig one = energon_layout(states, {.rank = 2, .world_size = 3});
  CHECK(one.world_size == 3);
  CHECK(one.rank == 2);
  const auto start = parse_energon_states(energon_file("a.pt", {nullptr}).dump());
  CHECK(energon_layout(start, {.num_workers = 5}).num_workers == 5);
}

TEST_CASE("States that do not form a job are refused with advice", "[megatron]") {
  CHECK_THAT(refused_layout({small_rank(), small_rank()}, {.world_size = 3}),
             Contains("states of 2 ranks, but the job has 3"));
  CHECK_THAT(refused_layout({small_rank()}, {.logical_shards = 4}, ErrorCode::kInvalidArgument),
             Contains("energon checkpoint rescale"));
  Json other = small_rank();
  other["workers"].erase(1);
  other["next_worker_id"] = 0;
  CHECK_THAT(refused_layout({small_rank(), other}, {.world_size = 2}),
             Contains("the rank has 1 workers") && Contains("has 2"));
}

}  // namespace energon::testing
