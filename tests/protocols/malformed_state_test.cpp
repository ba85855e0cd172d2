// States that no loader saved, passed to the protocols: an Error with the path, never a crash.

#include <memory>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/loader/savable_data_loader.h"
#include "protocols/cerebras/restartable_rank.h"
#include "protocols/torchdata/stateful_data_loader.h"
#include "tests/protocols/torchdata/stateful_fixture.h"
#include "tests/support/error_of.h"

using energon::ErrorCode;
using energon::RestartableRank;
using energon::StatefulDataLoader;
using energon::testing::Dict;
using energon::testing::error_of;
using energon::testing::uneven_workers;

namespace {

// `levels` times {"inner":[ around a number.
Dict nested(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) {
    text += R"({"inner":[)";
  }
  text += "0";
  for (int i = 0; i < levels; ++i) {
    text += "]}";
  }
  return Dict::parse(text);
}

}  // namespace

TEST_CASE("the state of a job with an invalid configuration is refused with the path",
          "[protocols]") {
  RestartableRank rank(std::make_shared<energon::SavableDataLoader>(uneven_workers(4)),
                       energon::Uneven::kRefuse);
  const Dict own = rank.state_dict();
  const auto refused = [&](const char* pointer, const Dict& value) {
    Dict job = {{"ranks", {own}}};
    job[Dict::json_pointer(pointer)] = value;
    return error_of([&] { rank.deaggregate_state_dict(job, energon::Strictness::kStrict); },
                    ErrorCode::kCorruptData);
  };
  CHECK(refused("/ranks/0/config/rank", 0) == "no error");
  CHECK(refused("/ranks/0/config/world_size", 0) ==
        "ranks[0].config.world_size: expected a value in [1, 1048576], found 0");
  CHECK(refused("/ranks/0/config/world_size", std::int64_t{1} << 32) ==
        "ranks[0].config.world_size: expected a value in [1, 1048576], found 4294967296");
  CHECK(refused("/ranks/0/config/pipeline/type", 5) ==
        "ranks[0].config.pipeline.type: expected a string, found 5");
  CHECK(refused("/ranks/0/config", Dict{{"rank", 0}}) ==
        "ranks[0].config: expected a member 'pipeline', found an object of 1 members");
}

TEST_CASE("an endlessly nested dictionary is refused", "[protocols]") {
  StatefulDataLoader loader(uneven_workers());
  const Dict before = loader.state_dict();
  Dict dict = {{"version", 1}, {"steps", 0}};
  dict["source"] = nested(100'000);
  CHECK(error_of([&] { loader.load_state_dict(dict); }, ErrorCode::kCorruptData) ==
        "state_dict.source: too deeply nested");
  dict["steps"] = nested(100'000);
  CHECK(error_of([&] { loader.load_state_dict(dict); }, ErrorCode::kCorruptData) ==
        "state_dict.steps: expected a 64-bit integer, found an object of 1 members");
  CHECK(loader.state_dict() == before);

  RestartableRank rank(std::make_shared<energon::SavableDataLoader>(uneven_workers()),
                       energon::Uneven::kRefuse);
  Dict state = rank.state_dict();
  state["config"]["pipeline"] = nested(100'000);
  CHECK(error_of([&] { rank.load_state_dict(state, energon::Strictness::kStrict); },
                 ErrorCode::kCorruptData) == "state: too deeply nested");
}
