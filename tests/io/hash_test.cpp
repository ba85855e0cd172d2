#include "io/hash.h"

#include <catch2/catch.hpp>

TEST_CASE("XXH3-64 has the published digest of the empty input, and the same digest in pieces",
          "[io][hash]") {
  CHECK(energon::to_hex(energon::xxh3_64({})) == "2d06800538d394c2");
  energon::Xxh3Stream stream;
  stream.update(energon::as_bytes("multi"));
  stream.update(energon::as_bytes("modal"));
  CHECK(stream.digest() == energon::xxh3_64(energon::as_bytes("multimodal")));
}

TEST_CASE("fields are distinguished by their lengths", "[io][hash]") {
  energon::Xxh3Stream first;
  first.update_field(energon::as_bytes("ab"));
  first.update_field(energon::as_bytes("c"));
  energon::Xxh3Stream second;
  second.update_field(energon::as_bytes("a"));
  second.update_field(energon::as_bytes("bc"));
  CHECK(first.digest() != second.digest());
}
