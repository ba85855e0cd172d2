#include "energon/worker/transport.h"

#include <memory>
#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

#include "energon/sample/sample.h"

using namespace std::string_view_literals;  // NOLINT: only for strings with NUL

using energon::ByteWriter;
using energon::Error;
using energon::ErrorCode;
using energon::PayloadPlace;
using energon::Sample;
using energon::SharedBytes;
using energon::Tensor;

namespace {

// Puts all payloads into one slot, one after the other.
class Gather final : public energon::PayloadPlacer {
 public:
  PayloadPlace place(const SharedBytes& payload) override {
    const PayloadPlace place{0, slot_.size()};
    slot_ += payload.text();
    return place;
  }
  const std::string& slot() const { return slot_; }

 private:
  std::string slot_;
};

SharedBytes bytes(std::string_view text) { return {energon::as_bytes(text), nullptr}; }

Sample example() {
  Sample sample;
  sample.keys = {"a", "b/c"};
  sample.restore_key =
      energon::RestoreKey::from_text("LogicalShard(0,1)/Batch(1)[Webdataset(0,1),Webdataset(0,2)]");
  sample.fields = {
      {"txt", energon::List{bytes("hello"), bytes("")}},
      {"mixed", energon::List{bytes("part"), std::string("text")}},
      {"label", std::int64_t{-7}},
      {"weight", 0.25},
      {"caption", std::string("caf\xc3\xa9")},
      {"tensor", Tensor{energon::DType::kInt16, {2, 1}, bytes("\1\0\2\0"sv)}},
      {"meta", energon::Mapping{{"x", energon::List{}}}},
      {"json", energon::List{energon::Null(), true, false}},
      {"tuple", energon::Tuple{{std::int64_t{1}, bytes("in a tuple"), energon::Tuple{}}}},
      {"large", energon::BigInteger("-1180591620717411303424")}};
  const auto shard = std::make_shared<const energon::SourceShard>(
      energon::SourceShard{"/data", "s.tar", R"({"kind":"text"})"});
  sample.sources = {{.shard = shard, .index_in_shard = 3},
                    {.shard = shard, .index_in_shard = 4, .bytes = {512, 1024}, .sample = 1}};
  return sample;
}

}  // namespace

TEST_CASE("a sample of all kinds of values arrives unchanged", "[loader][transport]") {
  Gather gather;
  ByteWriter writer;
  energon::encode_sample(example(), gather, writer);
  const std::vector<SharedBytes> slots = {bytes(gather.slot())};
  const Sample decoded = energon::decode_sample(writer.bytes(), slots);
  CHECK(digest(decoded) == digest(example()));
  CHECK(std::get<bool>(decoded.list("json").at(1).base()));
  CHECK(std::get<SharedBytes>(decoded.tuple("tuple").items.at(1).base()).text() == "in a tuple");
  CHECK(std::get<energon::Tuple>(decoded.tuple("tuple").items.at(2).base()).items.empty());
  CHECK(decoded.big_integer("large").digits() == "-1180591620717411303424");
  CHECK(decoded.keys == example().keys);
  CHECK(decoded.restore_key == example().restore_key);
  CHECK(decoded.sources.at(1).index_in_shard == 4);
  CHECK(decoded.sources.at(1).shard->shard_name == "s.tar");
  CHECK(decoded.sources.at(1).shard->subflavors == R"({"kind":"text"})");
  CHECK(decoded.sources.at(1).bytes == energon::ByteRange{512, 1024});
  CHECK(decoded.sources.at(1).sample == 1);
}

