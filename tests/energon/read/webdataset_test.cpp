#include "energon/read/webdataset.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "energon/order/rng.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/tar_index.h"
#include "io/prepare/prepare.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/tar_builder.h"

using energon::Error;
using energon::ErrorCode;
using energon::HeapBufferPool;
using energon::Sample;
using energon::Webdataset;
using energon::WebdatasetReader;
using energon::testing::numbered_dataset;
using energon::testing::TarBuilder;
using energon::testing::TempDir;

namespace {

std::vector<Sample> read(WebdatasetReader& reader, const std::vector<std::int64_t>& indexes) {
  HeapBufferPool memory;
  std::vector<Sample> samples;
  reader.read(indexes, memory, samples);
  return samples;
}

}  // namespace

TEST_CASE("samples are read in the requested order, adjacent or not", "[energon][webdataset]") {
  const TempDir folder;
  WebdatasetReader reader(numbered_dataset(folder, {3, 4, 5}, 700));
  const std::vector<std::int64_t> indexes = {11, 0, 1, 2, 3, 7, 4, 4, 10};
  const auto samples = read(reader, indexes);
  REQUIRE(samples.size() == indexes.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    CAPTURE(i);
    CHECK(energon::testing::numbers(samples[i]) == std::vector{indexes[i]});
    CHECK(samples[i].bytes("txt").text() == std::to_string(indexes[i]));
    CHECK(samples[i].bytes("bin").size() == 700);
  }
  CHECK(samples[0].sources.at(0).shard->shard_name == "shard-002.tar");
  CHECK(samples[0].sources.at(0).index_in_shard == 4);
}

TEST_CASE("the parts outlive the reader and the allocator's user", "[energon][webdataset]") {
  const TempDir folder;
  std::vector<Sample> samples;
  {
    WebdatasetReader reader(numbered_dataset(folder, {3}));
    samples = read(reader, {1});
  }
  CHECK(samples[0].bytes("txt").text() == "1");
  CHECK_THROWS_WITH(samples[0].bytes("jpg"), Catch::Contains("available: txt"));
}

TEST_CASE("positions are found across shards", "[energon][webdataset]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {1, 7, 2});
  CHECK(dataset->sample_count() == 10);
  CHECK(dataset->position_of(0).shard == 0);
  CHECK(dataset->position_of(1).shard == 1);
  CHECK(dataset->position_of(7).sample == 6);
  CHECK(dataset->position_of(9).shard == 2);
  CHECK_THROWS_AS(dataset->position_of(10), Error);
  CHECK_THROWS_AS(dataset->position_of(-1), Error);
}

TEST_CASE("few open shards are enough", "[energon][webdataset]") {
  const TempDir folder;
  WebdatasetReader reader(numbered_dataset(folder, {2, 2, 2, 2, 2}, 0, {.open_shards = 1}));
  const auto samples = read(reader, {9, 0, 8, 1, 4});
  CHECK(samples[0].bytes("txt").text() == "9");
  CHECK(samples[4].bytes("txt").text() == "4");
}

TEST_CASE("a shard that changed after opening is an error, not other data",
          "[energon][webdataset]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {3, 3});
  WebdatasetReader reader(dataset);
  SECTION("replaced") {
    folder.write("shard-001.tar", TarBuilder().file("x.txt", "1").end().text());
  }
  SECTION("truncated") { std::filesystem::resize_file(folder.file("shard-001.tar"), 1000); }
  SECTION("deleted") { std::filesystem::remove(folder.file("shard-001.tar")); }
  try {
    read(reader, {4});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK((error.code() == ErrorCode::kCorruptData || error.code() == ErrorCode::kNotFound));
    CHECK_THAT(error.context().path.value_or(""), Catch::EndsWith("shard-001.tar"));
  }
}

TEST_CASE("an open shard that is truncated while it is read is an error", "[energon][webdataset]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {6}, 5000);
  WebdatasetReader reader(dataset);
  read(reader, {0});
  std::filesystem::resize_file(folder.file("shard-000.tar"), 12000);
  CHECK_THROWS_AS(read(reader, {5}), Error);
}

TEST_CASE("a reader that shares its reads gives the same samples, with few open shards, too",
          "[energon][webdataset]") {
  const TempDir folder;
  const auto dataset =
      numbered_dataset(folder, {2, 3, 1, 4, 2}, 1'300'001, {.open_shards = GENERATE(1, 2, 128)});
  WebdatasetReader alone(dataset);
  WebdatasetReader shared(dataset);
  shared.share_reads(std::make_shared<energon::ReadHelper>());
  const std::vector<std::int64_t> indexes = {11, 0, 1, 2, 3, 7, 4, 4, 10, 9};
  const auto expected = read(alone, indexes);
  const auto samples = read(shared, indexes);
  REQUIRE(samples.size() == indexes.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    CAPTURE(i);
    CHECK(energon::testing::numbers(samples[i]) == std::vector{indexes[i]});
    CHECK(digest(samples[i]) == digest(expected[i]));
  }
}

