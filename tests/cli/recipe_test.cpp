// The commands that take metadatasets and JSONL files: info, dump, get, bench.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

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

TEST_CASE("dump runs over metadatasets and JSONL files", "[cli][dump][fork]") {
  const Recipe recipe;
  const auto epoch = run_energon(
      {"dump", recipe.file("m.yaml"), "--split", "epochs", "--epochs", "1", "--num-workers", "2"});
  INFO(epoch.err);
  CHECK(epoch.exit_code == 0);
  CHECK(std::count(epoch.out.begin(), epoch.out.end(), '\n') == 14 + 13 + 14);
  const auto val = run_energon({"dump", recipe.file("m.yaml"), "--split", "val", "--mode", "val"});
  CHECK(std::count(val.out.begin(), val.out.end(), '\n') == 69);
  CHECK_THAT(val.out, Catch::StartsWith(R"({"rank":0,"worker":0,"index":0,"keys":["000000"])"));
  const auto endless = run_energon({"dump", recipe.file("m.yaml"), "--epochs", "1"});
  CHECK(endless.exit_code == 2);
  CHECK_THAT(endless.err, Catch::Contains("never ends"));
  const auto lines = run_energon({"dump", recipe.file("lines.jsonl"), "--mode", "val"});
  CHECK(std::count(lines.out.begin(), lines.out.end(), '\n') == 20);
}

TEST_CASE("a dump of a blend is saved and restored", "[cli][dump][fork]") {
  const Recipe recipe;
  const TempDir folder;
  const std::vector<std::string> flags = {"dump",
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

TEST_CASE("bench runs over a metadataset and names what limits it", "[cli][bench][fork]") {
  const Recipe recipe;
  const auto result = run_energon({"bench", recipe.file("m.yaml"), "--batches", "200",
                                   "--num-workers", "1", "--warmup-batches", "5", "--no-progress"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("read") && Catch::Contains("batch"));
}
