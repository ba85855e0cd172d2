// Energon's states of ranks: their files, with missing or mistyped entries, and layouts of jobs.

#include "energon/megatron/energon_state.h"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/hash.h"
#include "tests/energon/megatron/energon_trees.h"
#include "tests/support/error_of.h"

namespace energon::testing {

using Catch::Contains;
using std::string_literals::operator""s;

namespace {

Json small_rank() {
  const Json worker = {{"sample_index", 3}, {"offset", 1}, {"state", {{"__class__", "X"}}}};
  return {{"next_worker_id", 1},
          {"micro_batch_size", 4},
          {"has_workers", true},
          {"workers", Json::array({worker, worker})}};
}

std::string refused_state(const Json& json) {
  return error_of([&] { parsed(json); }, ErrorCode::kCorruptData);
}

std::vector<EnergonRankState> states_of(const std::vector<Json>& ranks) {
  std::vector<EnergonRankState> states;
  for (const Json& rank : ranks) {
    states.push_back(parsed(rank));
  }
  return states;
}

std::string refused_layout(const std::vector<Json>& ranks, WorkerConfig layout,
                           ErrorCode code = ErrorCode::kMismatch) {
  return error_of([&] { energon_layout(states_of(ranks), layout); }, code);
}

// A file of python/tests/energon_states/stored.
std::string stored(const std::string& name) {
  return std::string(ENERGON_SOURCE_DIR) + "/python/tests/energon_states/stored/" + name;
}

// --- Pickles by hand: their letters are opcodes (io/pickle.cpp) ---

std::string text(const std::string& content) {
  return "\x8c"s + static_cast<char>(content.size()) + content;
}

// An object of a class whose fields are `body`, keys and values in turn.
std::string object(const std::string& name, const std::string& body) {
  return "cmegatron.energon." + name + "\n)\x81}(" + body + "ub";
}

std::string worker_with(const std::string& tree) {
  return object(
      "savable_loader\nSavableDatasetCheckpoint",
      text("state") +
          object("savable_loader\nSavableDatasetState", text("rng") + "N" + text("dataset_state") +
                                                            tree + text("sample_index") + "K\x03") +
          text("offset") + "K\x01");
}

std::string rank_with_workers(const std::string& workers) {
  return object("savable_loader\nSavableDataLoaderState",
                text("worker_states") + "](" + workers + "e" + text("next_worker_id") + "K\x00"s +
                    text("micro_batch_size") + "K\x04");
}

std::vector<EnergonRankState> parsed_pickle(const std::string& body) {
  return parse_energon_states(as_bytes("\x80\x02" + body + "."), "rank.pt");
}

// The tree of the only worker of a rank.
Json tree_of(const std::string& tree) {
  return *parsed_pickle(rank_with_workers(worker_with(tree))).at(0).workers.at(0).tree;
}

std::string refused_pickle(const std::string& body) {
  return error_of([&] { parsed_pickle(body); }, ErrorCode::kCorruptData);
}

std::string refused_tree(const std::string& tree) {
  return refused_pickle(rank_with_workers(worker_with(tree)));
}

}  // namespace

TEST_CASE("States that the real Energon saved are read with all of their numbers", "[megatron]") {
  // From the JSON of Python's unpickler, written by a program of an earlier version of this
  // project.
  struct Expected {
    std::string name;
    std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> workers;  // by rank
    bool has_workers;
    std::vector<std::string> digests;  // of the trees
  };
  const std::vector<Expected> files = {
      {"shuffled.pt", {{{9, 0}}}, false, {"1673b4e114c0dda6"}},
      {"workers.pickle", {{{1, 4}, {1, 3}}}, true, {"cbc95236d98f858a", "7b19f1d9daf3987e"}},
      {"ranks_of_old_torch.pt",
       {{{9, 0}}, {{9, 0}}},
       false,
       {"b73cd7600ff2cc56", "d2791f42c8ea0307"}},
  };
  for (const Expected& file : files) {
    CAPTURE(file.name);
    const auto ranks = read_energon_states({stored(file.name)});
    REQUIRE(ranks.size() == file.workers.size());
    std::vector<std::string> digests;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      CHECK(ranks[i].path == stored(file.name));
      CHECK_FALSE(ranks[i].is_start);
      CHECK(ranks[i].has_workers == file.has_workers);
      CHECK(ranks[i].micro_batch_size == 4);
      std::vector<std::pair<std::int64_t, std::int64_t>> workers;
      for (const EnergonWorkerState& worker : ranks[i].workers) {
        workers.emplace_back(worker.sample_index, worker.offset);
        digests.push_back(to_hex(xxh3_64(as_bytes((*worker.tree)->dump()))));
      }
      CHECK(workers == file.workers[i]);
    }
    CHECK(digests == file.digests);
  }
}

