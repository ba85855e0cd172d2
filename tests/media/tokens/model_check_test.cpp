#include "media/tokens/model_check.h"

#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "media/tokens/sentencepiece.h"
#include "tests/media/tokens/model_file.h"
#include "tests/support/error_of.h"

using energon::as_bytes;
using energon::check_charsmap;
using energon::check_piece_model;
using energon::ErrorCode;
using energon::PieceModel;
using energon::testing::bytes_field;
using energon::testing::charsmap;
using energon::testing::error_of;
using energon::testing::integer_field;
using energon::testing::normalizer_field;
using energon::testing::piece_field;
using energon::testing::small_model;
using energon::testing::token_file;

using namespace std::string_literals;  // NOLINT: texts with NUL

namespace {

std::string refused(const std::string& model) {
  return error_of([&] { check_piece_model(as_bytes(model)); }, ErrorCode::kCorruptData);
}

std::string refused_table(const std::string& table) {
  return error_of([&] { check_charsmap(as_bytes(table)); }, ErrorCode::kCorruptData);
}

// A unit of a double array. `offset` is below 2^21.
constexpr std::uint32_t unit(char label, std::uint32_t offset, bool has_leaf = false) {
  return offset << 10 | (has_leaf ? 1U << 8 : 0U) | static_cast<std::uint8_t>(label);
}

constexpr std::uint32_t leaf(std::uint32_t value) { return 0x8000'0000 | value; }

// 512 units without children: no label is that of its place under any base in use.
std::vector<std::uint32_t> empty_units() { return std::vector<std::uint32_t>(512, leaf(0)); }

// A table with one entry, "A", whose text begins at `text`.
std::vector<std::uint32_t> one_entry(std::uint32_t text = 0) {
  auto units = empty_units();
  units[0] = unit(0, 1);                              // the children of the root: 1 ^ byte
  units[1 ^ 'A'] = unit('A', (1 ^ 'A') ^ 300, true);  // its children: 300 ^ byte
  units[300] = leaf(text);
  return units;
}

}  // namespace

TEST_CASE("models of the trainer pass the check", "[media][model_check]") {
  CHECK(check_piece_model(as_bytes(token_file("unigram.model"))) == PieceModel::kUnigram);
  CHECK(check_piece_model(as_bytes(token_file("bpe.model"))) == PieceModel::kBpe);
  CHECK(check_piece_model(as_bytes(small_model())) == PieceModel::kUnigram);
}

TEST_CASE("what is no message is refused with the place", "[media][model_check]") {
  using Catch::Contains;
  CHECK_THAT(refused(""), Contains("no pieces"));
  CHECK_THAT(refused("hello world"), Contains("byte"));
  CHECK_THAT(refused("\x0A\xFF"s), Contains("ends at byte 2"));
  CHECK_THAT(refused("\x0A\xFF\xFF\xFF\xFF\x0F"s), Contains("has 4294967295 bytes"));
  CHECK_THAT(refused(small_model("\x0B"s)), Contains("wire type 3"));
  CHECK_THAT(refused(small_model("\x00\x00"s)), Contains("field number 0"));
  CHECK_THAT(refused(small_model("\x08" + std::string(11, '\xFF'))), Contains("64 bits"));
  CHECK_THAT(refused(integer_field(1, 5)), Contains("no message"));
}

TEST_CASE("pieces that would mislead the library are refused", "[media][model_check]") {
  using Catch::Contains;
  CHECK_THAT(refused(small_model(piece_field(""))), Contains("piece 3 has 0 bytes"));
  CHECK_THAT(refused(small_model(piece_field("x\0y"s))), Contains("with a zero"));
  CHECK_THAT(refused(small_model(piece_field("a"))), Contains("'a'"));
  CHECK_THAT(refused(small_model(piece_field(std::string(8000, 'x')))), Contains("8000 bytes"));
  CHECK_THAT(refused(small_model(piece_field("x", std::nanf("")))), Contains("nan"));
  CHECK_THAT(refused(small_model(piece_field("x", std::numeric_limits<float>::infinity()))),
             Contains("inf"));
  CHECK_THAT(refused(small_model(bytes_field(2, integer_field(3, 9)))), Contains("type 9"));
}

TEST_CASE("symbols of the user that begin with one another are bounded", "[media][model_check]") {
  const auto with_symbols = [](std::size_t count) {
    std::string fields;
    for (std::size_t i = 1; i <= count; ++i) {
      fields += piece_field(std::string(i, '#'), 0, 4) + piece_field("x" + std::to_string(i), 0, 4);
    }
    return small_model(fields);
  };
  CHECK_NOTHROW(check_piece_model(as_bytes(with_symbols(64))));
  CHECK_THAT(refused(with_symbols(65)), Catch::Contains("more than 64 symbols"));
  if (energon::has_sentencepiece()) {
    const auto made = energon::sentencepiece_tokenizer(as_bytes(with_symbols(64)));
    CHECK(made->tokens(std::string(64, '#')).size() <= 3);
  }
}

TEST_CASE("tables of normalisation are followed to each end", "[media][model_check]") {
  using Catch::Contains;
  CHECK_NOTHROW(check_charsmap({}));
  CHECK_NOTHROW(check_charsmap(as_bytes(charsmap(one_entry(), "b\0"s))));
  CHECK_THAT(refused_table(charsmap(one_entry(2), "b\0"s)), Contains("at byte 2 of 2"));
  CHECK_THAT(refused_table(charsmap(one_entry(), "b")), Contains("without a 0"));
  CHECK_THAT(refused_table(charsmap(one_entry(), "")), Contains("without a 0"));
  CHECK_THAT(refused_table("\x01"), Contains("1 bytes"));
  CHECK_THAT(refused_table("\xFF\xFF\xFF\xFF\0"s), Contains("4294967295"));
  CHECK_THAT(refused_table("\x06\0\0\0abcdefg\0"s), Contains("6"));

  auto outside = one_entry();
  outside[1 ^ 'A'] = unit('A', (1 ^ 'A') ^ 600, true);
  CHECK_THAT(refused_table(charsmap(outside, "b\0"s)), Contains("of 512"));
  auto far = one_entry();
  far[0] = unit(0, 1) | 1U << 9 | 1U << 30;
  CHECK_THAT(refused_table(charsmap(far, "b\0"s)), Contains("of 512"));
  auto cycle = one_entry();
  cycle[1 ^ 'A'] = unit('A', (1 ^ 'A') ^ 1);  // "A" leads to where it was found
  CHECK_THAT(refused_table(charsmap(cycle, "b\0"s)), Contains("cycle"));
}

TEST_CASE("entries of a table that begin with one another are bounded", "[media][model_check]") {
  // "A", "AA", …: node i has its children in block i.
  const auto chain = [](std::uint32_t count) {
    std::vector<std::uint32_t> units((count + 2) * 256, leaf(0));
    units[0] = unit(0, 256);
    std::uint32_t node = 256 ^ 'A';
    for (std::uint32_t i = 1; i <= count; ++i) {
      const std::uint32_t base = (i + 1) * 256;
      units[node] = unit('A', node ^ base, true);
      node = base ^ 'A';
    }
    return charsmap(units, "b\0"s);
  };
  CHECK_NOTHROW(check_charsmap(as_bytes(chain(32))));
  CHECK_THAT(refused_table(chain(33)), Catch::Contains("more than 32 entries"));
  if (energon::has_sentencepiece()) {
    const auto made =
        energon::sentencepiece_tokenizer(as_bytes(small_model(normalizer_field(chain(32)))));
    CHECK(made->tokens(std::string(40, 'A')).size() >= 2);
  }
}

TEST_CASE("the tables of a model are checked in both places", "[media][model_check]") {
  const std::string table = charsmap(one_entry(7), "b\0"s);
  CHECK_THAT(refused(small_model(normalizer_field(table))), Catch::Contains("at byte 7"));
  CHECK_THAT(refused(small_model(bytes_field(5, bytes_field(2, table)))),
             Catch::Contains("at byte 7"));
  // One that is overwritten by the next is checked, too.
  CHECK_THAT(refused(small_model(normalizer_field(table) +
                                 normalizer_field(charsmap(one_entry(), "b\0"s)))),
             Catch::Contains("at byte 7"));
  if (energon::has_sentencepiece()) {
    const auto made = energon::sentencepiece_tokenizer(
        as_bytes(small_model(normalizer_field(charsmap(one_entry(), "b\0"s)))));
    CHECK(made->tokens("A").back() == 2);  // normalised to b
  }
}
