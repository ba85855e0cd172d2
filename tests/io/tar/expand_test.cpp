#include <catch2/catch.hpp>
#include <zlib.h>
#include <zstd.h>

#include "io/tar/compression.h"
#include "tests/io/tar/tar_verbs.h"
#include "tests/support/shared_data.h"
#include "tests/support/tar_builder.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test
using Catch::Contains;
using std::string_view_literals::operator""sv;

namespace {

std::string gzip(std::string_view content) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string result(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

std::string zstd(std::string_view content) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string result(ZSTD_compressBound(content.size()), '\0');
  const std::size_t size =
      ZSTD_compress2(context, result.data(), result.size(), content.data(), content.size());
  ZSTD_freeCCtx(context);
  REQUIRE(ZSTD_isError(size) == 0);
  result.resize(size);
  return result;
}

const std::string kSkippableFrame{"\x50\x2a\x4d\x18\x03\0\0\0abc", 11};

// Compresses well, but not extremely.
std::string some_text(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; text.size() < size; ++i) {
    text += std::to_string(i * i * 7919);
  }
  text.resize(size);
  return text;
}

class Expansion {
 public:
  std::string run(const std::string& name, std::string_view compressed,
                  const ExpandLimits& limits = {}) {
    const FileSource file(folder_.write(name, compressed));
    const UniqueFd output = create_file(output_path());
    const std::uint64_t size = expand(file, output.get(), limits);
    std::string content = read_file(output_path());
    CHECK(content.size() == size);
    return content;
  }
  std::string gz(std::string_view compressed, const ExpandLimits& limits = {}) {
    return run("a.tar.gz", compressed, limits);
  }
  std::string zst(std::string_view compressed, const ExpandLimits& limits = {}) {
    return run("a.tar.zst", compressed, limits);
  }
  Error gz_error(std::string_view compressed, const ExpandLimits& limits = {}) {
    return error_of([&] { gz(compressed, limits); });
  }
  Error zst_error(std::string_view compressed, const ExpandLimits& limits = {}) {
    return error_of([&] { zst(compressed, limits); });
  }
  std::string output_path() const { return folder_.file("expanded.tar"); }

 private:
  TempDir folder_;
};

Compression compression_of_file(std::string_view name, std::string_view content) {
  const TempDir folder;
  return compression_of(FileSource(folder.write(name, content)));
}

}  // namespace

TEST_CASE("compression is detected by name and content", "[io][tar][expand]") {
  CHECK(compression_of_file("a.tar", "x") == Compression::kNone);
  CHECK(compression_of_file("a.tgz", "\x1f\x8b\x08") == Compression::kGzip);
  CHECK(compression_of_file("v1.2.tar.gz", "\x1f\x8b\x08") == Compression::kGzip);
  CHECK(compression_of_file("a.tar.zst", zstd("x")) == Compression::kZstd);
  CHECK(compression_of_file("a.tar.zst", kSkippableFrame) == Compression::kZstd);
}

TEST_CASE("a mismatch of name and content is an error", "[io][tar][expand]") {
  CHECK_THROWS_WITH(compression_of_file("a.tar", "\x1f\x8b\x08"), Contains("name it .tar.gz"));
  CHECK_THROWS_WITH(compression_of_file("a.tgz", "<html>"), Contains("HTML"));
  CHECK_THROWS_WITH(compression_of_file("a.tgz", zstd("x")), Contains("zstd"));
  CHECK_THROWS_WITH(compression_of_file("a.tar.zst", ""), Contains("empty"));
}

TEST_CASE("gzip and zstd are expanded", "[io][tar][expand]") {
  const std::size_t size = GENERATE(0, 1, 1000, 262144, 262145, 1'000'000);
  const std::string text = some_text(size);
  Expansion expansion;
  CHECK((expansion.gz(gzip(text)) == text));
  CHECK((expansion.zst(zstd(text)) == text));
}

TEST_CASE("several members or frames in a row are one stream", "[io][tar][expand]") {
  const std::string text = some_text(300'000);
  Expansion expansion;
  CHECK((expansion.gz(gzip(text) + gzip("") + gzip("end")) == text + "end"));
  CHECK((expansion.zst(zstd(text) + kSkippableFrame + zstd("end")) == text + "end"));
  CHECK((expansion.zst(kSkippableFrame + zstd("x") + kSkippableFrame) == "x"));
}

TEST_CASE("G1: a flipped gzip checksum or length is refused", "[io][tar][expand]") {
  const std::string good = gzip(some_text(1000));
  Expansion expansion;
  for (std::size_t from_end = 1; from_end <= 8; ++from_end) {
    CAPTURE(from_end);
    std::string bad = good;
    bad[bad.size() - from_end] ^= 1;
    CHECK(expansion.gz_error(bad).code() == ErrorCode::kCorruptData);
  }
}

TEST_CASE("G2: a compressed stream truncated anywhere is refused", "[io][tar][expand]") {
  const std::string text = some_text(300);
  const std::string gz = gzip(text);
  const std::string zst = zstd(text);
  Expansion expansion;
  for (std::size_t size = 0; size < gz.size(); ++size) {
    CAPTURE(size);
    CHECK(expansion.gz_error(gz.substr(0, size)).code() == ErrorCode::kCorruptData);
  }
  for (std::size_t size = 0; size < zst.size(); ++size) {
    CAPTURE(size);
    CHECK(expansion.zst_error(zst.substr(0, size)).code() == ErrorCode::kCorruptData);
  }
  CHECK(expansion.zst_error(zst + kSkippableFrame.substr(0, 9)).code() == ErrorCode::kCorruptData);
}

TEST_CASE("a flipped bit in a compressed stream never changes the expanded data",
          "[io][tar][expand]") {
  const std::string text = some_text(60);
  Expansion expansion;
  for (const bool is_gzip : {true, false}) {
    CAPTURE(is_gzip);
    const std::string good = is_gzip ? gzip(text) : zstd(text);
    std::size_t wrong = 0;
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      try {
        wrong += (is_gzip ? expansion.gz(bad) : expansion.zst(bad)) == text ? 0U : 1U;
      } catch (const Error&) {
      }
    }
    // One bit of a zstd frame flags its checksum; without the flag, four bytes are left over.
    CHECK(wrong == 0);
  }
}

