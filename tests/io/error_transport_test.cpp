#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"

using energon::decode_error;
using energon::encode_error;
using energon::Error;
using energon::error_code;
using energon::ErrorCode;
using energon::to_error;

namespace {

Error sent(const Error& error) { return decode_error(encode_error(error)); }

template <class Exception>
Error translated(const Exception& thrown, std::string_view source) {
  return to_error(std::make_exception_ptr(thrown), source);
}

}  // namespace

TEST_CASE("any exception becomes an Error", "[io][error]") {
  const Error error =
      translated(Error(ErrorCode::kMismatch, "other data", {.path = "a.tar"}).with_detail("d"),
                 "the pipeline");
  CHECK(error.code() == ErrorCode::kMismatch);
  CHECK(std::string(error.what()) == "other data [path: a.tar]");
  CHECK(error.detail() == "d");
  const Error memory = translated(std::bad_alloc(), "the pipeline");
  CHECK(memory.code() == ErrorCode::kResourceExhausted);
  CHECK(memory.message() == "the pipeline failed: out of memory");
  const Error runtime = translated(std::runtime_error("no luck"), "the pipeline");
  CHECK(runtime.code() == ErrorCode::kUserFunction);
  CHECK(runtime.message() == "the pipeline failed: no luck");
  CHECK(translated(std::runtime_error("no luck"), "").message() == "no luck");
  const Error number = translated(7, "the pipeline");
  CHECK(number.code() == ErrorCode::kUserFunction);
  CHECK(number.message() == "the pipeline threw something that is not a std::exception");
  CHECK(to_error(std::make_exception_ptr(7), "the thread", ErrorCode::kInternal).code() ==
        ErrorCode::kInternal);
}

TEST_CASE("an error crosses processes with all its fields", "[io][error]") {
  const Error error(ErrorCode::kCorruptData, "bad header",
                    {.path = "a.tar", .byte_offset = 512, .sample_key = "k", .worker = 3});
  const Error received = sent(error);
  CHECK(received.code() == error.code());
  CHECK(std::string(received.what()) == error.what());
  CHECK(received.context().worker == 3);
  const Error plain = sent(Error(ErrorCode::kIo, "x"));
  CHECK(std::string(plain.what()) == "x");
  CHECK(plain.detail().empty());
}

TEST_CASE("the detail of an error crosses processes unchanged", "[io][error]") {
  for (const std::size_t size : {std::size_t{17}, energon::kMaxErrorDetailBytes}) {
    CAPTURE(size);
    Error error(ErrorCode::kUserFunction, std::string(100'000, 'm'),
                {.path = std::string(64'000, 'p'), .sample_key = std::string(64'000, 'k')});
    std::string detail(size, '\0');
    detail.back() = '\xFF';
    error.with_detail(detail);
    const std::string encoded = encode_error(error);
    CHECK(encoded.size() < std::size_t{500} << 10);  // less than half of the ring of samples
    CHECK(decode_error(encoded).detail() == detail);
    CHECK(decode_error(encoded).context().sample_key == error.context().sample_key);
  }
}

TEST_CASE("a message of megabytes is truncated, not lost", "[io][error]") {
  const Error error(ErrorCode::kInvalidArgument, std::string(10'000'000, 'x'));
  CHECK(sent(error).message().size() == 64 * 1024);
}

TEST_CASE("an error fits into the available bytes", "[io][error]") {
  Error error(ErrorCode::kNotFound, std::string(5000, 'm'),
              {.path = std::string(300, 'p'), .sample_key = std::string(3000, 'k')});
  error.with_detail(std::string(300, 'd'));
  for (const std::size_t most : {std::size_t{256}, std::size_t{4096}}) {
    CAPTURE(most);
    const std::string encoded = encode_error(error, most);
    CHECK(encoded.size() <= most);
    const Error received = decode_error(encoded);
    CHECK(received.code() == ErrorCode::kNotFound);
    CHECK(received.message().size() > most / 3);
    CHECK(received.context().path.has_value() == (most == 4096));
    CHECK_FALSE(received.context().sample_key.has_value());
    CHECK(received.detail().empty());
  }
}

TEST_CASE("a message is truncated between UTF-8 characters", "[io][error]") {
  for (const std::string character : {"\xC3\xBC", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    CAPTURE(character.size());
    std::string message;
    while (message.size() < 70'000) {
      message += character;
    }
    for (const char* begin : {"", "a", "ab", "abc"}) {
      CAPTURE(begin);
      const std::string received =
          sent(Error(ErrorCode::kIo, begin + message)).message().substr(std::string(begin).size());
      CHECK(received.size() > 65'000);
      CHECK(received.size() % character.size() == 0);
    }
  }
}

TEST_CASE("a damaged error is refused", "[io][error]") {
  const auto refused = [](const std::string& encoded) {
    try {
      decode_error(encoded);
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::kCorruptData;
    }
  };
  const std::string encoded =
      encode_error(Error(ErrorCode::kIo, "text", {.path = "p", .byte_offset = 1}));
  for (std::size_t size = 0; size < encoded.size(); ++size) {
    CAPTURE(size);
    CHECK(refused(encoded.substr(0, size)));
  }
  CHECK(refused(encoded + "x"));
  constexpr std::size_t kCodeAt = 28;
  REQUIRE(encoded[kCodeAt] == static_cast<char>(ErrorCode::kIo));
  for (int code = 0; code < 256; ++code) {
    CAPTURE(code);
    std::string changed = encoded;
    changed[kCodeAt] = static_cast<char>(code);
    const bool exists = error_code(static_cast<std::uint8_t>(code)).has_value();
    CHECK(exists == (code >= 1 && code <= static_cast<int>(ErrorCode::kUserFunction)));
    CHECK(refused(changed) == !exists);
  }
  for (std::size_t i = 12; i < 28; ++i) {  // lengths
    CAPTURE(i);
    std::string changed = encoded;
    changed[i] = static_cast<char>(changed[i] + 1);
    CHECK(refused(changed));
  }
}
