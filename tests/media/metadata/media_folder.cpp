#include "tests/media/metadata/media_folder.h"

#include <memory>
#include <vector>

#include <sqlite3.h>

#include "io/error.h"
#include "io/file.h"
#include "io/prepare/prepare.h"
#include "io/shared_folder.h"
#include "io/tar/compression.h"
#include "io/tar/tar_walker.h"
#include "tests/support/tar_builder.h"

namespace energon::testing {
namespace {

class NoSink final : public ProgressSink {
 public:
  void on_progress(const PrepareProgress& /*progress*/) override {}
};

// Rows of `sql`, their columns joined by tabs.
std::vector<std::string> query(const std::string& dataset_path, const std::string& sql) {
  sqlite3* raw = nullptr;
  const std::string path = dataset_path + "/.nv-meta/index.sqlite";
  const int opened = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> db(raw, &sqlite3_close);
  std::vector<std::string> rows;
  const auto take = [](void* to, int count, char** values, char** /*names*/) {
    std::string row;
    for (int i = 0; i < count; ++i) {
      row += std::string(i == 0 ? "" : "\t") + (values[i] != nullptr ? values[i] : "NULL");
    }
    static_cast<std::vector<std::string>*>(to)->push_back(row);
    return 0;
  };
  if (opened != SQLITE_OK ||
      sqlite3_exec(db.get(), sql.c_str(), take, &rows, nullptr) != SQLITE_OK) {
    throw Error(ErrorCode::kIo, sqlite3_errmsg(db.get()), {.path = path});
  }
  return rows;
}

}  // namespace

std::string vector_path(std::string_view name) {
  return std::string(ENERGON_SOURCE_DIR "/tests/media/metadata/data/") + std::string(name);
}

const std::map<std::string, std::string>& vector_files() {
  static const std::map<std::string, std::string> files = [] {
    const TempDir folder;
    NewFile expanded(folder.file("media.tar"));
    expand(FileSource(vector_path("media.tgz")), expanded.fd());
    expanded.replace();
    std::map<std::string, std::string> found;
    const FileSource tar(folder.file("media.tar"));
    TarFileWalker walker(tar, 0, tar.size());
    while (const auto member = walker.next()) {
      found[std::string(member->name)] =
          read_bytes(tar, {.offset = member->data_offset, .size = member->size}).text();
    }
    return found;
  }();
  return files;
}

std::string shard_of(const std::map<std::string, std::string>& files) {
  TarBuilder tar;
  for (const auto& [name, content] : files) {
    tar.file(name, content);
  }
  return tar.end().text();
}

MediaFolder::MediaFolder() : MediaFolder({{"a.tar", vector_files()}}) {}

MediaFolder::MediaFolder(const std::map<std::string, std::map<std::string, std::string>>& shards) {
  for (const auto& [name, files] : shards) {
    folder_.write("d/" + name, shard_of(files));
  }
  NoSink sink;
  prepare(path(), {.threads = 2}, sink);
}

MediaMetadataReport MediaFolder::add(const MediaFilter& filter,
                                     MediaMetadataOptions options) const {
  options.threads = 2;
  return add_media_metadata(path(), filter, options);
}

std::map<std::string, std::string> media_rows(const std::string& dataset_path) {
  std::map<std::string, std::string> rows;
  for (const std::string& row :
       query(dataset_path, "SELECT entry_key, metadata_type, metadata_json FROM media_metadata")) {
    const std::size_t tab = row.find('\t');
    rows[row.substr(0, tab)] = row.substr(tab + 1);
  }
  return rows;
}

std::string media_filters(const std::string& dataset_path) {
  std::string text;
  for (const std::string& row :
       query(dataset_path, "SELECT filter_id, strategy, patterns FROM media_filters ORDER BY 1")) {
    text += row + "\n";
  }
  return text;
}

}  // namespace energon::testing
