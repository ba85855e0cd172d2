// Encoded parts for tests, and functions that damage them.

#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "io/json.h"

namespace energon::testing {

/// The part whose base64 is in vectors.h.
inline std::string stored_part(std::string_view base64) {
  const auto result = from_base64(base64);
  REQUIRE(result);
  return *result;
}

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A file of tests/media/data/data.
inline std::string data_file(const std::string& name) {
  return file_text(std::filesystem::path(ENERGON_SOURCE_DIR) / "tests/media/data/data" / name);
}

/// The contents of the files in a plain tar of short names, in order.
inline std::vector<std::string> tar_contents(const std::string& path, std::string_view suffix) {
  constexpr std::size_t kBlock = 512;
  std::vector<std::string> result;
  const std::string tar = file_text(path);
  for (std::size_t at = 0; at + kBlock <= tar.size() && tar[at] != '\0';) {
    const std::size_t size = std::stoull(tar.substr(at + 124, 11), nullptr, 8);
    const std::string name(tar.c_str() + at);
    if (name.ends_with(suffix)) {
      result.push_back(tar.substr(at + kBlock, size));
    }
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return result;
}

/// A copy in memory of exactly its size, so that sanitizers see reads after the end.
inline SharedBytes exact_copy(std::string_view text) {
  auto memory = std::make_shared<std::unique_ptr<std::byte[]>>(new std::byte[text.size()]);
  if (!text.empty()) {
    std::memcpy(memory->get(), text.data(), text.size());
  }
  return {.view = ByteView(memory->get(), text.size()), .owner = memory};
}

/// Whether names and contents are equal. Prints nothing.
inline bool is_same(const Value& left, const Value& right) {
  Sample a;
  Sample b;
  a.fields = {{"x", left}};
  b.fields = {{"x", right}};
  return digest(a) == digest(b);
}

/// The name of the kind of Error that `decode` throws for `text`, or "value" if it returns one.
template <class Decode>
std::string outcome_of(const Decode& decode, std::string_view text) {
  const SharedBytes bytes = exact_copy(text);
  try {
    decode(bytes);
  } catch (const Error& error) {
    CHECK_FALSE(error.message().empty());
    return std::string(to_string(error.code()));
  }
  return "value";
}

/// The message of the Error with `code` that `decode` throws.
template <class Decode>
std::string refusal(const Decode& decode, std::string_view text, ErrorCode code) {
  try {
    decode(exact_copy(text));
  } catch (const Error& error) {
    CHECK(to_string(error.code()) == to_string(code));
    return error.message();
  }
  return "nothing was refused";
}

/// The outcomes for `text` truncated to each length, from 0 bytes.
template <class Decode>
std::set<std::string> outcomes_of_cuts(const Decode& decode, const std::string& text) {
  std::set<std::string> result;
  for (std::size_t size = 0; size < text.size(); ++size) {
    result.insert(outcome_of(decode, std::string_view(text).substr(0, size)));
  }
  return result;
}

/// The number of each outcome if one byte is changed: each byte in four ways.
template <class Decode>
std::map<std::string, int> outcomes_of_flips(const Decode& decode, const std::string& text) {
  std::map<std::string, int> result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const int mask : {0x01, 0x20, 0x80, 0xFF}) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ mask);
      ++result[outcome_of(decode, changed)];
    }
  }
  return result;
}

/// The elements of a tensor.
template <class Number>
std::vector<Number> numbers_of(const Value& value) {
  const auto& tensor = std::get<Tensor>(value.base());
  REQUIRE(size_of(tensor.dtype) == sizeof(Number));
  std::vector<Number> result(tensor.data.size() / sizeof(Number));
  if (!result.empty()) {
    std::memcpy(result.data(), tensor.data.view.data(), tensor.data.size());
  }
  return result;
}

/// "float32 (2, 3)"
inline std::string kind_of(const Value& value) { return describe(value); }

}  // namespace energon::testing
