#include "io/index/sample_index_writer.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/index/sqlite_handle.h"
#include "io/path_exists.h"
#include "io/unique_fd.h"

namespace energon {
namespace {

// One transaction per this many rows bounds what SQLite keeps in memory.
constexpr std::int64_t kRowsPerTransaction = 100'000;

constexpr const char* kSettings =
    "PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
    "PRAGMA locking_mode = EXCLUSIVE";

constexpr const char* kTables =
    "CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, "
    "sample_index INTEGER NOT NULL, byte_offset INTEGER, byte_size INTEGER);"
    "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, "
    "content_byte_offset INTEGER, content_byte_size INTEGER)";

// Made before the rows come, which come in the order of these indices. Making them at the end takes
// less time, but sorts all rows: in memory, or in a temporary folder that may be small.
constexpr const char* kIndices =
    "CREATE INDEX idx_samples_by_tar_and_idx ON samples(tar_file_id, sample_index);"
    "CREATE INDEX idx_sample_parts_seq "
    "ON sample_parts(tar_file_id, sample_index, content_byte_offset);"
    "CREATE INDEX idx_sample_parts_full ON sample_parts"
    "(tar_file_id, sample_index, part_name, content_byte_offset, content_byte_size)";

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

void sync_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) {
    throw io_error("cannot sync file", errno, {.path = path});
  }
}

}  // namespace

struct SampleIndexWriter::Connection {
  // Without locks, which some file systems don't have: nobody else knows the file.
  Connection(const std::string& path, std::uint64_t cache_bytes)
      : db(open_sqlite(
            sqlite_uri(path, "vfs=unix-none"),
            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI,
            path)) {
    execute(db.get(), kSettings, path);
    execute(db.get(), fmt::format("PRAGMA cache_size = -{}", cache_bytes >> 10).c_str(), path);
    execute(db.get(), kTables, path);
    execute(db.get(), kIndices, path);
    insert_sample.emplace(db.get(),
                          "INSERT OR IGNORE INTO samples (tar_file_id, sample_key, sample_index, "
                          "byte_offset, byte_size) VALUES (?1, ?2, ?3, ?4, ?5)",
                          path);
    insert_part.emplace(db.get(),
                        "INSERT INTO sample_parts (tar_file_id, sample_index, part_name, "
                        "content_byte_offset, content_byte_size) VALUES (?1, ?2, ?3, ?4, ?5)",
                        path);
    find_sample.emplace(db.get(),
                        "SELECT tar_file_id, sample_index, byte_offset, byte_size FROM samples "
                        "WHERE sample_key = ?1",
                        path);
    execute(db.get(), "BEGIN", path);
  }

  SqlitePtr db;
  std::optional<Statement> insert_sample;
  std::optional<Statement> insert_part;
  std::optional<Statement> find_sample;
};

SampleIndexWriter::SampleIndexWriter(std::string path, std::uint64_t cache_bytes)
    : path_(std::move(path)) {
  if (path_exists(path_)) {
    throw Error(ErrorCode::kIo, "index database: exists already", {.path = path_});
  }
  connection_ = std::make_unique<Connection>(path_, cache_bytes);
}

SampleIndexWriter::~SampleIndexWriter() = default;

void SampleIndexWriter::count_row() {
  if (++rows_in_transaction_ == kRowsPerTransaction) {
    execute(connection_->db.get(), "COMMIT; BEGIN", path_);
    rows_in_transaction_ = 0;
  }
}

std::optional<SampleLocation> SampleIndexWriter::add_sample(std::string_view key,
                                                            const SampleLocation& location) {
  Statement& insert = *connection_->insert_sample;
  insert.reset();
  insert.bind(1, location.tar_file_id);
  insert.bind(2, key);
  insert.bind(3, location.sample_index);
  insert.bind(4, as_signed(location.bytes.offset));
  insert.bind(5, as_signed(location.bytes.size));
  insert.step();
  if (sqlite3_changes(connection_->db.get()) == 1) {
    count_row();
    return std::nullopt;
  }
  Statement& find = *connection_->find_sample;
  find.reset();
  find.bind(1, key);
  if (!find.step()) {
    throw Error(ErrorCode::kInternal, "index database: a row was refused for no reason",
                {.path = path_, .sample_key = std::string(key)});
  }
  SampleLocation first{.tar_file_id = find.integer(0),
                       .sample_index = find.integer(1),
                       .bytes = {.offset = static_cast<std::uint64_t>(find.integer(2)),
                                 .size = static_cast<std::uint64_t>(find.integer(3))}};
  find.reset();
  return first;
}

void SampleIndexWriter::add_part(std::int64_t tar_file_id, std::int64_t sample_index,
                                 std::string_view part, ByteRange content) {
  Statement& insert = *connection_->insert_part;
  insert.reset();
  insert.bind(1, tar_file_id);
  insert.bind(2, sample_index);
  insert.bind(3, part);
  insert.bind(4, as_signed(content.offset));
  insert.bind(5, as_signed(content.size));
  insert.step();
  count_row();
}

void SampleIndexWriter::finish() {
  execute(connection_->db.get(), "COMMIT", path_);
  connection_.reset();
  sync_file(path_);
}

std::string make_uuid() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw io_error("cannot get random bytes", errno);
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);  // version 4
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);  // variant of RFC 4122
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  }
  return text;
}

}  // namespace energon
