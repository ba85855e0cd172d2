#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"

using energon::testing::kTens;
using energon::testing::run_energon;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;

namespace {

// Two prepared datasets with the same 55 keys and a metadataset that joins them.
struct JoinFixture {
  JoinFixture() {
    for (const TempDir* const dataset : {&one, &two}) {
      write_numbered_shards(*dataset, kTens);
      const auto result = run_energon({"prepare", dataset->path(), "--split-ratio", "1,0,0"});
      REQUIRE(result.exit_code == 0);
    }
    write_join("nonmatch: error");
  }

  void write_join(const std::string& nonmatch) const {
    folder.write("m.yaml",
                 fmt::format("__module__: megatron.energon\n__class__: MetadatasetV2\n"
                             "splits:\n  train:\n    join:\n    - path: {}\n    - path: {}\n"
                             "      {}\n    joiner: {{__class__: C}}\n",
                             one.path(), two.path(), nonmatch));
  }

  TempDir one, two, folder;
  std::string path = folder.file("m.yaml");
};

}  // namespace

TEST_CASE("prepare indexes a JSONL file with blank lines", "[cli][prepare]") {
  const TempDir folder;
  std::string content = "\n";
  for (int i = 0; i < 10; ++i) {
    content += fmt::format("{{\"i\": {}}}\n{}", i, i % 4 == 0 ? "\n  \n" : "");
  }
  const std::string path = folder.write("x.jsonl", content);
  const auto result = run_energon({"prepare", path, "--non-interactive", "--no-progress"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == "Preparing jsonl dataset…\nDone. Found 10 samples.\n");
  CHECK(result.err.empty());
  CHECK(energon::read_file(path + ".idx").size() == 11 * 8);

  folder.write("x.jsonl", "{}\n");
  CHECK_THAT(run_energon({"info", path}).err, Catch::Contains("truncated after it was indexed"));
  const auto again = run_energon({"prepare", path});
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.err,
             Catch::Contains("warning") && Catch::Contains("truncated after it was indexed"));
  CHECK(run_energon({"info", path}).err.empty());

  folder.write("x.jsonl", "{}\nnot json\n");
  const auto bad = run_energon({"prepare", path});
  CHECK(bad.exit_code == 1);
  CHECK_THAT(bad.err, Catch::Contains("line 2 is not a JSON object") && Catch::Contains("byte: 3"));
}

TEST_CASE("prepare writes the join indices of a metadataset", "[cli][prepare]") {
  const JoinFixture f;
  const auto result = run_energon({"prepare", f.path});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out == "Preparing metadataset…\nJoined all 55 samples\nDone\n");
  const auto preview = run_energon({"preview", f.path, "--count", "1"});
  CHECK_THAT(preview.out,
             Catch::StartsWith("== join of 2 datasets in " + f.path +
                               "\n000000  (shard-000.tar, sample 0; shard-000.tar, sample 0)\n"));
  CHECK(run_energon({"lint", f.path}).exit_code == 0);

  f.two.write(".nv-meta/split.yaml",
              "split_parts: {train: ['shard-00{0..5}.tar']}\nexclude: [shard-000.tar]\n");
  const auto unmatched = run_energon({"prepare", f.path});
  CHECK(unmatched.exit_code == 1);
  CHECK_THAT(unmatched.err, Catch::Contains("10 of the 55 samples") &&
                                Catch::Contains("'000000', '000001'") &&
                                Catch::Contains("nonmatch: skip"));
  f.write_join("nonmatch: skip");
  const auto skipped = run_energon({"prepare", f.path});
  CHECK_THAT(skipped.out,
             Catch::Contains("Joined 45/55 samples, skipped 10 samples due to join\n") &&
                 Catch::Contains("Removed the unused index " + f.path + ".cache/join_index_"));
  f.write_join("nonmatch: none");
  CHECK_THAT(run_energon({"prepare", f.path}).out,
             Catch::Contains("Joined all 55 samples\n"
                             "Non-matching samples left empty, by dataset: 0, 10\n"));
}

TEST_CASE("prepare reports that a metadataset without joins needs no index", "[cli][prepare]") {
  const JoinFixture f;
  f.folder.write("m.yaml",
                 fmt::format("splits: {{train: {{datasets: [{{path: {}}}]}}}}", f.one.path()));
  const auto result = run_energon({"prepare", f.path});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("It has no joins, so it needs no index."));
  f.folder.write("m.yaml", "splits: {train: {datasets: [{paht: x}]}}");
  const auto bad = run_energon({"prepare", f.path});
  CHECK(bad.exit_code == 1);
  CHECK_THAT(bad.err, Catch::Contains("splits.train.datasets[0].paht is not a known key"));
}

TEST_CASE("flags for shards are usage errors for other kinds", "[cli][prepare]") {
  const TempDir folder;
  const std::string jsonl = folder.write("x.jsonl", "{}\n");
  const std::string yaml = folder.write("m.yaml", "splits: {}\n");
  const std::vector<std::vector<std::string>> flags = {
      {"--split-ratio", "8,1,1"}, {"--split-parts", "a:b"}, {"--exclude", "a"},
      {"--num-workers", "2"},     {"--checksums"},          {"--force-overwrite"},
      {"--cache-dir", "c"}};
  for (const std::string& path : {jsonl, yaml}) {
    CAPTURE(path);
    for (const auto& flag : flags) {
      CAPTURE(flag);
      std::vector<std::string> words = {"prepare", path};
      words.insert(words.end(), flag.begin(), flag.end());
      const auto result = run_energon(words);
      CHECK(result.exit_code == 2);
      CHECK_THAT(result.err, Catch::Contains(flag[0] + " is for folders of shards, not for a " +
                                             (path == jsonl ? "JSONL file" : "metadataset")));
    }
  }
  CHECK_FALSE(std::filesystem::exists(jsonl + ".idx"));
}
