// Commands on metadatasets and JSONL files: info, lint, preview, run, get, bench.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/recipe_folder.h"

using energon::testing::kTens;
using energon::testing::RecipeFolder;
using energon::testing::run_energon;
using energon::testing::TempDir;
using energon::testing::write_jsonl;

namespace {

// A blend by weight in `train`, by repetitions in `epochs`; two datasets one after the other in
// `val`.
class Recipe : public RecipeFolder {
 public:
  Recipe()
      : RecipeFolder(
            {{.name = "a", .counts = kTens}, {.name = "b", .counts = {14}, .first = 100}}) {
    write_jsonl(*this, "lines.jsonl", 20);
    write("m.yaml", R"(
__class__: MetadatasetV2
splits:
  train:
    blend:
    - {weight: 3, path: a, subflavors: {kind: text}}
    - {weight: 1, path: lines.jsonl}
  epochs:
    blend_epochized:
    - {repetitions: 0.5, path: a, split_part: train}
    - {repetitions: 2, path: b, split_part: train, subset: {range: [0%, 50%]}}
  val:
    blend_epochized:
    - {path: a, split_part: train}
    - {path: b, split_part: train}
)");
  }
};

}  // namespace

TEST_CASE("info shows the tree of a metadataset with shares and lengths", "[cli][info]") {
  const Recipe recipe;
  const auto result = run_energon({"info", recipe.file("m.yaml")});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  const std::string a = recipe.file("a");
  const std::string b = recipe.file("b");
  CHECK_THAT(
      result.out,
      Catch::Contains("kind:      metadataset\n") && Catch::Contains("split train:\n") &&
          Catch::Contains("blend by weight\n") &&
          Catch::Contains(" 75.0 %  " + a +
                          " [train], 55 samples, {\"kind\":\"text\"}, weight 3\n") &&
          Catch::Contains(" 25.0 %  " + recipe.file("lines.jsonl") + ", 20 samples, weight 1\n") &&
          Catch::Contains("blend by repetitions\n") &&
          Catch::Contains(" 65.9 %  " + a +
                          " [train], 55 samples, 27 an epoch, repetitions 0.5\n") &&
          Catch::Contains(b +
                          " [train], 7 samples (from 0 to 7 of 14), 14 an epoch, repetitions 2\n"));
  CHECK_THAT(run_energon({"info", recipe.file("lines.jsonl")}).out,
             Catch::Contains("kind:      JSONL file\n") && Catch::Contains("samples:   20\n"));
}

TEST_CASE("lint reads all datasets of a metadataset and names the one at fault", "[cli][lint]") {
  const Recipe recipe;
  const auto good = run_energon({"lint", recipe.file("m.yaml"), "--no-progress"});
  INFO(good.err);
  CHECK(good.exit_code == 0);
  CHECK_THAT(good.out, Catch::Contains("89 samples in 8 shards of 3 datasets scanned") &&
                           Catch::Contains("no problems"));
  std::string lines = energon::read_file(recipe.file("lines.jsonl"));
  lines.replace(lines.find("\"n\": 7"), 6, "'n': 7");
  std::ofstream(recipe.file("lines.jsonl")) << lines;
  std::filesystem::remove(recipe.file("b/parts/data-0.tar"));
  const auto bad = run_energon({"lint", recipe.file("m.yaml"), "--no-progress"});
  CHECK(bad.exit_code == 1);
  const std::string a = recipe.file("a");
  CHECK_THAT(bad.out, Catch::Contains(recipe.file("lines.jsonl") +
                                      ": lines.jsonl: byte 64: line 8 is not valid JSON: ") &&
                          Catch::Contains(recipe.file("b") + ": parts/data-0.tar: ") &&
                          Catch::Contains("2 problems"));
  const auto alone = run_energon({"lint", recipe.file("lines.jsonl")});
  CHECK(alone.exit_code == 1);
  CHECK_THAT(alone.out, Catch::StartsWith("lines.jsonl: byte 64: line 8 is not valid JSON: ") &&
                            Catch::Contains("19 samples in 1 shard scanned"));
}