TEST_CASE("Everything that a rank saved is read", "[megatron]") {
  const auto state = parsed(small_rank());
  CHECK(state.path == "rank.pt");
  CHECK_FALSE(state.is_start);
  CHECK(state.has_workers);
  CHECK(state.next_worker_id == 1);
  CHECK(state.micro_batch_size == 4);
  REQUIRE(state.workers.size() == 2);
  CHECK(state.workers[1].sample_index == 3);
  CHECK(state.workers[1].offset == 1);
  CHECK((*state.workers[1].tree)->value("__class__", "") == "X");
  CHECK(parsed(nullptr).is_start);
}

TEST_CASE("A file holds one rank, a list of ranks, or Megatron-LM's dict", "[megatron]") {
  const std::string rank = rank_with_workers(worker_with("}"));
  CHECK(parsed_pickle(rank).size() == 1);
  CHECK(parsed_pickle("N").at(0).is_start);
  const auto list = parsed_pickle("](" + rank + "N" + rank + "e");
  REQUIRE(list.size() == 3);
  CHECK(list[1].is_start);
  CHECK(list[2].workers.at(0).sample_index == 3);
  CHECK(parsed_pickle("}" + text("dataloader_state_dict") + rank + "s").size() == 1);
}

TEST_CASE("Energon's mark of a worker that had not started is before its first batch",
          "[megatron]") {
  for (const auto& [saved, expected] : {std::pair{6, 5}, {1, 0}, {0, 0}}) {
    const std::string offset = "K"s + static_cast<char>(saved);
    const auto ranks =
        parsed_pickle(rank_with_workers(object("savable_loader\nSavableDatasetCheckpoint",
                                               text("state") + "N" + text("offset") + offset)));
    CHECK(ranks.at(0).workers.at(0).offset == expected);
    CHECK_FALSE(ranks.at(0).workers.at(0).tree);
  }
}

TEST_CASE("A worker without a process is its dataset", "[megatron]") {
  const auto ranks = parsed_pickle(rank_with_workers("cmegatron.energon.state\nFlexState\n)\x81(" +
                                                     text("__class__") + text("X") +
                                                     text("_sample_index") + "K\x07u"));
  CHECK_FALSE(ranks.at(0).has_workers);
  CHECK(ranks.at(0).workers.at(0).sample_index == 7);
  CHECK((*ranks.at(0).workers.at(0).tree)->dump() == R"({"__class__":"X","_sample_index":7})");
}

TEST_CASE("Values of a tree become JSON", "[megatron]") {
  CHECK(tree_of("}(" + text("key") + text("Webdataset") + "K\x05\x86" + text("half") +
                "G\x3f\xe0\x00\x00\x00\x00\x00\x00"s + text("bytes") + "C\x02\x00\xff"s +
                text("none") + "Nu")
            .dump() ==
        R"({"key":["Webdataset",5],"half":0.5,"bytes":{"base64":"AP8="},"none":null})");
  // Bytes of protocol 2.
  CHECK(tree_of("}" + text("x") + "c_codecs\nencode\n" + text("\x01\xc3\xbf\xc2\x80") +
                text("latin1") + "\x86Rs")
            .dump() == R"({"x":{"base64":"Af+A"}})");
  CHECK(tree_of("}" + text("x") + "c__builtin__\nbytes\n)Rs").dump() == R"({"x":{"base64":""}})");
  // Groups are named by any simple criterion.
  CHECK(tree_of("}(K\x01" + text("a") + "\x86K\x01K\x02K\x02\x88K\x03NK\x04" +
                "G\x3f\xe0\x00\x00\x00\x00\x00\x00"s + "K\x05u")
            .dump() == R"~({"(1, a)":1,"2":2,"True":3,"None":4,"0.5":5})~");
  std::string name = "K\x01";
  for (int i = 0; i < 8; ++i) {
    name += "\x85";
  }
  CHECK(tree_of("}" + name + "Ns").dump() == R"~({"((((((((1))))))))":null})~");
  CHECK_THAT(refused_tree("}" + name + "\x85Ns"), Contains("the name of an entry is a tuple"));
  // Slices are dataclasses with slots: values in the order of the fields.
  const std::string slice =
      "cmegatron.energon.flavors.webdataset.sample_loader\nSliceState\n)\x81](K\x01K\x02"
      "eb";
  CHECK(tree_of("](" + slice + "Ne").dump() == R"([{"index":1,"current":2},null])");
  CHECK(tree_of("cmegatron.energon.state\nFlexState\n)\x81" + text("a") + "K\x01s}b").dump() ==
        R"({"a":1})");
}

