// The memory of a prepare does not grow with the number of samples.

#include <sys/resource.h>

#include <cstdio>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "io/index/sample_index_writer.h"
#include "tests/support/child_runner.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

namespace {

constexpr std::uint64_t kSortBytes = std::uint64_t{1} << 20;
constexpr std::int64_t kSamplesPerShard = 10'000;

energon::ShardScan scan_of(std::int64_t shard) {
  energon::ShardScan scan;
  for (std::int64_t i = 0; i < kSamplesPerShard; ++i) {
    const auto offset = static_cast<std::uint64_t>(i) * 2048;
    // Consecutive samples are far apart in key order.
    scan.samples.push_back({.key = fmt::format("{:04d}{:09d}", i % 7, shard * kSamplesPerShard + i),
                            .offset = offset,
                            .size = 2048,
                            .parts = {{"jpg", offset + 512, 100}, {"txt", offset + 1536, 10}}});
  }
  return scan;
}

// Peak resident memory in KiB of a process that writes an index of `samples` with two parts each.
long peak_kib(const energon::testing::TempDir& folder, std::int64_t samples) {
  const std::string report = folder.file(fmt::format("{}.txt", samples));
  const auto result = energon::testing::run_in_child([&] {
    energon::SampleIndexWriter writer(folder.file(fmt::format("{}.sqlite", samples)), kSortBytes);
    for (std::int64_t i = 0; i < samples / kSamplesPerShard; ++i) {
      writer.add(encode_rows(scan_of(i), i,
                             {.samples = i * kSamplesPerShard, .parts = 2 * i * kSamplesPerShard}));
    }
    writer.finish(1);
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    energon::write_file_atomically(report, energon::as_bytes(std::to_string(usage.ru_maxrss)));
    return 0;
  });
  REQUIRE(result.exit_code == 0);
  return std::stol(energon::read_file(report));
}

}  // namespace

TEST_CASE("writing an index of four times as many samples takes no more memory",
          "[io][formats][prepare][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    energon::testing::skip_case("the sanitizer keeps freed memory back");
    return;
  }
  const energon::testing::TempDir folder;
  const long small = peak_kib(folder, 50'000);
  const long large = peak_kib(folder, 200'000);
  CAPTURE(small, large);
  CHECK(large - small < 4'000);
}
