// Reading ahead gives the bytes of direct reads, with fewer system calls, and reads nothing else.

#include "energon/read/read_ahead.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/order/rng.h"
#include "energon/read/leaf_readers.h"
#include "energon/read/webdataset.h"
#include "io/error.h"
#include "io/prepare/prepare.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/skip.h"

using energon::LeafShare;
using energon::Sample;
using energon::Webdataset;
using energon::WebdatasetReader;
using energon::testing::TempDir;

namespace {

// The reads of this process so far, from /proc/self/io.
struct Reads {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;

  static Reads now() {
    std::ifstream file("/proc/self/io");
    std::map<std::string, std::uint64_t> counts;
    for (std::string name; file >> name;) {
      file >> counts[name];
    }
    return {counts["syscr:"], counts["rchar:"]};
  }
  static bool are_counted() { return std::ifstream("/proc/self/io").good(); }
};

// Counts the reads of a function. Counting costs two calls and a few hundred bytes.
template <class Function>
Reads count_reads(const Function& function) {
  const Reads before = Reads::now();
  function();
  const Reads after = Reads::now();
  return {after.calls - before.calls, after.bytes - before.bytes};
}

// The samples [begin, end) of the leaf.
class Share final : public LeafShare {
 public:
  Share(std::int64_t begin, std::int64_t end) : begin_(begin), end_(end) {}
  std::int64_t end_of_part(std::int64_t index) const override {
    return index >= begin_ && index < end_ ? end_ : index + 1;
  }

 private:
  const std::int64_t begin_;
  const std::int64_t end_;
};

std::vector<Sample> read_in_turn(WebdatasetReader& reader, const std::vector<std::int64_t>& indexes,
                                 const Share& share) {
  energon::HeapBufferPool memory;
  std::vector<Sample> samples;
  reader.read_in_share(indexes, share, memory, samples);
  return samples;
}

constexpr std::int64_t kPerShard = 100;
constexpr std::uint64_t kSmallSampleBytes = 2048;  // two headers, two blocks

// Prepared, so that no neighbors are read to check the index.
std::shared_ptr<const Webdataset> prepared_dataset(const TempDir& folder, int tars,
                                                   std::size_t payload_bytes = 300) {
  struct Silent final : energon::ProgressSink {
    void on_progress(const energon::PrepareProgress& /*progress*/) override {}
  } silent;
  energon::testing::write_numbered_shards(
      folder, std::vector<std::int64_t>(static_cast<std::size_t>(tars), kPerShard), payload_bytes);
  energon::prepare(folder.path(), {}, silent);
  return std::make_shared<const Webdataset>(energon::open_split(folder.path()));
}

}  // namespace