TEST_CASE("preview shows samples of each dataset of a metadataset", "[cli][preview]") {
  const Recipe recipe;
  const auto train = run_energon({"preview", recipe.file("m.yaml"), "--count", "2"});
  INFO(train.err);
  CHECK(train.exit_code == 0);
  CHECK_THAT(train.out, Catch::StartsWith(fmt::format(
                            "== {} [train]\n"
                            "000000  (parts/data-0.tar, sample 0)\n  txt: 1 byte, text 0\n"
                            "000001  (parts/data-0.tar, sample 1)\n  txt: 1 byte, text 1\n\n"
                            "== {}\n"
                            "0  (lines.jsonl, sample 0)\n  json: 8 bytes, json\n",
                            recipe.file("a"), recipe.file("lines.jsonl"))) &&
                            Catch::Contains("\n1  (lines.jsonl, sample 1)\n") &&
                            !Catch::Contains("sample 2"));
  const auto epochs =
      run_energon({"preview", recipe.file("m.yaml"), "--split", "epochs", "--count", "9"});
  CHECK_THAT(epochs.out, Catch::Contains("000106") && !Catch::Contains("000107"));  // the subset
  CHECK_THAT(run_energon({"preview", recipe.file("lines.jsonl"), "--count", "1"}).out,
             Catch::StartsWith("0  (lines.jsonl, sample 0)\n") && !Catch::Contains("=="));
  const auto unknown = run_energon({"preview", recipe.file("m.yaml"), "--split", "zzz"});
  CHECK(unknown.exit_code == 1);
  CHECK_THAT(unknown.err, Catch::Contains("known: train, epochs, val"));
}

TEST_CASE("run reads metadatasets and JSONL files", "[cli][run][fork]") {
  const Recipe recipe;
  const auto epoch = run_energon(
      {"run", recipe.file("m.yaml"), "--split", "epochs", "--epochs", "1", "--num-workers", "2"});
  INFO(epoch.err);
  CHECK(epoch.exit_code == 0);
  CHECK(std::count(epoch.out.begin(), epoch.out.end(), '\n') == 14 + 13 + 14);
  const auto val = run_energon({"run", recipe.file("m.yaml"), "--split", "val", "--mode", "val"});
  CHECK(std::count(val.out.begin(), val.out.end(), '\n') == 69);
  CHECK_THAT(val.out, Catch::StartsWith(R"({"rank":0,"worker":0,"index":0,"keys":["000000"])"));
  const auto endless = run_energon({"run", recipe.file("m.yaml"), "--epochs", "1"});
  CHECK(endless.exit_code == 2);
  CHECK_THAT(endless.err, Catch::Contains("never ends"));
  const auto lines = run_energon({"run", recipe.file("lines.jsonl"), "--mode", "val"});
  CHECK(std::count(lines.out.begin(), lines.out.end(), '\n') == 20);
}

TEST_CASE("a run on a blend is saved and restored", "[cli][run][fork]") {
  const Recipe recipe;
  const TempDir folder;
  const std::vector<std::string> flags = {"run",
                                          recipe.file("m.yaml"),
                                          "--num-workers",
                                          "2",
                                          "--batch-size",
                                          "3",
                                          "--shuffle-buffer-size",
                                          "10"};
  const auto with = [&flags](std::vector<std::string> more) {
    more.insert(more.begin(), flags.begin(), flags.end());
    return run_energon(more).out;
  };
  const std::string state = folder.file("state");
  const std::string all = with({"--limit", "40", "--save-after", "17", "--save-to", state});
  const std::string rest = with({"--limit", "23", "--restore-from", state});
  CHECK(!rest.empty());
  CHECK(all.size() > rest.size());
  CHECK(all.substr(all.size() - rest.size()) == rest);
}

TEST_CASE("get finds a key in any dataset of a metadataset", "[cli][get]") {
  const Recipe recipe;
  CHECK_THAT(run_energon({"get", recipe.file("m.yaml"), "000103"}).out, Catch::Contains("000103"));
  CHECK(run_energon({"get", recipe.file("m.yaml"), "000103.txt", "--output", "-"}).out == "103");
  CHECK_THAT(run_energon({"get", recipe.file("lines.jsonl"), "7.json", "--output", "-"}).out,
             Catch::Contains("{\"n\": 7}"));
  const auto missing = run_energon({"get", recipe.file("m.yaml"), "000999"});
  CHECK(missing.exit_code == 1);
  CHECK_THAT(missing.err, Catch::Contains("no sample has the key '000999'"));
  const auto line = run_energon({"get", recipe.file("lines.jsonl"), "20"});
  CHECK(line.exit_code == 1);
  CHECK_THAT(line.err, Catch::Contains("from 0 to 19"));
}

