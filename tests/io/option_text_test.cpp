#include "io/option_text.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/recipe/shuffle_over_epochs.h"

using energon::bytes_text;
using energon::duration_text;
using energon::multiply;
using energon::nearest_name;
using energon::option_name;
using energon::OptionCaller;
using energon::parse_bytes;
using energon::parse_duration;
using energon::parse_shuffle_over_epochs;
using energon::ShuffleOverEpochs;
using std::chrono::milliseconds;

TEST_CASE("each caller reads the name of an option in its own spelling", "[io][options]") {
  CHECK(option_name("batch_size", OptionCaller::kCommandLine) == "--batch-size");
  CHECK(option_name("batch_size", OptionCaller::kPython) == "batch_size=");
}

TEST_CASE("bytes have binary units, and are printed in the largest one that fits",
          "[io][options]") {
  CHECK(parse_bytes("0") == 0U);
  CHECK(parse_bytes("4096") == 4096U);
  CHECK(parse_bytes("16KiB") == 16384U);
  CHECK(parse_bytes("512MiB") == std::uint64_t{512} << 20);
  CHECK(parse_bytes("1TiB") == std::uint64_t{1} << 40);
  CHECK(parse_bytes("16777215TiB") == std::uint64_t{16777215} << 40);
  for (const char* const text :
       {"", "-1", "1.5GiB", "512MB", "512 MiB", "MiB", "16777216TiB", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(parse_bytes(text) == std::nullopt);
  }
  CHECK(bytes_text(0) == "0");
  CHECK(bytes_text(1000) == "1000");
  CHECK(bytes_text(1536) == "1536");
  CHECK(bytes_text(std::uint64_t{1536} << 10) == "1536KiB");
  CHECK(bytes_text(std::uint64_t{2} << 30) == "2GiB");
}

TEST_CASE("times are seconds, or have a unit, and are printed with one", "[io][options]") {
  CHECK(parse_duration("60") == milliseconds(60'000));
  CHECK(parse_duration("0.5") == milliseconds(500));
  CHECK(parse_duration("250ms") == milliseconds(250));
  CHECK(parse_duration("60s") == milliseconds(60'000));
  CHECK(parse_duration("5min") == milliseconds(300'000));
  CHECK(parse_duration("2h") == milliseconds(7'200'000));
  CHECK(parse_duration("none") == milliseconds::max());
  for (const char* const text : {"", "s", "-1", "nan", "inf", "1e13", "1 s", "1d"}) {
    CAPTURE(text);
    CHECK(parse_duration(text) == std::nullopt);
  }
  CHECK(duration_text(milliseconds(60'000)) == "60s");
  CHECK(duration_text(milliseconds(1)) == "1ms");
  CHECK(duration_text(milliseconds::max()) == "none");
}

TEST_CASE("a misspelled name is corrected to the nearest one, but not to one that is far off",
          "[io][options]") {
  const std::vector<std::string> names = {"--batch-size", "--seed-offset", "--split"};
  CHECK(nearest_name("--batch_size", names) == "--batch-size");
  CHECK(nearest_name("--batchsize", names) == "--batch-size");
  CHECK(nearest_name("--spilt", names) == "--split");
  CHECK(nearest_name("--frobnicate", names) == std::nullopt);
  CHECK(nearest_name("--split", {}) == std::nullopt);
}

TEST_CASE("shuffle_over_epochs is 'none', -1 or a number of epochs", "[io][options]") {
  using Mode = ShuffleOverEpochs::Mode;
  CHECK(parse_shuffle_over_epochs("none") == ShuffleOverEpochs{.mode = Mode::kNone});
  CHECK(parse_shuffle_over_epochs("-1") == ShuffleOverEpochs{.mode = Mode::kReplacement});
  CHECK(parse_shuffle_over_epochs("3") == ShuffleOverEpochs{.epochs = 3});
  for (const char* const text : {"", "0", "-2", "1.5", "None", "3 "}) {
    CAPTURE(text);
    CHECK(parse_shuffle_over_epochs(text) == std::nullopt);
  }
  for (const char* const text : {"none", "-1", "7"}) {
    CHECK(to_string(*parse_shuffle_over_epochs(text)) == text);
  }
}

TEST_CASE("shuffle multipliers are multiplied, and none wins, then replacement", "[io][options]") {
  const ShuffleOverEpochs none{.mode = ShuffleOverEpochs::Mode::kNone};
  const ShuffleOverEpochs replacement{.mode = ShuffleOverEpochs::Mode::kReplacement};
  const ShuffleOverEpochs three{.epochs = 3};
  CHECK(multiply(three, {.epochs = 5}) == ShuffleOverEpochs{.epochs = 15});
  CHECK(multiply(three, replacement) == replacement);
  CHECK(multiply(replacement, none) == none);
  CHECK(multiply(none, three) == none);
  CHECK(multiply({.epochs = INT64_MAX}, {.epochs = 2}) == std::nullopt);
}
