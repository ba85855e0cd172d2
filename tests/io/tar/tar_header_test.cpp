#include "io/tar/tar_header.h"

#include <limits>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/bytes.h"
#include "tests/io/tar/tar_verbs.h"
#include "tests/support/tar_builder.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test
using std::string_view_literals::operator""sv;

namespace {

TarBlock as_block(const std::string& text) { return TarBlock(as_bytes(text)); }

std::uint64_t size_in(std::string size_field) {
  size_field.resize(12, '\0');
  const std::string block = tar_header({.name = "a", .size_field = size_field});
  return parse_tar_header(as_block(block), 0).size;
}

ErrorCode error_for_size(const std::string& size_field) {
  return error_of([&] { size_in(size_field); }).code();
}

// The block with the sum that old writers computed, over signed bytes.
std::string with_signed_checksum(std::string block) {
  int sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    sum += i >= 148 && i < 156 ? ' ' : static_cast<signed char>(block[i]);
  }
  return block.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
}

}  // namespace

TEST_CASE("the fields of a ustar header are read", "[io][tar]") {
  const std::string block = tar_header({.name = "b.txt", .size = 01234, .prefix = "dir"});
  const TarHeader header = parse_tar_header(as_block(block), 0);
  CHECK(header.name == "b.txt");
  CHECK(header.prefix == "dir");
  CHECK(header.size == 01234);
  CHECK(header.type_flag == '0');
  CHECK(header.format == TarFormat::kUstar);
}

TEST_CASE("a name and a prefix may fill their fields to the last byte", "[io][tar]") {
  const std::string block =
      tar_header({.name = std::string(100, 'n'), .prefix = std::string(155, 'p')});
  CHECK(parse_tar_header(as_block(block), 0).name == std::string(100, 'n'));
  CHECK(parse_tar_header(as_block(block), 0).prefix == std::string(155, 'p'));
}

TEST_CASE("GNU and v7 headers have no prefix", "[io][tar]") {
  const std::string gnu = tar_header({.name = "a", .magic = kGnuMagic, .prefix = "123"});
  CHECK(parse_tar_header(as_block(gnu), 0).format == TarFormat::kGnu);
  CHECK(parse_tar_header(as_block(gnu), 0).prefix.empty());
  const std::string v7 = tar_header({.name = "a", .type = '\0', .magic = kV7Magic});
  CHECK(parse_tar_header(as_block(v7), 0).format == TarFormat::kV7);
}

TEST_CASE("numbers are octal with spaces and NULs around them", "[io][tar]") {
  CHECK(size_in("00000001234") == 01234);
  CHECK(size_in("   1234 ") == 01234);
  CHECK(size_in("777777777777") == 0777777777777);
  CHECK(size_in("0") == 0);
  CHECK(size_in(" ") == 0);
  CHECK(size_in("") == 0);
}

