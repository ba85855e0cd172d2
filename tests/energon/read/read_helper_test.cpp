#include "energon/read/read_helper.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/order/rng.h"
#include "io/error.h"
#include "tests/support/temp_dir.h"

using energon::Error;
using energon::FileRead;
using energon::FileSource;
using energon::Mt19937;
using energon::ReadHelper;
using energon::testing::TempDir;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A file whose words are their own numbers, and adjacent reads from it into one buffer.
class NumberedFile {
 public:
  explicit NumberedFile(std::size_t bytes) : content_(bytes, '\0') {
    for (std::uint64_t i = 0; i < bytes / sizeof(i); ++i) {
      std::memcpy(content_.data() + i * sizeof(i), &i, sizeof(i));
    }
    source_.emplace(folder_.write("numbers", content_));
  }

  void add(std::uint64_t offset, std::size_t size) {
    ranges_.push_back({offset, size});
    out_.resize(out_.size() + size);
  }
  void clear() {
    ranges_.clear();
    out_.clear();
  }
  std::vector<FileRead> reads() {
    std::vector<FileRead> reads;
    std::size_t end = 0;
    for (const energon::ByteRange& range : ranges_) {
      reads.push_back({&*source_, range.offset, std::span(out_).subspan(end, range.size)});
      end += range.size;
    }
    return reads;
  }
  bool are_all_right() const {
    std::size_t end = 0;
    return std::all_of(ranges_.begin(), ranges_.end(), [&](const energon::ByteRange& range) {
      const std::byte* const got = out_.data() + std::exchange(end, end + range.size);
      return std::memcmp(got, content_.data() + range.offset, range.size) == 0;
    });
  }

 private:
  TempDir folder_;
  std::string content_;
  std::optional<FileSource> source_;
  std::vector<energon::ByteRange> ranges_;
  std::vector<std::byte> out_;
};

template <class Reading>
std::string error_of(const Reading& reading) {
  try {
    reading();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("reads with a helper have the bytes of their ranges", "[energon][read_helper]") {
  NumberedFile file(16 * kMiB);
  ReadHelper helper;
  Mt19937 draw(1);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    file.clear();
    const std::size_t limit = round % 2 == 0 ? 3 * kMiB : 300'000;
    for (int i = 0; i < 20; ++i) {
      const std::size_t size = i % 5 == 0 ? static_cast<std::size_t>(i) : draw() % limit;
      file.add(draw() % (16 * kMiB - size), size);
    }
    helper.read(file.reads());
    REQUIRE(file.are_all_right());
  }
}

TEST_CASE("one large read is shared, too", "[energon][read_helper]") {
  NumberedFile file(16 * kMiB);
  ReadHelper helper;
  file.add(12345, 15 * kMiB);
  // The helper may be late for a read, but not for all of them.
  bool has_helped = false;
  for (int i = 0; i < 10'000 && !has_helped; ++i) {
    CAPTURE(i);
    helper.read(file.reads());
    REQUIRE(file.are_all_right());
    has_helped = helper.take_cpu_time().count() > 0;
  }
  CHECK(has_helped);
  CHECK(helper.take_cpu_time().count() == 0);  // nothing was read since
}

TEST_CASE("the error belongs to the first read that fails, as without a helper",
          "[energon][read_helper]") {
  NumberedFile file(8 * kMiB);
  ReadHelper helper;
  Mt19937 draw(2);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    file.clear();
    // About half of them end beyond the end of the file, each with its own message.
    for (int i = 0; i < 12; ++i) {
      file.add(4 * kMiB + draw() % (3 * kMiB), 500'000 + draw() % (2 * kMiB));
    }
    const std::vector<FileRead> reads = file.reads();
    REQUIRE(error_of([&] { helper.read(reads); }) == error_of([&] { energon::read_alone(reads); }));
  }
  file.clear();
  file.add(0, 8 * kMiB);
  helper.read(file.reads());
  CHECK(file.are_all_right());
}

TEST_CASE("a helper ends whether it was used or not", "[energon][read_helper]") {
  NumberedFile file(4 * kMiB);
  file.add(0, 4 * kMiB);
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    ReadHelper helper;
    for (int reads = 0; reads < i % 3; ++reads) {
      helper.read(file.reads());
    }
    CHECK(file.are_all_right() == (i > 0));
  }
}
