#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/recipe/metadataset.h"
#include "tests/io/shards.h"

using energon::compose;
using energon::ErrorCode;
using energon::parse_subset;
using energon::resolve;
using energon::SampleRange;
using energon::testing::error_of;

TEST_CASE("subset ranges are rounded like Energon's", "[io][formats][subset]") {
  CHECK(resolve(parse_subset("20%", "80%"), 55) == SampleRange{11, 44});
  CHECK(resolve(compose(parse_subset("10", "30"), parse_subset("20%", "80%")), 55) ==
        SampleRange{14, 26});
  CHECK(resolve(parse_subset("10", "30"), 55) == SampleRange{10, 30});
  CHECK(resolve(parse_subset("10", "end"), 55) == SampleRange{10, 55});
  CHECK(resolve(parse_subset("12.5%", "end"), 8) == SampleRange{1, 8});
  CHECK(resolve(parse_subset("0%", "100%"), 55) == SampleRange{0, 55});
  CHECK(resolve(parse_subset("50%", "50%"), 55) == SampleRange{27, 27});
}

TEST_CASE("nested percentages compose", "[io][formats][subset]") {
  const auto inner = parse_subset("0%", "50%");
  const auto outer = parse_subset("50%", "100%");
  CHECK(resolve(compose(inner, outer), 100) == SampleRange{25, 50});
}

TEST_CASE("bad subset ranges are errors", "[io][formats][subset]") {
  for (const auto& [start, end] : std::vector<std::pair<const char*, const char*>>{{"20%", "30"},
                                                                                   {"10", "20%"},
                                                                                   {"30", "10"},
                                                                                   {"80%", "20%"},
                                                                                   {"-1", "3"},
                                                                                   {"0%", "101%"},
                                                                                   {"nan%", "1%"},
                                                                                   {"", "1"},
                                                                                   {"1.5", "3"},
                                                                                   {"end", "end"},
                                                                                   {"x%", "1%"}}) {
    CAPTURE(start, end);
    CHECK(error_of([&, s = start, e = end] { parse_subset(s, e); }).first ==
          ErrorCode::kInvalidArgument);
  }
  CHECK(error_of([] { resolve(parse_subset("0", "56"), 55); }).first ==
        ErrorCode::kInvalidArgument);
  CHECK(error_of([] { compose(parse_subset("0%", "1%"), parse_subset("1", "2")); }).first ==
        ErrorCode::kInvalidArgument);
}
