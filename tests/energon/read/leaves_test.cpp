// Leaf datasets other than tars: JSONL files and joins.

#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/read/joined_dataset.h"
#include "energon/read/jsonl_dataset.h"
#include "io/error.h"
#include "io/prepare/prepare_join.h"
#include "io/recipe/recipe.h"
#include "tests/support/dataset_builder.h"

using energon::HeapBufferPool;
using energon::JoinedColumn;
using energon::JoinedDataset;
using energon::JoinFunction;
using energon::JsonlDataset;
using energon::LeafDataset;
using energon::Mapping;
using energon::Sample;
using energon::Webdataset;
using energon::testing::kTens;
using energon::testing::TempDir;
using energon::testing::write_prepared;
using Indexes = std::vector<std::int64_t>;

namespace {

std::vector<Sample> read(const LeafDataset& dataset, const Indexes& indexes) {
  HeapBufferPool memory;
  std::vector<Sample> samples;
  dataset.open_reader()->read(indexes, memory, samples);
  return samples;
}

std::string text(const Sample& sample, const std::string& field) {
  return std::string(sample.bytes(field).text());
}

// Datasets `one` (keys 0 to 54) and `two` (keys from 30 on) joined in m.yaml.
class Join {
 public:
  explicit Join(const std::string& second = "nonmatch: skip", std::int64_t first_of_two = 30,
                const std::string& prefix_of_one = "a") {
    write_prepared(folder_, {.name = "one", .counts = kTens, .prefix = prefix_of_one});
    write_prepared(
        folder_,
        {.name = "two", .counts = {20, 20}, .first = first_of_two, .prefix = "b", .part = "cap"});
    folder_.write("m.yaml",
                  "__class__: MetadatasetV2\nsplits:\n  train:\n    join:\n    - {path: one}\n"
                  "    - {path: two, " +
                      second + "}\n    joiner: {__class__: C}\n    subflavors: {kind: pair}\n");
    energon::prepare_metadataset(folder_.file("m.yaml"));
  }

  std::shared_ptr<const JoinedDataset> open(JoinFunction function = nullptr) const {
    const auto recipe = energon::load_recipe(folder_.file("m.yaml"), "train");
    std::vector<std::shared_ptr<const Webdataset>> columns;
    for (const auto& column : recipe.leaves.at(0).columns) {
      columns.push_back(std::make_shared<const Webdataset>(
          energon::open_split(column.path, {.split_part = column.split_part}),
          energon::WebdatasetOptions{.subflavors = recipe.leaves.at(0).subflavors->dump()}));
    }
    return std::make_shared<const JoinedDataset>(recipe.leaves.at(0), columns, std::move(function));
  }

  const TempDir& folder() const { return folder_; }

 private:
  TempDir folder_;
};

}  // namespace

TEST_CASE("the lines of a JSONL file are samples", "[energon][jsonl]") {
  const TempDir folder;
  folder.write("x.jsonl", "\n{\"a\": 1}\n\n  {\"b\": 2}  \r\n{\"c\": 3}");
  const auto dataset = std::make_shared<const JsonlDataset>(folder.file("x.jsonl"), std::nullopt,
                                                            R"({"kind":"chat"})");
  CHECK(dataset->sample_count() == 3);
  CHECK(dataset->shard_counts() == Indexes{3});
  const auto samples = read(*dataset, {2, 0, 1});
  REQUIRE(samples.size() == 3);
  CHECK(text(samples[0], "json") == "{\"c\": 3}");
  CHECK(text(samples[1], "json") == "{\"a\": 1}");
  CHECK(text(samples[2], "json") == "{\"b\": 2}");
  CHECK(samples[2].keys == std::vector<std::string>{"1"});
  CHECK(samples[2].sources.at(0).index_in_shard == 1);
  CHECK(samples[2].sources.at(0).shard->shard_name == "x.jsonl");
  CHECK(samples[2].sources.at(0).shard->subflavors == R"({"kind":"chat"})");
}