TEST_CASE("slices in turn give the samples of direct reads, whatever the steps",
          "[energon][read_ahead]") {
  const TempDir folder;
  const auto dataset = prepared_dataset(folder, 6, GENERATE(0, 300, 5000));
  energon::Mt19937 draw(7);
  WebdatasetReader ahead(dataset);
  WebdatasetReader direct(dataset);
  energon::ReadBudgets budgets;
  budgets.ahead = std::make_shared<energon::AheadMemory>(GENERATE(1, 20'000, 64 << 20));
  ahead.share_budgets(budgets);
  // Slices of 1 to 40 samples, of which up to 20 are open.
  std::vector<std::pair<std::int64_t, std::int64_t>> waiting;
  for (std::int64_t begin = 0; begin < 6 * kPerShard;) {
    const std::int64_t end = std::min<std::int64_t>(
        {begin + 1 + draw() % 40, 6 * kPerShard, (begin / kPerShard + 1) * kPerShard});
    waiting.insert(waiting.begin() + draw() % (waiting.size() + 1), {begin, end});
    begin = end;
  }
  const Share share(0, 6 * kPerShard);
  std::vector<std::pair<std::int64_t, std::int64_t>> open;
  std::size_t seen = 0;
  while (!waiting.empty() || !open.empty()) {
    std::vector<std::int64_t> batch;
    for (int i = 0; i < 16 && (!waiting.empty() || !open.empty()); ++i) {
      while (open.size() < 20 && !waiting.empty()) {
        open.push_back(waiting.back());
        waiting.pop_back();
      }
      auto& slice = open[draw() % open.size()];
      const bool is_excluded = draw() % 10 == 0;
      if (!is_excluded) {
        batch.push_back(slice.first);
      }
      if (++slice.first == slice.second) {
        slice = open.back();
        open.pop_back();
      }
    }
    const auto samples = read_in_turn(ahead, batch, share);
    energon::HeapBufferPool memory;
    std::vector<Sample> expected;
    direct.read(batch, memory, expected);
    REQUIRE(samples.size() == batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      CAPTURE(i);
      REQUIRE(energon::testing::numbers(samples[i]) == std::vector{batch[i]});
      REQUIRE(digest(samples[i]) == digest(expected[i]));
    }
    seen += batch.size();
    REQUIRE(budgets.ahead->budget().held() <=
            std::max<std::uint64_t>(budgets.ahead->budget().limit(), 64 << 10));
  }
  CHECK(seen > 500);
}

TEST_CASE("slices in turn need few system calls", "[energon][read_ahead]") {
  if (!Reads::are_counted()) {
    return energon::testing::skip_case("/proc/self/io does not exist");
  }
  const TempDir folder;
  const auto dataset = prepared_dataset(folder, 16);
  WebdatasetReader reader(dataset);
  const Share share(0, 16 * kPerShard);
  const auto batch = [](std::int64_t n) {
    std::vector<std::int64_t> indexes;
    for (std::int64_t i = 0; i < 4 * 16; ++i) {
      indexes.push_back(i % 16 * kPerShard + n * 4 + i / 16);
    }
    return indexes;
  };
  read_in_turn(reader, batch(0), share);  // opens the shards
  const Reads reads = count_reads([&] {
    for (std::int64_t n = 1; n < 25; ++n) {
      read_in_turn(reader, batch(n), share);
    }
  });
  CHECK(reads.calls < 24 * 6);  // 16 for each batch if nothing is read ahead
}

TEST_CASE("no byte outside of the share is read ahead", "[energon][read_ahead]") {
  if (!Reads::are_counted()) {
    return energon::testing::skip_case("/proc/self/io does not exist");
  }
  const TempDir folder;
  const auto dataset = prepared_dataset(folder, 1);
  for (const std::int64_t end : {1, 2, 3, 7, 30, 99}) {
    WebdatasetReader reader(dataset);
    read_in_turn(reader, {99}, Share(99, 100));  // opens the shard
    const Reads reads = count_reads([&] {
      for (std::int64_t i = 0; i < end; ++i) {
        read_in_turn(reader, {i}, Share(0, end));
      }
    });
    CAPTURE(end);
    CHECK(reads.bytes <= static_cast<std::uint64_t>(end) * kSmallSampleBytes + 1000);
  }
}

TEST_CASE("random samples are read separately", "[energon][read_ahead]") {
  if (!Reads::are_counted()) {
    return energon::testing::skip_case("/proc/self/io does not exist");
  }
  const TempDir folder;
  const auto dataset = prepared_dataset(folder, 10);
  WebdatasetReader reader(dataset);
  const Share share(0, 10 * kPerShard);
  for (std::int64_t shard = 0; shard < 10; ++shard) {
    read_in_turn(reader, {shard * kPerShard}, share);
  }
  energon::Mt19937 draw(3);
  const Reads reads = count_reads([&] {
    for (int i = 0; i < 1000; ++i) {
      read_in_turn(reader, {static_cast<std::int64_t>(draw() % 1000)}, share);
    }
  });
  CHECK(reads.bytes < 1000 * kSmallSampleBytes * 11 / 10);
}

TEST_CASE("a failure while reading ahead is reported when its sample is requested, as without",
          "[energon][read_ahead]") {
  const TempDir folder;
  const auto dataset = prepared_dataset(folder, 1);
  const auto errors_of = [&](bool is_ahead) {
    WebdatasetReader reader(dataset);
    const Share share(0, is_ahead ? kPerShard : 0);
    read_in_turn(reader, {0}, share);
    std::filesystem::resize_file(folder.file("shard-000.tar"), 10 * kSmallSampleBytes + 700);
    std::vector<std::string> errors;
    for (std::int64_t i = 1; i < 14; ++i) {
      try {
        read_in_turn(reader, {i}, share);
        errors.emplace_back();
      } catch (const energon::Error& error) {
        errors.emplace_back(error.what());
      }
    }
    return errors;
  };
  const std::string tar = energon::read_file(folder.file("shard-000.tar"));
  const auto time = std::filesystem::last_write_time(folder.file("shard-000.tar"));
  const auto restore = [&] {
    std::filesystem::resize_file(folder.file("shard-000.tar"), 0);
    std::ofstream(folder.file("shard-000.tar"), std::ios::binary) << tar;
    std::filesystem::last_write_time(folder.file("shard-000.tar"), time);
  };
  const auto direct = errors_of(false);
  restore();
  const auto ahead = errors_of(true);
  CHECK(direct == ahead);
  CHECK(direct[8].empty());
  CHECK_THAT(direct[9], Catch::Contains("file ends at byte"));
}

TEST_CASE("if two samples that were read ahead are damaged, the first of the batch is reported",
          "[energon][read_ahead]") {
  const TempDir folder;
  const auto dataset = prepared_dataset(folder, 1);
  const auto error_of = [&](bool is_ahead) {
    WebdatasetReader reader(dataset);
    const Share share(0, is_ahead ? kPerShard : 0);
    for (std::int64_t i = 0; i < 4; ++i) {
      read_in_turn(reader, {i}, share);
    }
    try {
      read_in_turn(reader, {7, 6, 5, 4}, share);
    } catch (const energon::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto time = std::filesystem::last_write_time(folder.file("shard-000.tar"));
  {
    std::fstream tar(folder.file("shard-000.tar"), std::ios::binary | std::ios::in | std::ios::out);
    for (const std::uint64_t sample : {5, 6}) {
      tar.seekp(static_cast<std::streamoff>(sample * kSmallSampleBytes));
      tar.put('!');  // in the name of its first part
    }
  }
  std::filesystem::last_write_time(folder.file("shard-000.tar"), time);
  const std::string direct = error_of(false);
  CHECK(error_of(true) == direct);
  CHECK_THAT(direct, Catch::Contains(std::to_string(6 * kSmallSampleBytes)));
}
