// The memory of a prepare does not grow with the number of samples.

#include <sys/resource.h>

#include <cstdio>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file_source.h"
#include "io/index/sample_index_writer.h"
#include "tests/support/child_runner.h"
#include "tests/support/sanitizer.h"
#include "tests/support/temp_dir.h"

namespace {

constexpr std::uint64_t kCacheBytes = std::uint64_t{4} << 20;

// Peak resident memory in KiB of a process that writes an index of `samples` with two parts each.
long peak_kib(const energon::testing::TempDir& folder, std::int64_t samples) {
  const std::string report = folder.file(fmt::format("{}.txt", samples));
  const auto result = energon::testing::run_in_child([&] {
    energon::SampleIndexWriter writer(folder.file(fmt::format("{}.sqlite", samples)), kCacheBytes);
    for (std::int64_t i = 0; i < samples; ++i) {
      const auto offset = static_cast<std::uint64_t>(i) * 2048;
      writer.add_sample(fmt::format("{:09d}", i), {i / 10'000, i % 10'000, {offset, 2048}});
      writer.add_part(i / 10'000, i % 10'000, "jpg", {offset + 512, 100});
      writer.add_part(i / 10'000, i % 10'000, "txt", {offset + 1536, 10});
    }
    writer.finish();
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
  const energon::testing::TempDir folder;
  const long small = peak_kib(folder, 50'000);
  const long large = peak_kib(folder, 200'000);
  CAPTURE(small, large);
  // The sanitizer keeps freed memory back.
  CHECK(large - small < (ENERGON_ADDRESS_SANITIZER != 0 ? 40'000 : 4'000));
}