TEST_CASE("zeros that pad a gzip stream are ignored", "[io][tar][expand]") {
  Expansion expansion;
  const std::string content = some_text(1000);
  for (const std::size_t zeros : {1, 512, 1'000'000}) {
    CAPTURE(zeros);
    CHECK(expansion.run("x.tar.gz", gzip(content) + std::string(zeros, '\0')) == content);
  }
  for (const std::string& after : {std::string("g"), gzip("y")}) {
    CAPTURE(after);
    CHECK_THAT(expansion.gz_error(gzip("x") + std::string(300'000, '\0') + after).what(),
               Contains("data after the zeros that pad the gzip stream"));
  }
}

TEST_CASE("G4: anything else after a compressed stream is refused", "[io][tar][expand]") {
  Expansion expansion;
  CHECK(expansion.gz_error(gzip("x") + "garbage").code() == ErrorCode::kCorruptData);
  CHECK(expansion.zst_error(zstd("x") + "garbage").code() == ErrorCode::kCorruptData);
  CHECK(expansion.zst_error(zstd("x") + '\0').code() == ErrorCode::kCorruptData);
}

TEST_CASE("G5: a zstd window above the limit is refused, naming the limit", "[io][tar][expand]") {
  // Magic, a frame header with a window of 2^31, one empty last block.
  const std::string frame{"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", 9};
  Expansion expansion;
  const Error error = expansion.zst_error(frame);
  CHECK(error.code() == ErrorCode::kResourceExhausted);
  CHECK_THAT(error.what(), Contains("2^27") && Contains("max_zstd_window_log"));
}

TEST_CASE("G6: a decompression bomb is refused", "[io][tar][expand]") {
  const std::string zeros(std::size_t{4} << 20, '\0');
  Expansion expansion;
  const ExpandLimits by_ratio{.free_output_bytes = std::uint64_t{1} << 20};
  CHECK_THAT(expansion.gz_error(gzip(zeros), by_ratio).what(), Contains("max_ratio"));
  CHECK_THAT(expansion.zst_error(zstd(zeros), by_ratio).what(), Contains("max_ratio"));
  const ExpandLimits by_size{.max_output_bytes = 1'000'000};
  const Error error = expansion.gz_error(gzip(zeros), by_size);
  CHECK(error.code() == ErrorCode::kResourceExhausted);
  CHECK_THAT(error.what(), Contains("max_output_bytes"));
  CHECK((expansion.gz(gzip(zeros)) == zeros));
}

TEST_CASE("a shard that is not compressed is not expanded", "[io][tar][expand]") {
  Expansion expansion;
  CHECK(error_of([&] { expansion.run("a.tar", "x"); }).code() == ErrorCode::kInvalidArgument);
}

TEST_CASE("a full disk is an error of the system", "[io][tar][expand]") {
  const TempDir folder;
  const FileSource file(folder.write("a.tgz", gzip("hello")));
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  CHECK(error_of([&] { expand(file, full.get()); }).code() == ErrorCode::kIo);
}

TEST_CASE("libarchive reads the same members from the compressed shard", "[io][tar][expand]") {
  const std::string tar = TarBuilder()
                              .file("a.txt", some_text(100'000))
                              .pax({{"path", "b.txt"}})
                              .file("s", "2")
                              .end()
                              .text();
  const TempDir folder;
  const FileSource gz(folder.write("a.tar.gz", gzip(tar)));
  const FileSource zst(folder.write("a.tar.zst", zstd(tar)));
  CHECK(all_members(ArchiveReader(gz, compression_of(gz))) == walk(tar));
  CHECK(all_members(ArchiveReader(zst, compression_of(zst))) == walk(tar));
  // Nothing is decompressed unless requested.
  CHECK_THROWS_AS(ArchiveReader(gz), Error);
}

TEST_CASE("a real compressed shard is expanded and scanned", "[io][tar][expand]") {
  const auto path = shared_data("webdataset/sample.tgz");
  if (!path) {
    return skipped();
  }
  const TempDir folder;
  const FileSource compressed(*path);
  const UniqueFd output = create_file(folder.file("sample.tar"));
  expand(compressed, output.get());
  const FileSource expanded(folder.file("sample.tar"));
  const ShardScan result = scan_shard(expanded);
  CHECK(result.samples.size() == 90);
  for (const ScannedSample& sample : result.samples) {
    CAPTURE(sample.key);
    REQUIRE(sample.parts.size() == 2);
  }
  CHECK(all_members(TarFileWalker(expanded)) ==
        all_members(ArchiveReader(compressed, Compression::kGzip)));
}
