#include "media/transform/affine.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "tests/support/error_of.h"

using energon::AffineMatrix;

TEST_CASE("maps are composed in the order in which they are applied") {
  const AffineMatrix moved = energon::translation(3, -2);
  const AffineMatrix scaled = energon::scaling(2, 5);
  CHECK(energon::apply(energon::compose(moved, scaled), 1, 1) == std::array<double, 2>{8, -5});
  CHECK(energon::apply(energon::compose(scaled, moved), 1, 1) == std::array<double, 2>{5, 3});
}

TEST_CASE("the inverse of a map undoes it") {
  const AffineMatrix map = energon::compose(energon::rotation(33, 5, 7), {2, 0.5, 3, -1, 4, 9});
  const auto [x, y] = energon::apply(map, 11, -13);
  const auto [back_x, back_y] = energon::apply(energon::inverse(map), x, y);
  CHECK(back_x == Approx(11));
  CHECK(back_y == Approx(-13));
}

TEST_CASE("a map without an inverse is refused") {
  const auto refusal = [](const AffineMatrix& map) {
    return energon::testing::error_of([&] { energon::inverse(map); },
                                      energon::ErrorCode::kInvalidArgument);
  };
  CHECK(refusal({1, 2, 0, 2, 4, 0}) == "the map (1, 2, 0; 2, 4, 0) has no inverse");
  CHECK(refusal({NAN, 0, 0, 0, 1, 0}) == "the map (nan, 0, 0; 0, 1, 0) has no inverse");
  CHECK(refusal({1, 0, INFINITY, 0, 1, 0}) == "the map (1, 0, inf; 0, 1, 0) has no inverse");
}

TEST_CASE("quarter turns are exact, others turn counter-clockwise around their center") {
  for (const double degrees : {-450.0, -90.0, 0.0, 90.0, 180.0, 270.0, 360.0, 1080.0}) {
    CAPTURE(degrees);
    CHECK(energon::is_exact(energon::rotation(degrees, 4, 6)));
  }
  // The pixel at the top shows what was at the right.
  CHECK(energon::apply(energon::rotation(90, 4, 4), 4, 0) == std::array<double, 2>{8, 4});
  CHECK_FALSE(energon::is_exact(energon::rotation(45, 4, 4)));
  CHECK_FALSE(energon::is_exact(energon::rotation(90, 4.5, 4)));
  CHECK_FALSE(energon::is_exact(energon::scaling(2, 1)));
  CHECK_FALSE(energon::is_exact(energon::translation(0.5, 0)));
  CHECK(energon::testing::error_of([] { energon::rotation(INFINITY, 0, 0); },
                                   energon::ErrorCode::kInvalidArgument) ==
        "a rotation by inf degrees: expected a finite number");
}