TEST_CASE("Values that no state of a dataset has are refused", "[megatron]") {
  CHECK_THAT(refused_tree("}" + text("x") + "\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01s"),
             Contains("an integer of 9 bytes"));
  CHECK_THAT(refused_tree("G\x7f\xf8\x00\x00\x00\x00\x00\x00"s), Contains("the number nan"));
  CHECK_THAT(refused_tree("cnumpy\nndarray\n)R"), Contains("a numpy.ndarray is in the state"));
  CHECK_THAT(refused_tree("cnumpy\nndarray\n"), Contains("a class is in the state"));
  CHECK_THAT(refused_tree("K\x01Q"), Contains("a storage is in the state"));
  CHECK_THAT(refused_tree("}(" + text("a") + "N" + text("a") + "Nu"), Contains("two entries 'a'"));
  CHECK_THAT(refused_tree("c_codecs\nencode\n" + text("\xe2\x82\xac") + text("latin1") + "\x86R"),
             Contains("not written as latin1"));
  CHECK_THAT(refused_tree("]q\x00h\x00"s + "a"), Contains("nested more than 200 deep"));
  std::string shared = "]q\x00"s;
  for (char i = 1; i < 50; ++i) {
    shared += "](h"s + static_cast<char>(i - 1) + "h" + static_cast<char>(i - 1) + "eq" + i;
  }
  CHECK_THAT(refused_tree("(" + shared + "t"),
             Contains("which the size of the file does not explain"));
}

TEST_CASE("The errors of files that are not states describe them", "[megatron]") {
  CHECK_THAT(refused_pickle("cos\nsystem\n" + text("true") + "\x85R"),
             Contains("the pickle refers to 'os.system'") && Contains("rank.pt") &&
                 Contains("byte 2 of the pickle"));
  CHECK_THAT(refused_pickle("}(" + text("model") + "K\x01" + text("optimizer") + "K\x02u"),
             Contains("found a dict with the entries 'model', 'optimizer'"));
  CHECK_THAT(refused_pickle("]"), Contains("found an empty list"));
  CHECK_THAT(refused_pickle("]K\x01"
                            "a"),
             Contains("found an int"));
  CHECK_THAT(refused_pickle(rank_with_workers("K\x05")), Contains("of a worker, found an int"));
  CHECK_THAT(refused_pickle(object("savable_loader\nSavableDataLoaderState", "")),
             Contains("are not worker_states, next_worker_id, micro_batch_size"));
  CHECK_THAT(refused_pickle("cmegatron.energon.savable_loader\nSavableDataLoaderState\n)\x81"),
             Contains("SavableDataLoaderState without fields"));
  CHECK_THAT(error_of([] { parse_energon_states({}, "a.pt"); }, ErrorCode::kCorruptData),
             Contains("a.pt"));
  CHECK_THAT(error_of([] { parse_energon_states(as_bytes("PK\x05\x06"), "a.pt"); },
                      ErrorCode::kCorruptData),
             Contains("zip"));
}

TEST_CASE("An entry that is missing, or of another kind, is named", "[megatron]") {
  int count = 0;
  for (const std::string parent : {"", "/workers/1"}) {
    const Json::json_pointer place(parent);
    const Json entries = small_rank().at(place);
    for (const auto& [name, value] : entries.items()) {
      CAPTURE(parent, name);
      Json missing = small_rank();
      missing.at(place).erase(name);
      CHECK_THAT(refused_state(missing), Contains("expected a member '" + name + "'"));
      if (name == "state") {
        continue;  // read later
      }
      for (const Json& other : {Json("text"), Json(-1), Json(1.5), Json::object(), Json::array()}) {
        if (other.type() == value.type() && name != "workers") {
          continue;
        }
        Json wrong = small_rank();
        wrong.at(place)[name] = other;
        CHECK_THAT(refused_state(wrong), Contains(name));
        ++count;
      }
    }
  }
  CHECK(count == 26);
}

TEST_CASE("Numbers that no job has are refused", "[megatron]") {
  const auto with = [](const std::string& place, const Json& value) {
    Json json = small_rank();
    json.at(Json::json_pointer(place)) = value;
    return refused_state(json);
  };
  CHECK_THAT(with("/next_worker_id", 2),
             Contains("expected a number below 2, the number of workers"));
  CHECK_THAT(with("/micro_batch_size", 0), Contains("expected a batch size from 1 to 2^31 - 1"));
  CHECK_THAT(with("/micro_batch_size", std::int64_t{1} << 31),
             Contains("expected a batch size from 1 to 2^31 - 1"));
  CHECK_THAT(with("/has_workers", false), Contains("exactly one without processes"));
  CHECK_THAT(with("/workers/0/sample_index", (std::int64_t{1} << 42) + 1),
             Contains("workers[0].sample_index") && Contains("which no job exceeds"));
  CHECK_THAT(with("/workers/0/offset", -1), Contains("expected a non-negative integer"));
}

TEST_CASE("The layout of a job is derived from its states", "[megatron]") {
  const auto states = states_of({small_rank()});
  CHECK(energon_layout(states, {}).num_workers == 2);
  const WorkerConfig one = energon_layout(states, {.rank = 2, .world_size = 3});
  CHECK(one.world_size == 3);
  CHECK(one.rank == 2);
  const auto start = states_of({nullptr});
  CHECK(energon_layout(start, {.num_workers = 5}).num_workers == 5);
}

TEST_CASE("The errors of states that do not form a job name the remedy", "[megatron]") {
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
