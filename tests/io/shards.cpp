#include "tests/io/shards.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <zlib.h>

#include "io/file.h"
#include "tests/support/tar_builder.h"

namespace energon::testing {

std::string make_shard(int first, int count) {
  TarBuilder tar;
  for (int i = first; i < first + count; ++i) {
    const std::string key = fmt::format("{:06d}", i);
    tar.file(key + ".txt", key).file(key + ".bin", std::string(1000, static_cast<char>(i)));
  }
  return tar.end().text();
}

std::string gzip(std::string_view bytes) {
  constexpr int kGzipWindow = 15 + 16;
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

PrepareReport prepare_folder(const std::string& path, const PrepareOptions& options) {
  SilentSink sink;
  return prepare(path, options, sink);
}

std::pair<ErrorCode, std::string> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, ""};
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) {
      files.push_back(entry.path().lexically_relative(folder).string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void change_byte(const std::string& path, std::size_t offset, int delta) {
  std::string content = read_file(path);
  content.at(offset) = static_cast<char>(content.at(offset) + delta);
  std::ofstream(path, std::ios::binary) << content;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace energon::testing
