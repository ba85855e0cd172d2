#include "energon/sample/buffer_allocator.h"
#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"
#include "tests/media/data/vectors.h"
#include "tests/media/data/zip_builder.h"

using energon::decode_npz;
using energon::DecodeLimits;
using energon::ErrorCode;
using energon::HeapBufferPool;
using energon::Mapping;
using energon::SharedBytes;
using energon::testing::data_file;
using energon::testing::exact_copy;
using energon::testing::kind_of;
using energon::testing::numbers_of;
using energon::testing::outcome_of;
using energon::testing::outcomes_of_cuts;
using energon::testing::outcomes_of_flips;
using energon::testing::refusal;
using energon::testing::stored_part;
using energon::testing::ZipBuilder;

namespace {

Mapping npz(std::string_view bytes, const DecodeLimits& limits = {}) {
  HeapBufferPool memory;
  return decode_npz(exact_copy(bytes).view, limits, memory);
}

const auto kDecodeNpz = [](const SharedBytes& bytes) {
  HeapBufferPool memory;
  decode_npz(bytes.view, DecodeLimits(), memory);
};

std::string floats() { return stored_part(energon::testing::vectors::kFloat32); }

}  // namespace

TEST_CASE("arrays of savez and savez_compressed are read by name", "[media][data]") {
  for (const std::string file : {"stored.npz", "deflated.npz"}) {
    CAPTURE(file);
    const Mapping arrays = npz(data_file(file));
    REQUIRE(arrays.size() == 3);
    CHECK(arrays[0].first == "weight");
    CHECK(numbers_of<float>(arrays[0].second) == std::vector<float>{-1, -0.5, 0, 0.5, 1, 1.5});
    CHECK(arrays[1].first == "größe");  // in the locale "C" of this program, too
    CHECK(numbers_of<std::int32_t>(arrays[1].second) == std::vector<std::int32_t>{640, 480});
    CHECK(kind_of(arrays[2].second) == "float64 (1000)");
    CHECK(numbers_of<double>(arrays[2].second) == std::vector<double>(1000));
  }
}

TEST_CASE("the error of an npz names the array", "[media][data]") {
  CHECK_THAT(refusal(kDecodeNpz, data_file("objects.npz"), ErrorCode::kUnsupported),
             Catch::Contains("'things'") && Catch::Contains("pickles"));
  CHECK_THAT(refusal(kDecodeNpz, ZipBuilder().add("a.npy", "x").build(), ErrorCode::kCorruptData),
             Catch::Contains("'a'"));
  CHECK_THAT(refusal(kDecodeNpz, ZipBuilder().add("a.txt", "x").build(), ErrorCode::kUnsupported),
             Catch::Contains("'a.txt'"));
}

TEST_CASE("folders in a zip are left out, other kinds of members refused", "[media][data]") {
  const std::string folder =
      ZipBuilder().add("d/", "", {.mode = 040755}).add("d/a.npy", floats()).build();
  CHECK(npz(folder).at(0).first == "d/a");
  CHECK(npz(ZipBuilder().build()).empty());
  const auto refused = [](const ZipBuilder::Options& options, ErrorCode code) {
    return refusal(kDecodeNpz, ZipBuilder().add("a.npy", floats(), options).build(), code);
  };
  CHECK_THAT(refused({.flags = 1}, ErrorCode::kUnsupported), Catch::Contains("encrypted"));
  CHECK_THAT(refused({.method = 14}, ErrorCode::kUnsupported), Catch::Contains("nor deflated"));
  CHECK_THAT(refused({.method = 99}, ErrorCode::kUnsupported), Catch::Contains("nor deflated"));
  CHECK_THAT(refused({.mode = 0120777}, ErrorCode::kUnsupported), Catch::Contains("regular"));
  CHECK_THAT(refusal(kDecodeNpz, ZipBuilder().add("a.npy", floats()).add("a.npy", floats()).build(),
                     ErrorCode::kCorruptData),
             Catch::Contains("two members 'a.npy'"));
  CHECK(outcome_of(kDecodeNpz, ZipBuilder().add("\xFF.npy", floats(), {.flags = 0}).build()) ==
        "corrupt_data");
}

TEST_CASE("sizes that a zip only declares take no memory", "[media][data]") {
  const std::string zip =
      ZipBuilder().add("a.npy", floats(), {.size_claim = 1'000'000'000}).build();
  CHECK(outcome_of(kDecodeNpz, zip) == "corrupt_data");
  const auto decode = [](const SharedBytes& bytes) {
    HeapBufferPool memory;
    decode_npz(bytes.view, {.max_bytes = 8400}, memory);
  };
  CHECK(outcome_of(decode, zip) == "resource_exhausted");
  CHECK(npz(data_file("deflated.npz"), {.max_bytes = 8600}).size() == 3);
  CHECK_THAT(refusal(decode, data_file("deflated.npz"), ErrorCode::kResourceExhausted),
             Catch::Contains("8400"));
}

TEST_CASE("a damaged npz is refused or read as another one", "[media][data]") {
  const std::string zip = data_file("deflated.npz");
  CHECK(outcomes_of_cuts(kDecodeNpz, zip) == std::set<std::string>{"corrupt_data"});
  const auto flips = outcomes_of_flips(kDecodeNpz, zip);
  CHECK(flips.at("corrupt_data") > 1000);
  CHECK(flips.count("internal") + flips.count("invalid_argument") == 0);
}
