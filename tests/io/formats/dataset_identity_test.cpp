#include "io/formats/dataset_identity.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/io/formats/shards.h"
#include "tests/support/temp_dir.h"

using energon::differences;
using energon::fingerprint;
using energon::ShardIdentity;
using energon::ShardSet;
using energon::testing::contains;
using energon::testing::make_shard;
using energon::testing::TempDir;

namespace {

ShardSet open_example(const TempDir& folder) {
  folder.write("a.tar", make_shard(0, 3));
  folder.write("b.tar", make_shard(3, 4));
  return energon::open_split(folder.path(), {.cache_dir = folder.file("cache")});
}

}  // namespace

TEST_CASE("the fingerprint depends on the data, not on its place", "[io][formats][identity]") {
  const TempDir one;
  const TempDir two;
  const ShardSet set = open_example(one);
  CHECK(fingerprint(set) == fingerprint(open_example(two)));
  ShardSet excluded = set;
  excluded.excludes = {{.shard = 0, .sample = 1}};
  CHECK(fingerprint(excluded) != fingerprint(set));
  ShardSet swapped = set;
  std::swap(swapped.shards[0], swapped.shards[1]);
  CHECK(fingerprint(swapped) != fingerprint(set));
}

TEST_CASE("the fingerprint of given identities is frozen", "[io][formats][identity]") {
  CHECK(fingerprint({{"a.tar", 3, 17}}, {{0, 1}}) == 0x1e7f4f17150b04dULL);
}

TEST_CASE("every difference is listed", "[io][formats][identity]") {
  const std::vector<ShardIdentity> saved = {{"a", 1, 10}, {"b", 2, 20}, {"c", 3, 30}, {"d", 4, 40}};
  const std::vector<ShardIdentity> current = {
      {"a", 1, 10}, {"b", 5, 50}, {"c", 3, 31}, {"e", 4, 40}};
  CHECK(differences(saved, saved).empty());
  const auto found = differences(saved, current);
  REQUIRE(found.size() == 4);
  CHECK(contains(found[0], "'b' had 2 samples, now 5"));
  CHECK(contains(found[1], "'c'"));
  CHECK(contains(found[2], "'d' is gone"));
  CHECK(contains(found[3], "'e' is new"));
  CHECK(differences({{"a", 1, 1}, {"b", 1, 1}}, {{"b", 1, 1}, {"a", 1, 1}}).size() == 1);
  CHECK(differences({{"a", 1, 1}}, {{"a", 1, 1}, {"a", 1, 1}}).size() == 1);
}