TEST_CASE("quarantine files apply to JSONL files as to tars", "[energon][jsonl]") {
  const TempDir folder;
  const std::string path = folder.write("x.jsonl", "{}\n{}\n{}\n{}\n");
  folder.write("y.jsonl", "{}\n");
  const auto line = [](const std::string& dataset, const std::string& shard,
                       const std::string& sample) {
    return R"({"dataset":")" + dataset + R"(","shard":")" + shard + "\"" + sample + "}\n";
  };
  const auto open = [&](const std::string& content) {
    return JsonlDataset(path, std::nullopt, "{}", {folder.write("bad.jsonl", content)});
  };
  const JsonlDataset excluding = open(
      line(path, "x.jsonl", R"(,"index":2,"key":"0")") + line(path, "x.jsonl", R"(,"key":"1")") +
      line(path, "x.jsonl", R"(,"key":"2")") + line(path, "other.jsonl", R"(,"index":3)") +
      line(folder.file("y.jsonl"), "y.jsonl", ""));
  CHECK(excluding.excluded_in_place() == Indexes{1, 2});
  CHECK(excluding.excluded().empty());
  CHECK(excluding.warnings().empty());

  const JsonlDataset warning =
      open(line(path, "x.jsonl", R"(,"index":4)") + line(path, "x.jsonl", R"(,"key":"01")") + "{");
  CHECK(warning.excluded_in_place().empty());
  REQUIRE(warning.warnings().size() == 3);
  CHECK_THAT(warning.warnings()[0], Catch::Contains("line 3 is incomplete"));
  CHECK_THAT(warning.warnings()[1], Catch::Contains("quarantined sample 4 of"));
  CHECK_THAT(warning.warnings()[2], Catch::Contains("quarantined sample '01' of"));

  CHECK_THROWS_WITH(open(line(path, "x.jsonl", "")),
                    Catch::Contains("the whole file is quarantined by line 1 of"));
  std::filesystem::create_symlink(path, folder.file("link.jsonl"));
  CHECK(open(line(folder.file("link.jsonl"), "link.jsonl", R"(,"index":0)")).excluded_in_place() ==
        Indexes{0});
}

TEST_CASE("a JSONL file that changes while it is read is an error", "[energon][jsonl]") {
  const TempDir folder;
  folder.write("x.jsonl", "{}\n{}\n");
  const auto dataset = std::make_shared<const JsonlDataset>(folder.file("x.jsonl"), std::nullopt);
  folder.write("x.jsonl", "{}\n{}\n{}\n");
  CHECK_THROWS_WITH(read(*dataset, {0}), Catch::Contains("changed since"));
  CHECK(dataset->open_reader()->broken_file(0) == 0);
}

TEST_CASE("a line of a JSONL file above the limit of samples is an error when it is read",
          "[energon][jsonl]") {
  const TempDir folder;
  folder.write("x.jsonl", "{}\n{\"a\": \"" + std::string(100, 'x') + "\"}\n");
  const auto dataset = std::make_shared<const JsonlDataset>(folder.file("x.jsonl"), std::nullopt,
                                                            "{}", std::vector<std::string>{}, 50);
  CHECK(read(*dataset, {0}).size() == 1);
  CHECK_THROWS_WITH(read(*dataset, {0, 1}),
                    Catch::Contains("sample 1 has 110 bytes, but max_sample_bytes is 50"));
}

TEST_CASE("the identity of a JSONL file is its content's layout", "[energon][jsonl]") {
  const TempDir folder;
  folder.write("x.jsonl", "{}\n{ }\n");
  folder.write("y/x.jsonl", "{ }\n{}\n");
  const auto x = std::make_shared<const JsonlDataset>(folder.file("x.jsonl"), std::nullopt);
  const auto y = std::make_shared<const JsonlDataset>(folder.file("y/x.jsonl"), std::nullopt);
  CHECK(x->config() != y->config());
}

TEST_CASE("a joined sample has the fields of all its datasets", "[energon][join]") {
  const Join join;
  const auto dataset = join.open();
  CHECK(dataset->sample_count() == 25);
  CHECK(dataset->shard_counts() == Indexes{25});
  const auto samples = read(*dataset, {0, 24, 7});
  REQUIRE(samples.size() == 3);
  CHECK(samples[0].keys == std::vector<std::string>{"000030"});
  CHECK(text(samples[0], "txt") == "a30");
  CHECK(text(samples[0], "cap") == "b30");
  CHECK(text(samples[1], "cap") == "b54");
  CHECK(text(samples[2], "txt") == "a37");
  REQUIRE(samples[2].sources.size() == 2);
  CHECK(samples[2].sources[0].shard->shard_name == "parts/data-3.tar");
  CHECK(samples[2].sources[0].index_in_shard == 7);
  CHECK(samples[2].sources[1].shard->shard_name == "parts/data-0.tar");
  CHECK(samples[2].sources[1].shard->subflavors == R"({"kind":"pair"})");
  CHECK(samples[2].sources[1].sample == 0);
}

TEST_CASE("nonmatch none leaves the dataset out of the sample", "[energon][join]") {
  const Join join("nonmatch: none");
  const auto dataset = join.open();
  CHECK(dataset->sample_count() == 55);
  const auto samples = read(*dataset, {29, 30});
  CHECK(samples[0].fields.size() == 1);
  CHECK(samples[0].sources.size() == 1);
  CHECK(samples[1].fields.size() == 2);
}

