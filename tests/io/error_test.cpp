#include "io/error.h"

#include <cerrno>

#include <catch2/catch.hpp>

using energon::Error;
using energon::ErrorCode;

TEST_CASE("every error code has a distinct name", "[io][error]") {
  std::vector<std::string_view> names;
  for (int code = 1; code <= static_cast<int>(ErrorCode::kUserFunction); ++code) {
    CAPTURE(code);
    const std::string_view name = energon::to_string(static_cast<ErrorCode>(code));
    CHECK(name != "unknown");
    CHECK(std::count(names.begin(), names.end(), name) == 0);
    names.push_back(name);
  }
}

TEST_CASE("an error describes what and where, and context set first wins", "[io][error]") {
  Error error(ErrorCode::kCorruptData, "bad header checksum", {.byte_offset = 512});
  error.with({.path = "a.tar", .byte_offset = 0, .sample_key = "k\n1", .worker = 3});
  CHECK(std::string(error.what()) ==
        "bad header checksum [path: a.tar, byte: 512, sample: k\\x0a1, worker: 3]");
}

TEST_CASE("a detail stays with its error, does not appear in its message, and is bounded",
          "[io][error]") {
  Error error(ErrorCode::kUserFunction, "no such word");
  CHECK(error.detail().empty());
  const std::string bytes("pickled\0traceback", 17);
  error.with_detail(bytes).with({.worker = 2});
  CHECK(error.detail() == bytes);
  CHECK(error.what() == std::string("no such word [worker: 2]"));
  const Error copy = error;
  error.with_detail("");
  CHECK(error.detail().empty());
  CHECK(copy.detail() == bytes);
  error.with_detail(std::string(energon::kMaxErrorDetailBytes, 'x'));
  CHECK(error.detail().size() == energon::kMaxErrorDetailBytes);
  error.with_detail(std::string(energon::kMaxErrorDetailBytes + 1, 'x'));
  CHECK(error.detail().empty());
}

TEST_CASE("an io error names the operation and the system's reason", "[io][error]") {
  CHECK(energon::io_error("cannot open file", ENOENT).code() == ErrorCode::kNotFound);
  CHECK(energon::io_error("cannot open file", EACCES).message() ==
        "cannot open file: Permission denied");
}

TEST_CASE("printable keeps UTF-8 and escapes control characters and broken sequences",
          "[io][error]") {
  CHECK(energon::printable("caf\xc3\xa9") == "caf\xc3\xa9");
  CHECK(energon::printable("\x1b[31m\x7f") == "\\x1b[31m\\x7f");
  CHECK(energon::printable("caf\xe9!") == "caf\\xe9!");
  CHECK(energon::printable("\xe2\x82\xac \xf0\x9f\x98\x80") == "\xe2\x82\xac \xf0\x9f\x98\x80");
  // Overlong forms, a surrogate, beyond the last code point, truncated.
  CHECK(energon::printable("\xc0\x80\x80") == "\\xc0\\x80\\x80");
  CHECK(energon::printable("\xe0\x80\x80") == "\\xe0\\x80\\x80");
  CHECK(energon::printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(energon::printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
  CHECK(energon::printable("\xe2\x82") == "\\xe2\\x82");
}