TEST_CASE("get searches the given split", "[cli][get]") {
  const Recipe recipe;
  const auto get = [](const std::string& path, const std::string& split, const std::string& key) {
    return run_energon({"get", path, "--split", split, key});
  };
  CHECK(get(recipe.file("m.yaml"), "epochs", "000103").exit_code == 0);
  CHECK(get(recipe.file("a"), "train", "000003").exit_code == 0);
  const auto other = get(recipe.file("m.yaml"), "train", "000103");  // of b, which is not in train
  CHECK(other.exit_code == 1);
  CHECK_THAT(other.err, Catch::Contains("no sample has the key '000103'"));
  const auto unknown = get(recipe.file("m.yaml"), "zzz", "000103");
  CHECK(unknown.exit_code == 1);
  CHECK_THAT(unknown.err, Catch::Contains("no split 'zzz'; known: train, epochs, val"));
  const auto part = get(recipe.file("a"), "zzz", "000003");
  CHECK(part.exit_code == 1);
  CHECK_THAT(part.err, Catch::Contains("unknown split part 'zzz'; known: train"));
}

TEST_CASE("info refuses --split-config for data without a split file", "[cli][info]") {
  const Recipe recipe;
  for (const std::string name : {"m.yaml", "lines.jsonl"}) {
    CAPTURE(name);
    const auto result = run_energon({"info", recipe.file(name), "--split-config", "x.yaml"});
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Catch::Contains("--split-config: expected a prepared dataset"));
  }
}

TEST_CASE("the error explains why there are no samples", "[cli][run][bench]") {
  const TempDir folder;
  write_prepared(folder, {.name = "a", .counts = {2}});
  write_prepared(folder, {.name = "one", .counts = {1}});
  folder.write("m.yaml", R"(
__class__: MetadatasetV2
splits:
  train: {path: a, subset: {range: [50%, 50%]}}
  little: {blend_epochized: [{path: a, split_part: train, repetitions: 0.1}]}
)");
  const std::string bad = folder.write(
      "bad.jsonl", fmt::format(R"({{"dataset":"{0}","shard":"parts/data-0.tar","index":0}}
{{"dataset":"{0}","shard":"parts/data-0.tar","index":1}}
)",
                               folder.file("a")));
  for (const std::string command : {"run", "bench"}) {
    CAPTURE(command);
    const auto reason = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), command);
      const auto result = run_energon(arguments);
      CHECK(result.exit_code == 1);
      return result.err;
    };
    CHECK_THAT(
        reason({folder.file("a"), "--exclude", bad}),
        Catch::Contains("all 2 samples of this share of the data are excluded by --exclude"));
    if (command == "run") {  // which ends by itself
      const auto empty = run_energon({"run", folder.file("a"), "--mode", "val", "--exclude", bad});
      CHECK(empty.exit_code == 0);
      CHECK_THAT(empty.err, Catch::StartsWith("energon: warning: rank 0 of 1 has no samples: all"));
    }
    CHECK_THAT(reason({folder.file("m.yaml")}),
               Catch::Contains("the subsets of the metadataset select none of 2 samples"));
    CHECK_THAT(reason({folder.file("m.yaml"), "--split", "little"}),
               Catch::Contains("2 samples for 1 rank; datasets with fewer than 1 repetition use "
                               "only a part of theirs"));
    CHECK_THAT(reason({folder.file("one"), "--world-size", "2", "--rank", "1"}),
               Catch::Contains("rank 1 of 2 has no samples: 1 sample for 2 ranks"));
  }
}

TEST_CASE("bench reads a metadataset and names what limits it", "[cli][bench][fork]") {
  const Recipe recipe;
  const auto result = run_energon({"bench", recipe.file("m.yaml"), "--limit", "200",
                                   "--num-workers", "1", "--warmup-batches", "5", "--no-progress"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("read") && Catch::Contains("batch"));
}
