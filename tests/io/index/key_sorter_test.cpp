#include "io/index/key_sorter.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::KeySorter;
using energon::testing::TempDir;

namespace {

using Keys = std::vector<std::pair<std::string, std::int64_t>>;

Keys sorted(const TempDir& folder, const Keys& keys, std::uint64_t memory_bytes) {
  KeySorter sorter(folder.file("keys"), memory_bytes);
  for (const auto& [key, row] : keys) {
    sorter.add(key, row);
  }
  Keys result;
  sorter.visit_in_order(
      [&](std::string_view key, std::int64_t row) { result.emplace_back(std::string(key), row); });
  CHECK(energon::testing::files_below(folder.path()).empty());
  return result;
}

std::string random_key(std::mt19937& random) {
  std::string key(random() % 50 == 0 ? 40'000 : random() % 12, '\0');
  for (char& c : key) {
    c = static_cast<char>(random() % 4 == 0 ? random() : 'a' + random() % 3);
  }
  return key;
}

}  // namespace

TEST_CASE("keys are sorted as bytes, equal ones by row, with any memory", "[io][key_sorter]") {
  const std::uint64_t memory_bytes = GENERATE(1U, 3'000U, 100'000U, 1U << 30);
  std::mt19937 random(5);
  Keys keys;
  for (std::int64_t row = 1; row <= 3'000; ++row) {
    keys.emplace_back(random_key(random), row);
  }
  const TempDir folder;
  const Keys result = sorted(folder, keys, memory_bytes);
  std::sort(keys.begin(), keys.end());
  CHECK(result == keys);
}

TEST_CASE("sorted keys stay sorted, even where runs meet", "[io][key_sorter]") {
  const TempDir folder;
  Keys keys;
  for (std::int64_t row = 1; row <= 5'000; ++row) {
    keys.emplace_back(fmt::format("{:09}", row / 2), row);  // each twice
  }
  CHECK(sorted(folder, keys, 10'000) == keys);
}

TEST_CASE("sorting no keys works", "[io][key_sorter]") {
  const TempDir folder;
  CHECK(sorted(folder, {}, 10'000).empty());
}

TEST_CASE("a missing folder is an error of the sorter", "[io][key_sorter]") {
  const TempDir folder;
  KeySorter sorter(folder.file("absent/keys"), 1);
  const auto [code, message] = energon::testing::error_of([&] {
    sorter.add("a", 1);
    sorter.add("b", 2);
  });
  CHECK(code == energon::ErrorCode::kNotFound);
  CHECK(energon::testing::contains(message, "sorted keys"));
}