TEST_CASE("if field names collide, the later dataset wins", "[energon][join]") {
  Sample first;
  first.fields = {{"a", std::int64_t{1}}, {"b", std::int64_t{2}}};
  Sample last;
  last.fields = {{"a", std::int64_t{3}}};
  const Mapping merged =
      energon::merge_columns({{.sample = first}, {.sample = std::nullopt}, {.sample = last}});
  REQUIRE(merged.size() == 2);
  CHECK(merged[0].first == "a");
  CHECK(std::get<std::int64_t>(merged[0].second.base()) == 3);
}

TEST_CASE("a join function sees the columns by name", "[energon][join]") {
  const Join join("nonmatch: none");
  const auto dataset = join.open([](std::vector<JoinedColumn> columns) {
    return Mapping{{"columns", static_cast<std::int64_t>(columns.size())},
                   {"has_two", std::int64_t{columns.at(1).sample.has_value()}}};
  });
  const auto samples = read(*dataset, {0, 40});
  CHECK(std::get<std::int64_t>(samples[0].at("has_two").base()) == 0);
  CHECK(std::get<std::int64_t>(samples[1].at("has_two").base()) == 1);
}

TEST_CASE("a join function that fails is reported with the key of its sample", "[energon][join]") {
  const Join join;
  const auto dataset = join.open([](std::vector<JoinedColumn> columns) -> Mapping {
    const std::string key(columns.at(0).sample->keys.at(0));
    columns.clear();
    throw std::runtime_error("no " + key);
  });
  HeapBufferPool memory;
  std::vector<Sample> samples;
  const auto reader = dataset->open_reader();
  CHECK(reader->describe(7).key.empty());
  CHECK_THROWS(reader->read(Indexes{7}, memory, samples));
  const energon::FailedSample failed = reader->describe(7);
  CHECK(failed.key == "000037");
  CHECK(failed.shard_name == "parts/data-3.tar");
  CHECK(failed.index_in_shard == 7);
}

TEST_CASE("a join that was not prepared, or whose datasets changed, is refused",
          "[energon][join]") {
  const Join join;
  SECTION("not prepared") {
    std::filesystem::remove_all(join.folder().file("m.yaml.cache"));
    CHECK_THROWS_WITH(join.open(), Catch::Contains("energon prepare"));
  }
  SECTION("a dataset was prepared again with other samples") {
    write_prepared(join.folder(), {.name = "three", .counts = {5, 35}, .first = 30, .part = "cap"});
    for (const char* const name : {"parts/data-0.tar", "parts/data-1.tar", "parts/data-0.tar.idx",
                                   "parts/data-1.tar.idx", ".nv-meta/.info.json"}) {
      std::filesystem::copy_file(join.folder().file("three/" + std::string(name)),
                                 join.folder().file("two/" + std::string(name)),
                                 std::filesystem::copy_options::overwrite_existing);
    }
    CHECK_THROWS_WITH(read(*join.open(), {24}), Catch::Contains("energon prepare"));
  }
}

TEST_CASE("the readers of a join share their large reads", "[energon][join]") {
  const std::string large(300'000, 'a');
  const Join join("nonmatch: skip", 30, large);
  const auto dataset = join.open();
  const auto helper = std::make_shared<energon::ReadHelper>();
  const auto reader = dataset->open_reader();
  reader->share_reads(helper);
  Indexes indexes(20);
  std::iota(indexes.begin(), indexes.end(), 0);
  // The helper may be late for a read, but not for all of them.
  bool has_helped = false;
  for (int i = 0; i < 10'000 && !has_helped; ++i) {
    CAPTURE(i);
    HeapBufferPool memory;
    std::vector<Sample> samples;
    reader->read(indexes, memory, samples);
    REQUIRE(samples.size() == 20);
    CHECK(text(samples[19], "txt") == large + "49");
    CHECK(text(samples[19], "cap") == "b49");
    has_helped = helper->take_cpu_time().count() > 0;
  }
  CHECK(has_helped);
}

TEST_CASE("a sample of a join is described by its first dataset", "[energon][join]") {
  const Join join;
  const auto dataset = join.open();
  const auto reader = dataset->open_reader();
  const auto described = reader->describe(7);
  CHECK(described.shard_name == "parts/data-3.tar");
  CHECK(described.index_in_shard == 7);
  CHECK(described.bytes.size == 1024);
  CHECK_FALSE(reader->broken_file(7));
  std::filesystem::remove(join.folder().file("two/parts/data-0.tar"));
  const auto fresh = dataset->open_reader();
  const auto broken = fresh->broken_file(7);
  REQUIRE(broken);
  CHECK(fresh->needs_file(8, *broken));
  CHECK_FALSE(fresh->needs_file(24, *broken));  // in the other shard of `two`
  CHECK_THAT(fresh->describe(7).dataset_path, Catch::EndsWith("/two"));
}