TEST_CASE("a damaged batch is refused or decodes to another batch, never crashes",
          "[loader][transport]") {
  Gather gather;
  ByteWriter writer;
  energon::encode_sample(example(), gather, writer);
  const std::vector<SharedBytes> slots = {bytes(gather.slot())};
  const std::string& encoded = writer.bytes();
  for (std::size_t length = 0; length < encoded.size(); ++length) {
    CAPTURE(length);
    REQUIRE_THROWS_AS(energon::decode_sample(encoded.substr(0, length), slots), Error);
  }
  for (std::size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
    CAPTURE(bit);
    std::string flipped = encoded;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      digest(energon::decode_sample(flipped, slots));
    } catch (const Error& error) {
      CHECK(
          (error.code() == ErrorCode::kCorruptData || error.code() == ErrorCode::kInvalidArgument));
    }
  }
}

TEST_CASE("lazy bytes are refused with the name of their field", "[loader][transport]") {
  class Unread final : public energon::LazySource {
   public:
    SharedBytes get() override { throw std::logic_error("transport must not fetch"); }
    std::string describe() const override { return "file 'a.jpg'"; }
  };
  Sample sample = example();
  sample.fields.emplace_back(
      "nested",
      energon::List{energon::Mapping{{"first", std::int64_t{1}},
                                     {"image", energon::LazyBytes(std::make_shared<Unread>())}}});
  Gather gather;
  ByteWriter writer;
  try {
    energon::encode_sample(sample, gather, writer);
    FAIL_CHECK("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInvalidArgument);
    CHECK_THAT(error.what(), Catch::Contains("field 'nested.image' is lazy (file 'a.jpg')") &&
                                 Catch::Contains("postencode_sample"));
  }
}

TEST_CASE("an integer whose text is not a number is damage", "[loader][transport]") {
  Sample sample;
  sample.fields = {{"n", energon::BigInteger("123456789")}};
  Gather gather;
  ByteWriter writer;
  energon::encode_sample(sample, gather, writer);
  std::string encoded = writer.bytes();
  encoded.replace(encoded.find("123456789"), 3, "1x3");
  CHECK_THROWS_WITH(energon::decode_sample(encoded, {}), Catch::Contains("a decimal integer"));
}

TEST_CASE("invalid tensors and sources are named before they leave the worker",
          "[loader][transport]") {
  const auto fails = [](const Sample& sample) -> std::string {
    Gather gather;
    ByteWriter writer;
    try {
      energon::encode_sample(sample, gather, writer);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "no error";
  };
  using energon::DType;
  int number = 0;
  for (const Tensor& tensor :
       {Tensor{DType::kInt16, {2, 1}, bytes("123")}, Tensor{DType::kInt16, {-1}, bytes("")},
        Tensor{static_cast<DType>(99), {1}, bytes("1")},
        Tensor{DType::kInt64, {INT64_MAX, INT64_MAX}, bytes("")}}) {
    INFO("tensor " << number++);
    Sample sample = example();
    sample.fields.emplace_back("outer", energon::Mapping{{"image", tensor}});
    CHECK_THAT(fails(sample), Catch::Contains("field 'outer.image' is not a valid tensor"));
  }
  Sample sample = example();
  sample.sources.emplace_back();
  CHECK_THAT(fails(sample), Catch::Contains("no shard"));
  CHECK(fails(example()) == "no error");
}

TEST_CASE("values that are nested too deeply are refused by the sender", "[loader][transport]") {
  const auto nested = [](int levels) {
    energon::Value value = std::int64_t{1};
    for (int i = 0; i < levels; ++i) {
      value = i % 3 == 0   ? energon::Value(energon::List{std::move(value)})
              : i % 3 == 1 ? energon::Value(energon::Mapping{{"inner", std::move(value)}})
                           : energon::Value(energon::Tuple{{std::move(value)}});
    }
    Sample sample;
    sample.fields = {{"deep", std::move(value)}};
    return sample;
  };
  Gather gather;
  ByteWriter writer;
  energon::encode_sample(nested(64), gather, writer);
  CHECK_NOTHROW(energon::decode_sample(writer.bytes(), {}));
  CHECK_THROWS_WITH(energon::encode_sample(nested(65), gather, writer),
                    Catch::Contains("field 'deep'") && Catch::Contains("more than 64 deep"));
}