TEST_CASE("an open shard that is truncated is the same error for a reader that shares its reads",
          "[energon][webdataset]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {12}, std::size_t{1} << 20);
  WebdatasetReader alone(dataset);
  WebdatasetReader shared(dataset);
  shared.share_reads(std::make_shared<energon::ReadHelper>());
  read(alone, {0});
  read(shared, {0});
  const auto error_of = [](WebdatasetReader& reader) -> std::string {
    try {
      read(reader, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  for (int mib = 12; mib > 0; --mib) {
    CAPTURE(mib);
    std::filesystem::resize_file(folder.file("shard-000.tar"), static_cast<std::uintmax_t>(mib)
                                                                   << 20);
    const std::string expected = error_of(alone);
    CHECK_THAT(expected, Catch::Contains("file ends at byte"));
    CHECK(error_of(shared) == expected);
  }
}

TEST_CASE("a sample above the limit is refused before memory is taken", "[energon][webdataset]") {
  const TempDir folder;
  WebdatasetReader reader(numbered_dataset(folder, {2}, 5000, {.max_sample_bytes = 4096}));
  CHECK_THROWS_WITH(read(reader, {0}), Catch::Contains("max_sample_bytes"));
}

namespace {

// A prepared dataset of one shard with checksums, whose bits can be flipped under an open reader.
class DamagedShard {
 public:
  explicit DamagedShard(std::int64_t samples) {
    energon::testing::write_numbered_shards(folder_, {samples}, 700);
    energon::prepare(folder_.path(), {.checksums = energon::Checksums::kWrite}, progress_);
    shards_ = energon::open_split(folder_.path());
    file_.open(path(), std::ios::in | std::ios::out | std::ios::binary);
  }

  std::string path() const { return folder_.file("shard-000.tar"); }
  std::uint64_t bytes_of_samples() const {
    const energon::ShardFile& shard = shards_.shards[0];
    return energon::TarIndex::load(shard.index_path, shard.tar_size).entries().back();
  }
  // A reader that has opened the shard, so that it is not refused for its new mtime.
  WebdatasetReader reader(energon::VerifyChecksums verify) const {
    WebdatasetReader reader(std::make_shared<const Webdataset>(
        shards_, energon::WebdatasetOptions{.verify_checksums = verify}));
    read(reader, {0});
    return reader;
  }
  void flip(std::uint64_t bit) {
    file_.seekg(static_cast<std::streamoff>(bit / 8));
    const auto byte = static_cast<char>(file_.get() ^ (1 << bit % 8));
    file_.seekp(static_cast<std::streamoff>(bit / 8));
    file_.put(byte);
    file_.flush();
  }

 private:
  struct NoProgress final : energon::ProgressSink {
    void on_progress(const energon::PrepareProgress&) override {}
  };

  TempDir folder_;
  NoProgress progress_;
  energon::ShardSet shards_;
  std::fstream file_;
};

}  // namespace

TEST_CASE("none of 3,000 bit flips in headers and data of a checked shard yields a wrong sample",
          "[energon][webdataset]") {
  DamagedShard shard(20);
  WebdatasetReader reader = shard.reader(energon::VerifyChecksums::kAlways);
  const std::uint64_t end = shard.bytes_of_samples();
  energon::Mt19937 draw(3000);
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t bit = draw() % (8 * end);
    INFO("bit " << bit);
    shard.flip(bit);
    try {
      read(reader, {static_cast<std::int64_t>(bit / 8 / (end / 20))});
      FAIL("a damaged sample was delivered");
    } catch (const Error& error) {
      REQUIRE(error.code() == ErrorCode::kCorruptData);
      REQUIRE(error.context().path == shard.path());
    }
    shard.flip(bit);
  }
  CHECK(read(reader, {19}).front().bytes("txt").text() == "19");
}

TEST_CASE("verification can be sampled or off, and then damage in the data is not noticed",
          "[energon][webdataset]") {
  DamagedShard shard(20);
  WebdatasetReader sampled = shard.reader(energon::VerifyChecksums::kSampled);
  WebdatasetReader off = shard.reader(energon::VerifyChecksums::kOff);
  const std::uint64_t sample_bytes = shard.bytes_of_samples() / 20;
  for (const std::int64_t sample : {1, 16}) {
    CAPTURE(sample);
    const auto intact = digest(read(off, {sample}).front());
    const std::uint64_t bit = 8 * (static_cast<std::uint64_t>(sample) * sample_bytes + 1536 + 100);
    shard.flip(bit);
    CHECK(digest(read(off, {sample}).front()) != intact);
    if (sample % 16 == 0) {
      CHECK_THROWS_AS(read(sampled, {sample}), Error);
    } else {
      CHECK_NOTHROW(read(sampled, {sample}));
    }
    shard.flip(bit);
  }
}