TEST_CASE("numbers beyond octal are base-256", "[io][tar]") {
  CHECK(size_in(base256(5)) == 5);
  CHECK(size_in(base256(std::int64_t{9} << 30)) == std::uint64_t{9} << 30);
  CHECK(size_in(base256(std::numeric_limits<std::int64_t>::max())) ==
        std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("numbers that are negative, too large or malformed are refused", "[io][tar]") {
  const std::string two_to_63{"\x80\0\0\0\x80\0\0\0\0\0\0\0", 12};
  const std::string two_to_70{"\x80\0\0\x40\0\0\0\0\0\0\0\0", 12};
  CHECK(error_for_size(base256(-1)) == ErrorCode::kCorruptData);
  CHECK(error_for_size(two_to_63) == ErrorCode::kCorruptData);
  CHECK(error_for_size(two_to_70) == ErrorCode::kCorruptData);
  CHECK(error_for_size("\xbf") == ErrorCode::kCorruptData);
  CHECK(error_for_size("-5") == ErrorCode::kCorruptData);
  CHECK(error_for_size("12x4") == ErrorCode::kCorruptData);
  CHECK(error_for_size("0x12") == ErrorCode::kCorruptData);
  CHECK(error_for_size("12 34") == ErrorCode::kCorruptData);
  CHECK(error_for_size("00000000008") == ErrorCode::kCorruptData);
}

TEST_CASE("the checksum may be a sum of unsigned or of signed bytes", "[io][tar]") {
  const std::string block = tar_header({.name = "\xc3\xa9.txt"});
  CHECK(has_valid_checksum(as_block(block)));
  CHECK(has_valid_checksum(as_block(with_signed_checksum(block))));
  CHECK(with_signed_checksum(block) != block);
}

TEST_CASE("a wrong or blank checksum is refused with the header's offset", "[io][tar]") {
  const auto field = GENERATE(
      values<std::string_view>({"0000001\0"sv, "        "sv, "\0\0\0\0\0\0\0\0"sv, "abcdefgh"sv}));
  const std::string block = tar_header({.name = "a", .checksum_field = std::string(field)});
  const Error error = error_of([&] { parse_tar_header(as_block(block), 4096); });
  CHECK(error.code() == ErrorCode::kCorruptData);
  CHECK(error.context().byte_offset == 4096);
}

TEST_CASE("an unknown magic is refused", "[io][tar]") {
  const std::string block = tar_header({.name = "a", .magic = "USTAR\00000"sv});
  CHECK_THROWS_WITH(parse_tar_header(as_block(block), 0), Catch::Contains("magic"));
}

TEST_CASE("only 512 zeros are a zero block", "[io][tar]") {
  std::string block(512, '\0');
  CHECK(is_zero_block(as_block(block)));
  block[511] = '\1';
  CHECK_FALSE(is_zero_block(as_block(block)));
  block = std::string(512, '\0');
  block[0] = '\1';
  CHECK_FALSE(is_zero_block(as_block(block)));
}

TEST_CASE("a plain header is read like by the strict parser", "[io][tar]") {
  for (const TarHeaderSpec& spec : std::vector<TarHeaderSpec>{
           {.name = "a.txt", .size = 5},
           {.name = std::string(100, 'n'), .size = 077777777777, .prefix = std::string(155, 'p')},
           {.name = "a.txt", .size = 5, .magic = kGnuMagic},
           {.name = "d/", .type = '5'}}) {
    CAPTURE(spec.name, spec.type);
    const std::string block = tar_header(spec);
    const auto plain = parse_plain_header(as_block(block));
    const TarHeader strict = parse_tar_header(as_block(block), 0);
    REQUIRE(plain.has_value());
    CHECK(plain->name == strict.name);
    CHECK(plain->prefix == strict.prefix);
    CHECK(plain->size == strict.size);
    CHECK(plain->type_flag == strict.type_flag);
    CHECK(plain->format == strict.format);
  }
}

TEST_CASE("headers that readers may interpret differently are not plain", "[io][tar]") {
  for (const TarHeaderSpec& spec :
       std::vector<TarHeaderSpec>{{.name = ""},
                                  {.name = "a/"},
                                  {.name = "\xc3\xa9.txt"},
                                  {.name = "a.txt", .prefix = "p/"},
                                  {.name = "a.txt", .prefix = "\xc3"},
                                  {.name = "a.txt", .type = '\0'},
                                  {.name = "a.txt", .type = '1', .link = "b"},
                                  {.name = "a.txt", .type = 'x'},
                                  {.name = "a.txt", .type = 'S', .magic = kGnuMagic},
                                  {.name = "a.txt", .magic = kGnuMagic, .prefix = "1"},
                                  {.name = "a.txt", .magic = kV7Magic},
                                  {.name = "a.txt", .magic = "ustar\00000"sv.substr(0, 6)},
                                  {.name = "a.txt", .link = "b"},
                                  {.name = "d/", .size = 1, .type = '5'},
                                  {.name = "a.txt", .size_field = base256(5)},
                                  {.name = "a.txt", .size_field = "          5"},
                                  {.name = "a.txt", .size_field = "000000000005"},
                                  {.name = "a.txt", .checksum_field = "000001"}}) {
    CAPTURE(spec.name, spec.type, spec.size_field);
    CHECK_FALSE(parse_plain_header(as_block(tar_header(spec))));
  }
  CHECK_FALSE(parse_plain_header(as_block(with_signed_checksum(tar_header({.name = "\x80"})))));
}
