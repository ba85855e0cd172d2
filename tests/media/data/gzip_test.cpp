#include "io/hash.h"
#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"
#include "tests/media/data/vectors.h"
#include "tests/support/shared_data.h"

using energon::DecodeLimits;
using energon::ErrorCode;
using energon::expand_gzip;
using energon::HeapBufferPool;
using energon::SharedBytes;
using energon::testing::exact_copy;
using energon::testing::outcome_of;
using energon::testing::outcomes_of_cuts;
using energon::testing::outcomes_of_flips;
using energon::testing::refusal;
using energon::testing::stored_part;

namespace {

std::string hello() { return stored_part(energon::testing::vectors::kGzip); }

// "hello energon\n", 1000 times.
std::string hello_text() {
  std::string result;
  for (int i = 0; i < 1000; ++i) {
    result += "hello energon\n";
  }
  return result;
}

std::string expanded(std::string_view encoded, const DecodeLimits& limits = {}) {
  HeapBufferPool memory;
  return std::string(expand_gzip(exact_copy(encoded).view, limits, memory).text());
}

const auto kDecodeGzip = [](const SharedBytes& bytes) {
  HeapBufferPool memory;
  expand_gzip(bytes.view, DecodeLimits(), memory);
};

// XXH3-64 over the contents of all .gz parts of a tar, concatenated.
std::string hash_of_parts(const std::string& path, std::size_t count) {
  const auto parts = energon::testing::tar_contents(path, ".gz");
  CHECK(parts.size() == count);
  energon::Xxh3Stream hash;
  for (const std::string& part : parts) {
    hash.update(energon::as_bytes(expanded(part)));
  }
  return energon::to_hex(hash.digest());
}

}  // namespace

TEST_CASE("gzip of Python is expanded, with several members and padding", "[media][data]") {
  CHECK(expanded(hello()) == hello_text());
  CHECK(expanded(hello() + hello() + hello()) == hello_text() + hello_text() + hello_text());
  CHECK(expanded(hello() + std::string(1000, '\0')) == hello_text());
}

TEST_CASE("gzip whose last member is small expands to all members", "[media][data]") {
  // gzip.compress(b"", mtime=0): the size at the end is 0.
  const std::string nothing("\x1f\x8b\x08\0\0\0\0\0\x02\xff\x03\0\0\0\0\0\0\0\0\0", 20);
  CHECK(expanded(nothing).empty());
  CHECK(expanded(hello() + nothing) == hello_text());
  CHECK(expanded(nothing + hello()) == hello_text());
}

TEST_CASE("gzip parts of real WebDatasets are expanded", "[media][data]") {
  const auto texts = energon::testing::shared_data("webdataset/testgz.tar");
  const auto folder = energon::testing::shared_data("webdataset/compressed.tar");
  if (!texts || !folder) return energon::testing::skipped();
  // gzip of Python 3.11.7 and xxhash 4.1.0
  CHECK(hash_of_parts(*texts, 1000) == "f60c9f3785c6ef1e");
  CHECK(hash_of_parts(*folder, 3) == "9740bf281702ca94");
}

TEST_CASE("damaged gzip is refused with its place", "[media][data]") {
  CHECK(outcomes_of_cuts(kDecodeGzip, hello()) == std::set<std::string>{"corrupt_data"});
  CHECK_THAT(refusal(kDecodeGzip, hello().substr(0, 30), ErrorCode::kCorruptData),
             Catch::Contains("30 bytes end inside a member"));
  std::string wrong_checksum = hello();
  wrong_checksum[wrong_checksum.size() - 8] ^= 1;
  CHECK_THAT(refusal(kDecodeGzip, wrong_checksum, ErrorCode::kCorruptData),
             Catch::Contains("incorrect data check"));
  std::string wrong_length = hello();
  wrong_length[wrong_length.size() - 3] ^= 1;
  CHECK_THAT(refusal(kDecodeGzip, wrong_length, ErrorCode::kCorruptData),
             Catch::Contains("incorrect length check"));
  const auto flips = outcomes_of_flips(kDecodeGzip, hello());
  CHECK(flips.at("corrupt_data") > 200);
  CHECK(flips.count("internal") == 0);
}

TEST_CASE("data after gzip is refused with its place", "[media][data]") {
  CHECK_THAT(refusal(kDecodeGzip, hello() + "rubbish", ErrorCode::kCorruptData),
             Catch::Contains("incorrect header check"));
  CHECK_THAT(refusal(kDecodeGzip, hello() + std::string(3, '\0') + "x", ErrorCode::kCorruptData),
             Catch::Contains("at byte " + std::to_string(hello().size() + 3)));
  CHECK(outcome_of(kDecodeGzip, hello() + "\x1f") == "corrupt_data");
  CHECK(outcome_of(kDecodeGzip, "") == "corrupt_data");
  CHECK(outcome_of(kDecodeGzip, "plain text") == "corrupt_data");
}

TEST_CASE("gzip stops at the limit, however small the declared size", "[media][data]") {
  CHECK(expanded(hello(), {.max_bytes = 14000}) == hello_text());
  const auto decode = [](const SharedBytes& bytes) {
    HeapBufferPool memory;
    expand_gzip(bytes.view, {.max_bytes = 13999}, memory);
  };
  CHECK_THAT(refusal(decode, hello(), ErrorCode::kResourceExhausted), Catch::Contains("13999"));
  std::string small_claim = hello();
  small_claim.replace(small_claim.size() - 4, 4, std::string(4, '\0'));
  const auto decode_less = [](const SharedBytes& bytes) {
    HeapBufferPool memory;
    expand_gzip(bytes.view, {.max_bytes = 5000}, memory);
  };
  CHECK(outcome_of(decode_less, small_claim) == "resource_exhausted");
  CHECK(outcome_of(kDecodeGzip, small_claim) == "corrupt_data");
  CHECK(outcome_of(decode, hello() + hello()) == "resource_exhausted");
}
