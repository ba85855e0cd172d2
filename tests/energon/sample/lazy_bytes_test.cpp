#include <memory>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "energon/read/lazy_file.h"
#include "energon/sample/sample.h"
#include "io/error.h"
#include "io/store/file_cache.h"
#include "io/store/file_store.h"
#include "tests/support/temp_dir.h"

using energon::Error;
using energon::ErrorCode;
using energon::FileCache;
using energon::FolderFileStore;
using energon::lazy_bytes;
using energon::LazyBytes;
using energon::List;
using energon::Mapping;
using energon::Sample;
using energon::SharedBytes;
using energon::Value;
using energon::testing::TempDir;

namespace {

class Fixed final : public energon::LazySource {
 public:
  explicit Fixed(std::string_view text) : text_(text) {}
  SharedBytes get() override {
    ++gets;
    return {energon::as_bytes(text_), nullptr};
  }
  std::string describe() const override { return "a fixed text"; }

  int gets = 0;

 private:
  const std::string_view text_;
};

SharedBytes bytes(std::string_view text) { return {energon::as_bytes(text), nullptr}; }

Sample nested(Value value) {
  Sample sample;
  sample.fields = {{"txt", bytes("x")}, {"list", List{Mapping{{"image", std::move(value)}}}}};
  return sample;
}

}  // namespace

TEST_CASE("lazy bytes have the digest of the bytes they fetch", "[energon][lazy]") {
  const auto source = std::make_shared<Fixed>("hello");
  CHECK(digest(nested(LazyBytes(source))) == digest(nested(bytes("hello"))));
  CHECK(source->gets == 1);
  CHECK(digest(nested(LazyBytes(source))) != digest(nested(bytes("hallo"))));
}

TEST_CASE("lazy bytes do not count as payload", "[energon][lazy]") {
  const auto source = std::make_shared<Fixed>("hello");
  CHECK(payload_bytes(nested(LazyBytes(source))) == 1);
  CHECK(source->gets == 0);
}

TEST_CASE("lazy bytes must be fetched by name", "[energon][lazy]") {
  Sample sample;
  sample.fields = {{"image", LazyBytes(std::make_shared<Fixed>("hello"))}};
  CHECK_THROWS_WITH(sample.bytes("image"), Catch::Contains("LazyBytes::get()"));
  CHECK(std::get<LazyBytes>(sample.at("image").base()).get().text() == "hello");
}

TEST_CASE("lazy bytes without a source are refused", "[energon][lazy]") {
  CHECK_THROWS_AS(LazyBytes(nullptr), Error);
  CHECK_THROWS_AS(lazy_bytes(nullptr), Error);
  LazyBytes moved(std::make_shared<Fixed>("hello"));
  const LazyBytes taken = std::move(moved);
  CHECK(taken.get().text() == "hello");
  CHECK_THROWS_AS(moved.get(), Error);  // NOLINT: use after move is what this tests
}

TEST_CASE("a cached file stays as long as a sample holds its bytes", "[energon][lazy]") {
  const TempDir folder;
  const TempDir files;
  files.write("a.jpg", "pixels");
  FileCache cache({.parent_folder = folder.path()});
  Sample sample;
  sample.fields = {
      {"image", lazy_bytes(cache.get_lazy(
                    files.path(), [&] { return std::make_unique<FolderFileStore>(files.path()); },
                    "a.jpg"))}};
  Sample copy = sample;
  cache.wait_until_settled();
  sample = {};
  CHECK(cache.usage().files == 1);
  const auto& lazy = std::get<LazyBytes>(copy.at("image").base());
  CHECK(lazy.get().text() == "pixels");
  CHECK(lazy.get().text() == "pixels");
  CHECK(lazy.describe() == "file 'a.jpg' of " + files.path());
  copy = {};
  CHECK(cache.usage().files == 0);
}
